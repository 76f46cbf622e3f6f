"""Access to the machine that the runtime and the adapters share: files and short helper programs.

files: reading and writing below a project. disk: the system calls of the log, so that tests can make them
fail. programs: short helper programs. None of them knows about runs.
"""
