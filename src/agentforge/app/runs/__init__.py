"""Runs of a project: finding, starting, resuming and driving them."""
