"""The shipped test kit: port contracts, a mock session, assertions."""
