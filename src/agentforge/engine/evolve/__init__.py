"""The state after an event. `run` is the entry; stages, blocks and attempts have a file each."""
