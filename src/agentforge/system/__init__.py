"""Access to the machine that the runtime and the adapters share: files and short helper programs.

files: reading and writing below a project. disk: the system calls of the log, so that tests can make them
fail. programs: short helper programs. git: how git is called, so that a
repository starts no program. None of them knows about runs.
"""
