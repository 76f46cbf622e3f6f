"""The state after an event. `run` is the entry point; stages, blocks and attempts have a module each."""
