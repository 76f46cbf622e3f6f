"""Views for people and tools, folded from the log. Pure.

run_model: the fold that all views read, with counters and health. history: the latest iterations.
status: the data of `status`. stage_progress: the progress of each stage. lines: printed lines. files: files
of a run. text: formatting of durations, amounts and untrusted text.
"""
