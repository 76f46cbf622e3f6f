"""What people and tools look at, folded from the log. Pure.

summary: counters and health. history: the latest iterations. state_file: state.json. status: what
`status` shows. stage_progress: how far each stage is. event_line: one line of `tail`. run_line: an event
in words. durations, plain_text: how times, amounts and other people's text are written.
"""
