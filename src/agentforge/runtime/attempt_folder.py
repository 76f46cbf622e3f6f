"""The files of an attempt: the claim its supervisor starts with, the exit record it ends with, and the outbox
of agents that can't write there."""

import os
import signal
from datetime import datetime
from hashlib import sha256
from typing import TypeVar

import msgspec
from msgspec import Struct

from agentforge.model.errors import NOT_JSON, StorageFailed
from agentforge.model.layout import OUTBOX, AttemptLayout, IterationLayout
from agentforge.model.plan import ProviderChoice
from agentforge.model.result import Usage
from agentforge.model.spending import Amount
from agentforge.model.task import MARK
from agentforge.ports.host import Identity
from agentforge.ports.provider import ExecuteRequest, Exit
from agentforge.runtime.left_files import Refuse
from agentforge.system import files

# These records are in a folder that an agent may be able to write to, and that people copy, move and
# restore with the project. So one counts only if it has the mark of the attempt, and a claim only if it
# was made in this folder: it has the same path after it was restored from a backup, and the same inode
# after it was moved. A copy has neither. An engine that trusted its claim would end the agent that works
# in the original.

T = TypeVar("T")
MAX_OUTPUT = 256 * 1024 * 1024
MAX_RECORD = 1024 * 1024
MAX_NOTES = 16 * 1024 * 1024
CLAIM, KEPT_OUTBOX, GIT = "claim", "outbox", "git.json"


class ClaimPlace(Struct, frozen=True):
    """The folder in which a claim was made."""

    path: str
    device: int
    inode: int


class Claim(Struct, frozen=True):
    pid: int
    start_time: str
    boot_id: str
    host: str
    mark: str
    place: ClaimPlace

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.start_time, self.boot_id, self.host)

    def is_of(self, attempt: AttemptLayout) -> bool:
        """Whether it was made in this folder, which may have been moved or restored since, but not in another
        one of which this is a copy."""
        if self.place.path == attempt.root:
            return True
        found = folder_place(attempt)
        return (found.device, found.inode) == (self.place.device, self.place.inode)


class ExitRecord(Struct, frozen=True):
    status: str
    exit_code: int | None
    signal: int | None
    duration_ms: int
    output_bytes: int = 0
    output_truncated: bool = False
    error: str | None = None
    ended_at: datetime | None = None
    mark: str = ""


def folder_place(attempt: AttemptLayout) -> ClaimPlace:
    return ClaimPlace(attempt.root, *files.folder_identity(attempt.root))


def is_displaced(attempt: AttemptLayout, made: ClaimPlace, mark: str) -> bool:
    """Whether the folder that was made for the attempt is gone, and with it its exit record."""
    try:
        return folder_place(attempt) != made and read_exit(attempt, mark) is None
    except StorageFailed:
        return True


def read_claim(attempt: AttemptLayout, mark: str) -> Claim | None:
    """The supervisor's claim, or None if it is missing, or of another attempt or an engine."""
    claim = any_claim(attempt)
    return claim if claim is not None and claim.mark == named(mark) else None


def any_claim(attempt: AttemptLayout) -> Claim | None:
    """A supervisor's claim, whichever attempt it is of."""
    return _read(attempt.claim, Claim)


def read_exit(attempt: AttemptLayout, mark: str) -> ExitRecord | None:
    """The exit record, or None if it is missing or of another attempt."""
    record = _read(attempt.exit, ExitRecord)
    return record if record is not None and record.mark == named(mark) else None


