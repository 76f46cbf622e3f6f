"""The event log in `events.jsonl`."""
