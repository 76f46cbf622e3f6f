"""Hides the folders of runs and locks from git, so that an agent that stages, stashes or cleans up its
repository neither publishes nor removes its own run."""

import os

from agentforge.model.layout import locks_dir, runs_dir
from agentforge.system import files

IGNORE_ALL = b"*\n"


def hide_from_git(project: str) -> None:
    """A `.gitignore` that is there already is kept."""
    for folder in (runs_dir(project), locks_dir(project)):
        path = os.path.join(folder, ".gitignore")
        if not os.path.lexists(path):
            files.make_dir(folder)
            files.place(path, IGNORE_ALL)
        files.remove_drafts(folder, os.path.basename(path))
