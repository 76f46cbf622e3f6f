"""This machine: its processes, files, clock, desktop, tmux and programs.

git_trees, tree_scan: the tree of the project's files, with git and without; known_files: what is known of
them since the last tree; git_objects, git_references, marked_tree: how trees are stored. processes:
identities, marks, signals. project_files: what a compiler reads. probe: what `doctor` looks at.
"""
