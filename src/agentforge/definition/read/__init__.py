"""Trees to specs: every mapping of a definition file is declared as a table of its keys."""
