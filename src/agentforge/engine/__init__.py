"""The pure brain: evolve, decide, retry policy. No clock, no files, no randomness."""
