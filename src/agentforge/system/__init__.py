"""Access to the machine that the runtime and the adapters share: files and short helper programs.

files: the files of a run, without links. confined: the user's files in the workspace. folders: how both
resolve paths. linux: the system call for it, and what protects a process. disk: the system calls of the log,
so that tests can make them fail. programs: short helper programs. tools: where the engine's own are found.
git: how git is called, so that a repository starts no program. repository: which files decide what git
executes. work_limit: work that must end in time. None of them knows about runs.
"""
