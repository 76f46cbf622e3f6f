"""Decides what happens next, from the plan and the state. `run` is the entry point."""
