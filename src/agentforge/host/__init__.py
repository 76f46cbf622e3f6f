"""What the runtime and the adapters share of the machine: files and short helper programs.

files: reading and writing below a project. Knows nothing of runs.
"""
