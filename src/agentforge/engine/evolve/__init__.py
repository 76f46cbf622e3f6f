"""The state after an event. `run` is the entry point; sessions, requests, stages, blocks and tasks have a
module each."""