def _read(path: str, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(files.read_usable(path, MAX_RECORD) or b"", type=kind)
    except NOT_JSON:
        return None


def named(mark: str) -> str:
    """The mark as an entry of an environment."""
    return f"{MARK}={mark}"


def folder_marks(place: ClaimPlace, mark: str) -> dict[str, str]:
    """What an attempt's processes carry in addition to its mark: a copy of the project has the same marks,
    but neither the path nor the inode of the folder. A folder that was moved keeps its inode, one that was
    restored its path."""
    texts = {"PATH": f"{mark} {place.path}", "INODE": f"{mark} {place.device} {place.inode}"}
    return {
        f"{MARK}_{name}": sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        for name, text in texts.items()
    }


KILLED = ExitRecord("signaled", None, signal.SIGKILL, 0)
"""Used for an agent without an exit record."""


def exit_of(
    record: ExitRecord,
    attempt: AttemptLayout,
    by: ProviderChoice,
    before: Usage | None = None,
    budget: Amount | None = None,
) -> Exit:
    """The exit of an agent with its output, for the provider to interpret."""

    def printed(path: str) -> str:
        """Empty if the agent put something else in the file's place."""
        return (files.read_usable(path, MAX_OUTPUT) or b"").decode("utf-8", "replace")

    return Exit(
        exit_code=record.exit_code,
        signal=record.signal,
        duration_ms=record.duration_ms,
        output=printed(attempt.output),
        errors=printed(attempt.errors),
        truncated=record.output_truncated,
        before=before,
        ended_at=record.ended_at,
        model=by.model,
        config=by.config,
        budget=budget,
    )


def make_folder(attempt: AttemptLayout, refuse: Refuse) -> None:
    """Create the folder of an attempt that is about to start. Whatever is there was made by an earlier run or
    planted by an agent."""
    if os.path.lexists(attempt.root):
        refuse(attempt.root, "it existed before its attempt was started")
    files.make_new_dir(attempt.root)


def archive_folder(attempt: AttemptLayout) -> str:
    """Make the folder for what an attempt left. Its agent may have put something else in its place."""
    if os.path.lexists(attempt.root) and not files.is_dir(attempt.root):
        files.move_aside(attempt.root)
    files.make_dir(attempt.root)
    return attempt.root


def sync_names(attempt: AttemptLayout, run_dir: str) -> None:
    """Make the names of the attempt's folder, and of those that it is in, durable: without them, a claim
    would be lost in a power failure, and the attempt would count as one that was never started."""
    folder = attempt.root
    while folder.startswith(f"{run_dir}/"):
        folder = os.path.dirname(folder)
        with files.storage(folder):
            files.sync_directory(folder)


def is_foreign(attempt: AttemptLayout) -> bool:
    """Whether the folder of an attempt that was never started contains more than an engine left there."""
    names = [name for name in files.listing(attempt.root) if not name.startswith(f"{CLAIM}.")]
    claim = files.about(attempt.claim)
    return not {CLAIM, KEPT_OUTBOX, GIT}.issuperset(names) or (
        CLAIM in names and (claim is None or claim.st_size > 0)
    )


def take_claim(attempt: AttemptLayout) -> bool:
    """Claim the attempt for the engine; True if no supervisor has claimed it, so that none can any more."""
    files.make_dir(attempt.root)
    return files.create(attempt.claim)


# The outbox is a second folder, outside `.claude`, for agents that refuse to write there. It has copies of
# the context and of the notes; the engine moves notes and result from it to their places.


def outbox_of(project: str, mark: str) -> str:
    return os.path.join(project, OUTBOX, sha256(mark.encode()).hexdigest()[:20])


def make_outbox(request: ExecuteRequest) -> None:
    """Anything found there is moved aside: it isn't of this attempt."""
    path, paths = request.outbox, request.outbox_paths
    files.make_dir(os.path.dirname(path))
    ignore = os.path.join(os.path.dirname(path), ".gitignore")
    if not os.path.lexists(ignore):
        files.place(ignore, b"*\n")
    if os.path.lexists(path):
        files.move_aside(path)
    files.make_new_dir(path)
    if (notes := files.read_usable(request.progress_path, MAX_NOTES)) is not None:
        files.write(paths[request.progress_path], notes)
    if (context := files.read_usable(request.context_path)) is not None:
        for place, other in paths.items():
            context = context.replace(msgspec.json.encode(place), msgspec.json.encode(other))
        files.write(paths[request.context_path], context)


def empty_outbox(path: str, here: IterationLayout, attempt: int, progress: str = "") -> None:
    """Move the notes, the result and the artifact to their places, and the rest to the attempt's folder;
    safe to repeat. Notes that are no regular file are not taken."""
    if not files.is_dir(path):
        return
    notes = os.path.join(path, os.path.basename(progress))
    if progress and files.is_file(notes):
        files.move(notes, progress)
    for target in (here.result, here.status, here.artifact):
        found = os.path.join(path, os.path.basename(target))
        if os.path.lexists(found):
            files.move(found, target)
    files.move(path, os.path.join(here.attempt(attempt).root, KEPT_OUTBOX))
