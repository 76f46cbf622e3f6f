"""The operations behind every surface: starting and continuing runs, providers, recordings, diagnosis."""
