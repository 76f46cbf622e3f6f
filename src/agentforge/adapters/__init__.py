"""Implementations of the ports, named for the technology. Imports ports and model only."""
