"""Refuses what an engine finds in a run's folders and can't use: it is recorded, then moved aside.

Recorded first, so that a crash can't hide it. What was recorded and not moved is moved by the next engine,
and not recorded again.
"""

import os

from msgspec import Struct

from agentforge.model import facts as f
from agentforge.model.errors import StorageFailed
from agentforge.model.layout import RunLayout
from agentforge.model.state import MAX_REFUSED, RefusedFile
from agentforge.runtime.journal import Journal
from agentforge.runtime.left_files import Refuse
from agentforge.system import files

_MAX_NAME_BYTES = 200


class _Refusal(Struct, frozen=True):
    path: str
    target: str
    reported: RefusedFile

    def move(self) -> None:
        try:
            files.move(self.path, self.target)
        except StorageFailed:
            if os.path.lexists(self.path):
                raise

    def fact(self) -> f.FileRefused:
        return f.FileRefused(self.reported.name, self.reported.reason, self.reported.moved_to)


def _refusal(layout: RunLayout, path: str, reason: str) -> _Refusal:
    folder, name = os.path.split(path)
    kept = os.fsdecode(os.fsencode(name)[:_MAX_NAME_BYTES])
    target = files.free_name(os.path.join(folder, f"{kept}.refused"))
    reported = RefusedFile(_text(layout.relative(path)), reason, _text(os.path.basename(target)))
    return _Refusal(path, target, reported)


def _text(name: str) -> str:
    """The name of a file as text, which the log can hold."""
    return os.fsencode(name).decode("utf-8", "replace")


class Refusals:
    """Collects files, and refuses them together. Only the owner of the run may do so."""

    def __init__(self, journal: Journal, layout: RunLayout) -> None:
        self._journal = journal
        self._layout = layout
        self._found: list[_Refusal] = []

    def add(self, path: str, reason: str) -> None:
        """More than can be remembered at once are left for the next time; each file is refused once."""
        refusal = _refusal(self._layout, path, reason)
        is_new = all(known.path != refusal.path for known in self._found)
        if is_new and len(self._found) < MAX_REFUSED:
            self._found.append(refusal)

    def settle(self) -> None:
        if not self._found:
            return
        known = self._journal.state.refused
        for refusal in self._found:
            if refusal.reported not in known:
                self._journal.record(refusal.fact(), self._journal.state.cursor)
        self._journal.wait_for_disk()
        for refusal in self._found:
            refusal.move()
        self._found.clear()


def refuse_here(journal: Journal, layout: RunLayout) -> Refuse:
    """Refuses a file at once."""

    def refuse(path: str, reason: str) -> None:
        refusals = Refusals(journal, layout)
        refusals.add(path, reason)
        refusals.settle()

    return refuse


def ensure_folder(path: str, run_dir: str, refuse: Refuse) -> bool:
    """Create the folder, also if something else is on the way to it; False if it exists."""
    try:
        return files.make_dir(path)
    except StorageFailed:
        obstacle = files.obstacle(path, below=run_dir)
        if not obstacle:
            raise
        refuse(obstacle, "it is in the place of a folder of the run")
        return files.make_dir(path)
