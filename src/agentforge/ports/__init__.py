"""Protocols between the engine and the world, named for their role."""
