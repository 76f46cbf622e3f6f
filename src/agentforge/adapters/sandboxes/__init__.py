"""What agent programs can be confined by.

bwrap, docker: the sandboxes. mounts: which path is seen how, in which order. program_files: what a program
needs of folders that are hidden otherwise. builtin: all of them by name.
"""
