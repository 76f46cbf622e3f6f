"""Contents of a run's files for people and agents."""
