"""What people and tools look at, folded from the log. Pure.

summary: counters and health. history: the latest iterations. state_file: state.json. status: what
`status` shows. event_line: one line of `tail`.
"""
