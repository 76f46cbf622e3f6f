"""The providers of a project: which there are, setting them up, whether they can be used."""
