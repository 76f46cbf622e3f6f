"""What the runtime and the adapters share of the machine: files and short helper programs.

files: reading and writing below a project. disk: what the log needs of it, so that tests can let it fail.
programs: short helper programs. None of them knows anything of runs.
"""
