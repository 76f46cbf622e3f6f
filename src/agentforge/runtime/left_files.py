"""What others leave in a run's folder: controls and answers, drafts, and what is refused.

Controls and answers are files, so that any process can write them and nothing is lost if no engine is
running. An agent may write there, too: the name of a file is its id. What isn't valid, and what stands in the
place of a file or folder of the run, is recorded as refused and moved aside.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct

from agentforge.model import facts as f
from agentforge.model.errors import NOT_JSON, StorageFailed
from agentforge.model.layout import RunLayout
from agentforge.model.state import MAX_REFUSED, RefusedFile
from agentforge.runtime.journal import Journal
from agentforge.system import files

T = TypeVar("T")

Refuse = Callable[[str, str], None]
"""Given a path and the reason why what is there can't be used."""

MAX_FILE_BYTES = 256 * 1024
"""More than the longest text with every character escaped."""

_MAX_NAME_BYTES = 200
_LATEST = 2
"""How many iterations of a stage are searched for drafts: an engine writes only to the latest ones."""
_MAX_DEPTH = 8
_CAN_USE_EFFECTIVE_IDS = os.access in os.supports_effective_ids
_NOT_THE_FILES_FAULT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO})


def leave(_path: str, _reason: str) -> None:
    """For a process that doesn't own the run: its engine refuses what is invalid."""


def is_folder(path: str, refuse: Refuse) -> bool:
    """Whether the folder exists. Anything else in its place, also a link, is refused."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(mode):
        refuse(path, "it is not a folder")
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK, effective_ids=_CAN_USE_EFFECTIVE_IDS):
        refuse(path, "it is not readable and writable")
    else:
        return True
    return False


def read_left(path: str, type: type[T]) -> T | None:
    """The content of a small regular file, or None if it is invalid: it must not end the run."""
    try:
        about = os.lstat(path)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_FILE_BYTES:
            return None
        return msgspec.json.decode(files.read_bytes(path, MAX_FILE_BYTES) or b"", type=type)
    except (FileNotFoundError, UnicodeDecodeError, *NOT_JSON):
        return None
    except StorageFailed as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _NOT_THE_FILES_FAULT:
            raise
        return None


def leave_file(folder: str, id: str, value: Struct) -> bool:
    """Write the file, durably; False if there is one with that id."""
    files.make_dir(folder)
    with files.storage(folder):
        # Even if the folder exists: its creator may have died before it synced the name.
        files.sync_directory(os.path.dirname(folder))
    return files.place(os.path.join(folder, f"{id}.json"), files.compact(value))


class Refusals:
    """Collects what an engine can't use, and refuses it together. Only the owner of the run may do so."""

    def __init__(self, journal: Journal, layout: RunLayout) -> None:
        self._journal = journal
        self._layout = layout
        self._found: dict[str, tuple[str, RefusedFile]] = {}
        """By the path: where it will be moved, and what is recorded of it."""

    def add(self, path: str, reason: str) -> None:
        """More than can be remembered at once are left for the next time; each file is refused once."""
        if path in self._found or len(self._found) == MAX_REFUSED:
            return
        folder, name = os.path.split(path)
        kept = os.fsdecode(os.fsencode(name)[:_MAX_NAME_BYTES])
        target = files.free_name(os.path.join(folder, f"{kept}.refused"))
        names = (_text(self._layout.relative(path)), _text(os.path.basename(target)))
        self._found[path] = target, RefusedFile(names[0], reason, names[1])

    def settle(self) -> None:
        # Recorded first, so that a crash can't hide it. What was recorded and not moved is found again by the
        # next engine, which moves it without recording it twice.
        if not self._found:
            return
        known = self._journal.state.refused
        for _, file in self._found.values():
            if file not in known:
                fact = f.FileRefused(file.name, file.reason, file.moved_to)
                self._journal.record(fact, self._journal.state.cursor)
        self._journal.wait_for_disk()
        for path, (target, _) in self._found.items():
            try:
                files.move(path, target)
            except StorageFailed:
                if os.path.lexists(path):
                    raise
        self._found.clear()


def _text(name: str) -> str:
    """The name of a file as text, which the log can hold."""
    return os.fsencode(name).decode("utf-8", "replace")


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


def remove_run_drafts(layout: RunLayout) -> None:
    """Remove what an engine or a command was writing when it was killed. The caller holds the run's lease.
    Folders of attempts belong to their supervisors."""
    for folder in _folders(layout.root, _MAX_DEPTH):
        files.remove_drafts(folder)


def _folders(folder: str, depth: int) -> Iterator[str]:
    yield folder
    if depth == 0:
        return
    names = files.subfolders(folder)
    if os.path.basename(folder) == "iterations":
        names, depth = sorted(names, key=lambda name: (len(name), name))[-_LATEST:], 1
    for name in names:
        yield from _folders(os.path.join(folder, name), depth - 1)
