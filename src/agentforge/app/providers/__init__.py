"""The providers of a project: finding, initializing and validating them."""
