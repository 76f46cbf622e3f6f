"""Hand-made bugs, put into a copy of the source one at a time: `make mutants` says which the tests notice."""
