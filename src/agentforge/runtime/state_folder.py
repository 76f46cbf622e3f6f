"""Where the engine keeps what it must know about runs without trusting their project: the user's state
folder. Nothing in a repository, and no confined agent, can write there."""

import logging
import os
from collections.abc import Mapping
from hashlib import sha256
from typing import TypeVar

import msgspec
from msgspec import Struct

from agentforge.model.errors import NOT_JSON, LogConflict, LogCorrupt, StorageFailed
from agentforge.ports.event_log import EventLog, Head
from agentforge.system import files
from agentforge.system.confined import ConfinedFolder
from agentforge.system.disk import Disk

log = logging.getLogger("agentforge.run")

T = TypeVar("T")
HEADS, OUTPUTS = "heads", "outputs"
MAX_BYTES = 64 * 1024
MAX_COPY = 2 * 1024 * 1024
"""A copied output is smaller: an agent's message is cut at 1 MB."""


class StateFolder:
    """The files that are kept about one run folder."""

    def __init__(self, run_dir: str, environ: Mapping[str, str]) -> None:
        home = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME", ""), ".local", "state")
        self.run_dir = os.path.realpath(run_dir)
        self.root = os.path.join(os.path.realpath(home), "agentforge")
        self.problem = self._problem(home)
        """Why nothing can be kept; empty if it can."""

    def path(self, kind: str, run_id: str, run_dir: str = "") -> str:
        """The file of the run in this folder, or in another one."""
        return os.path.join(self.root, kind, f"{_digest(run_id)}-{_digest(run_dir or self.run_dir)}.json")

    def of_project(self, kind: str) -> str:
        """The file about the project, which all of its runs share; empty if nothing can be kept."""
        project = _project_of(self.run_dir)
        return "" if self.problem else os.path.join(self.root, kind, _digest(project))

    def of_other_places(self, kind: str, run_id: str) -> list[str]:
        """The files that are kept about the same run in other folders."""
        folder, mine = os.path.split(self.path(kind, run_id))
        try:
            names = files.listing(folder)
        except StorageFailed:
            return []
        return [f"{folder}/{name}" for name in names if name != mine and name.startswith(_digest(run_id))]

    def has(self, kind: str) -> bool:
        """Whether the folder of these files exists; its name may not be durable."""
        return files.is_dir(os.path.join(self.root, kind))

    def make(self, kind: str) -> None:
        """Create the folder of these files, durably, also if it exists."""
        folder = os.path.join(self.root, kind)
        with files.storage(folder):
            if not files.is_dir(self.root):
                Disk().make_directories(self.root)
            Disk().make_directories(folder)

    def _problem(self, home: str) -> str:
        if not os.path.isabs(home):
            return "neither XDG_STATE_HOME nor HOME is an absolute path"
        project = _project_of(self.run_dir)
        if os.path.commonpath([os.path.realpath(self.root), project]) == project:
            return f"{self.root} is inside the project, where a repository or an agent can write"
        return ""


def _project_of(run_dir: str) -> str:
    return os.path.dirname(os.path.dirname(os.path.dirname(run_dir)))


def _digest(text: str) -> str:
    # Paths are longer than the name of a file may be.
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def read_kept(path: str, type: type[T]) -> T | None:
    """What is kept in the file, or None if it is missing or can't be read."""
    try:
        return msgspec.json.decode(files.read_bytes(path, MAX_BYTES) or b"", type=type)
    except (StorageFailed, *NOT_JSON):
        return None


def holds(head: Head, event_log: EventLog) -> bool:
    """Whether the log still has the events up to this head, as they were written."""
    try:
        next(iter(event_log.reader().events(after=head)), None)
    except LogConflict:
        return False
    return True


class KeptHead(Struct, frozen=True):
    run_id: str
    head: Head


class HeadKeeper:
    """Stores a log's head outside the workspace, out of reach of a careless agent. A log that was shortened
    or replaced while no engine was running is detected when the run is resumed or recovered."""

    def __init__(self, run_dir: str, environ: Mapping[str, str]) -> None:
        self._folder = StateFolder(run_dir, environ)
        self._usable = not self._folder.problem

    def keep(self, run_id: str, head: Head) -> None:
        """Called after a sync, so that the stored head is never ahead of the log. Best effort: without a
        writable home, the run continues without it."""
        if not self._usable:
            return
        try:
            # The head itself isn't synced, so it doesn't need a folder with a durable name.
            if not self._folder.has(HEADS):
                self._folder.make(HEADS)
            files.replace(self._folder.path(HEADS, run_id), files.compact(KeptHead(run_id, head)))
        except StorageFailed as error:
            self._usable = False
            log.warning("can't store the log's head outside the project: %s", error)

    def kept(self, run_id: str, run_dir: str = "") -> Head | None:
        """The head of the run's log in this folder, or in another one."""
        found = read_kept(self._folder.path(HEADS, run_id, run_dir), KeptHead)
        return found.head if found is not None and found.run_id == run_id else None

    def move(self, run_id: str, before: str) -> None:
        """The run folder was moved: the head that is kept of its log follows."""
        head = self.kept(run_id, before)
        if head is not None:
            self.keep(run_id, head)
            files.remove(self._folder.path(HEADS, run_id, before))

    def forget(self, run_id: str, run_dir: str) -> None:
        """The run that was in that folder is deleted."""
        files.remove(self._folder.path(HEADS, run_id, run_dir))

    def check_head(self, run_id: str, event_log: EventLog) -> None:
        """Raise LogCorrupt if this is not, or no longer all of, the log whose head was kept."""
        kept = self.kept(run_id)
        if kept is not None and not holds(kept, event_log):
            raise LogCorrupt(
                f"the log no longer holds event {kept.seq} as it was written: "
                "it was shortened or changed while no engine was running",
                hint="restore events.jsonl, or continue with the remaining events: --accept-damage",
            )


class KeptCopies(Struct, frozen=True):
    target: str
    made: tuple[str, ...]
    """The hashes of what the engine wrote there last: the copy before a crash, and the one after it."""


class OutputCopies:
    """Which files at output paths the engine wrote itself, from the messages of agents. Only those are
    replaced: a report that an agent or a person wrote stays."""

    def __init__(self, project: str, run_dir: str, environ: Mapping[str, str]) -> None:
        self._project = os.path.realpath(project)
        self._folder = StateFolder(run_dir, environ)

    def claim(self, project: ConfinedFolder, target: str, content: bytes) -> bool:
        """Whether the engine may write this content to the target: if nothing is there, or its own copy. Then
        the content is noted as its own. Raises OSError if the target can't be read."""
        path = self._folder.path(OUTPUTS, self._project, os.path.relpath(target, self._project))
        made = [sha256(content).hexdigest()]
        if project.stat(target) is not None:
            there, size = project.read(target, MAX_COPY)
            found = sha256(there).hexdigest()
            kept = read_kept(path, KeptCopies)
            if size > MAX_COPY or kept is None or found not in kept.made:
                return False
            made.append(found)
        # Kept by content, so that the next run knows its own copies, too; and before the copy is made, since
        # after a crash in between, an unknown copy would never be replaced.
        problem = self._folder.problem
        try:
            if not problem:
                self._folder.make(OUTPUTS)
                files.replace(path, files.compact(KeptCopies(target, tuple(dict.fromkeys(made)))))
        except StorageFailed as error:
            problem = error.message
        if problem:
            log.warning("%s will not be replaced by later messages: %s", target, problem)
        return True
