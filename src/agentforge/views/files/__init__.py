"""The files of a run that people and agents read."""
