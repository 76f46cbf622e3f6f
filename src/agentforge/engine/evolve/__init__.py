"""The state after an event. `run` is the entry point; sessions, requests, stages, blocks and attempts have a
module each."""
