"""The pure brain: evolve, decide, retry policy. No clock, no files, no randomness.

evolve: what an event makes of a state. decide: which facts to record now, and which work should be
running. Both are total: every prefix of a log is a state that can be decided about.
"""
