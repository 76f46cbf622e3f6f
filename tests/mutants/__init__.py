"""Mutations, applied one at a time to a copy of the source: `make mutants` reports which the tests catch."""
