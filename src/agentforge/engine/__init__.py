"""The pure core: evolve, decide, retry policy. No clock, no files, no randomness.

evolve: the state after an event. decide: the facts to record now, and the work that should be running.
Both are total: every prefix of a log is a state that `decide` accepts.
"""
