"""The files of a supervisor: the claim it starts with, and the exit record it ends with."""

import signal
from datetime import datetime
from typing import TypeVar

import msgspec
from msgspec import Struct

from agentforge.model.layout import AttemptLayout
from agentforge.model.plan import ProviderChoice
from agentforge.model.result import Usage
from agentforge.ports.process import Identity
from agentforge.ports.provider import Exit
from agentforge.system import files

T = TypeVar("T")


class Claim(Struct, frozen=True):
    pid: int
    start_time: str
    boot_id: str
    host: str

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.start_time, self.boot_id, self.host)


class ExitRecord(Struct, frozen=True):
    status: str
    exit_code: int | None
    signal: int | None
    duration_ms: int
    output_bytes: int = 0
    output_truncated: bool = False
    error: str | None = None
    ended_at: datetime | None = None


def read_claim(attempt: AttemptLayout) -> Claim | None:
    """The claim, or None if it is missing or incomplete because its writer died."""
    return _read(attempt.claim, Claim)


def read_exit(attempt: AttemptLayout) -> ExitRecord | None:
    return _read(attempt.exit, ExitRecord)


KILLED = ExitRecord("signaled", None, signal.SIGKILL, 0)
"""Used for an agent without an exit record."""


def exit_of(
    record: ExitRecord, attempt: AttemptLayout, by: ProviderChoice, before: Usage | None = None
) -> Exit:
    """The exit of an agent with its output, for the provider to interpret."""
    return Exit(
        exit_code=record.exit_code,
        signal=record.signal,
        duration_ms=record.duration_ms,
        output=files.read_text(attempt.output) or "",
        errors=files.read_text(attempt.errors) or "",
        truncated=record.output_truncated,
        before=before,
        ended_at=record.ended_at,
        model=by.model,
        config=by.config,
    )


def take_claim(attempt: AttemptLayout) -> bool:
    """Claim the attempt for the engine; True if no supervisor has claimed it, so that none can any more."""
    files.make_dir(attempt.root)
    try:
        return files.create(attempt.claim)
    finally:
        # The owner of the claim has read it, and it contains the agent's environment with secrets.
        files.remove(attempt.spec)


def _read(path: str, kind: type[T]) -> T | None:
    content = files.read_bytes(path)
    if content is None:
        return None
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError:
        return None
