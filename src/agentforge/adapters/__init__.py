"""Ports made real, named for the technology. Imports ports and model only."""
