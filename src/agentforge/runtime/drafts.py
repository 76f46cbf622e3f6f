"""Removes the drafts that an engine or a command left in a run's folder when it was killed."""

import os
from collections.abc import Iterator

from agentforge.model.layout import RunLayout
from agentforge.system import files

LATEST = 2
"""How many iterations of a stage are searched: an engine writes only to the latest ones."""
MAX_DEPTH = 8


def remove_run_drafts(layout: RunLayout) -> None:
    """The caller holds the run's lease. Folders of attempts belong to their supervisors."""
    for folder in _folders(layout.root, MAX_DEPTH):
        files.remove_drafts(folder)


def _folders(folder: str, depth: int) -> Iterator[str]:
    yield folder
    if depth == 0:
        return
    names = files.subfolders(folder)
    if os.path.basename(folder) == "iterations":
        names, depth = sorted(names, key=lambda name: (len(name), name))[-LATEST:], 1
    for name in names:
        yield from _folders(os.path.join(folder, name), depth - 1)
