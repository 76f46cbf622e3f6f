"""The machine: its clock, its processes, and the files that agents work on."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Protocol

from msgspec import Struct


class Clock(Protocol):
    """The time of day, for timestamps, and the passing of time, for waits and limits."""

    def now(self) -> datetime:
        """In UTC. May jump in either direction."""

    def monotonic(self) -> float:
        """Seconds since some moment; never jumps."""

    async def sleep(self, seconds: float) -> None:
        """Wait; may return early."""


class Identity(Struct, frozen=True):
    """Identifies a process even if its pid is reused later or on another host."""

    pid: int
    start_time: str
    boot_id: str
    host: str


class Processes(Protocol):
    """Those that outlive the engine: it identifies them, checks that they are alive, and ends their trees."""

    def identify(self, pid: int) -> Identity | None:
        """The identity, or None if no such process is running."""

    def is_alive(self, identity: Identity) -> bool:
        """Whether exactly this process is running. False for zombies, other hosts and earlier boots."""

    async def start_supervisor(self, folder: str, spec: bytes) -> Identity:
        """Start the supervisor in the attempt's folder and in a new session, detached from the engine and its
        terminal, and hand the specification over to it: not through a file, since it contains secrets."""

    async def wait(self, identity: Identity) -> None:
        """Return once the process has exited; it need not be a child."""

    def terminate(self, identity: Identity) -> None:
        """Send SIGTERM to exactly this process (a supervisor then ends its agent's whole process tree)."""

    def supervisors(self) -> Mapping[Identity, str]:
        """The supervisors that are running, each with the folder of its attempt as it was named at the
        start."""

    async def end_marked(self, mark: str, seconds: float = 5.0) -> int:
        """End every process that has the mark in its environment, with all descendants; return the count.
        For agents whose supervisor died: none may be running when the next attempt starts."""

    def inherited(self, variable: str) -> frozenset[str]:
        """The values of the variable with which this process and those that started it were started, as far
        as they can be read."""


_ID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class Stamp(Struct, frozen=True, array_like=True, gc=False):
    """Enough metadata to detect that a file was written."""

    size: int
    modified_ns: int
    changed_ns: int
    inode: int
    executable: bool = False


class Workspace(Protocol):
    def stamps(self) -> dict[str, Stamp] | None:
        """Stamps by path relative to the workspace root, or None if there are too many files. Excludes files
        that version control ignores and the engine's own files."""

    def stamp(self, path: str) -> Stamp | None:
        """The stamp of one file, or None if it is missing."""

    def read(self, path: str, max_bytes: int) -> bytes | None:
        """The file's content, or None if it can't be read or is larger than `max_bytes`."""


class TakenTree(Struct, frozen=True):
    id: str
    """Of a git tree object. Equal ids mean equal files."""
    omitted: int = 0
    """How many files are not in the tree, because they are too large."""
    inexact: tuple[str, ...] = ()
    """Paths of files that the tree doesn't have as they are, in order: those that are omitted, and those with
    a secret in them. What is at such a path can't be restored from the tree, nor committed."""


class NoTree(Struct, frozen=True):
    """The tree couldn't be taken."""

    reason: str


class TreeFile(Struct, frozen=True):
    """What a tree has at a path."""

    mode: str
    """As git has it: `100644`, `100755` of an executable, `120000` of a link, `160000` of a submodule."""
    id: str
    """Of its content. Equal ids mean equal content."""


class KeptTree(Struct, frozen=True):
    reference: str
    """Its name in the user's repository."""


class Trees(Protocol):
    """All files at one moment, as a tree: an id by their content, and the content to compare two of them."""

    def is_possible(self) -> bool:
        """Whether there is something to take a tree of; quick."""

    def take(self) -> TakenTree | NoTree:
        """The tree of the project's files: tracked and new ones, without those that version control ignores
        and the engine's own. What two taken trees need to be compared is kept with the run. Changes nothing
        else, and is limited in time and size."""

    def changed(self, before: str, after: str, limit: int) -> tuple[str, ...] | NoTree:
        """The paths that differ between two taken trees, at most `limit`; or why they can't be compared."""

    def files(self, tree: str, paths: Iterable[str]) -> dict[str, TreeFile] | NoTree:
        """What a taken tree has at these paths; without those where it has no file."""

    def content(self, file: TreeFile) -> bytes | NoTree:
        """The content of a file of a taken tree, of a link its target; or why it isn't kept."""

    def hold(self, path: str, file: TreeFile) -> bytes | NoTree:
        """Like `content`, for a file that the project has now: from now on, the run has its content, also
        without git."""

    def keep(self, tree: str, name: str) -> KeptTree | NoTree:
        """Keep a taken tree in the user's repository, as the reference `refs/agentforge/NAME`. Only the
        reference and missing objects are added. Needs git."""


def is_tree_id(text: str) -> bool:
    """Whether the text, such as a field of a log, can be the id of a tree."""
    return _ID.fullmatch(text) is not None
