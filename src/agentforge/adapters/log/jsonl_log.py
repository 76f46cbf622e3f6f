"""The log of a run as `events.jsonl`: the lease is a lock on the file itself, payloads are stored beside
it."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from msgspec import Struct

from agentforge.adapters.log.jsonl_file import JsonlFile, PayloadStore, snapshot_of
from agentforge.adapters.log.lease import LogLease, is_held, why_not_local
from agentforge.adapters.log.reader import Reader
from agentforge.adapters.log.writer import DEFAULT, Buffering, Writer
from agentforge.model.codec import Payload
from agentforge.model.errors import InvalidRequest, RunActive, StorageFailed, UnknownRun
from agentforge.ports.event_log import Damage, Head, TornTail
from agentforge.system import files
from agentforge.system.disk import Disk, WriteRetry
from agentforge.system.files import storage
from agentforge.system.mount_points import MountPoint, read_mounts

BUFFER_VARIABLE = "AGENT_PIPELINES_EVENT_BUFFER"
FLUSH_VARIABLE = "AGENT_PIPELINES_EVENT_FLUSH_MS"


def buffer_settings(environ: Mapping[str, str]) -> Buffering:
    """Buffering as the environment says; an interval of 0 flushes at every tick."""
    defaults = Buffering()
    events = _whole_number(environ, BUFFER_VARIABLE, minimum=1)
    milliseconds = _whole_number(environ, FLUSH_VARIABLE, minimum=0)
    return Buffering(
        defaults.events if events is None else events,
        defaults.seconds if milliseconds is None else milliseconds / 1000,
    )


class JsonlLog:
    def __init__(
        self,
        path: str | os.PathLike[str],
        buffering: Buffering = DEFAULT,
        *,
        disk: Disk | None = None,
        mounts: Callable[[], Sequence[MountPoint]] = read_mounts,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.path = str(path)
        self._directory = os.path.dirname(self.path)
        self._disk = disk or Disk()
        self._mounts = mounts
        self._retry = WriteRetry(sleep=sleep)
        self._payloads = PayloadStore(_payloads_of(self.path), self._disk, self._retry)
        self._buffering = buffering

    def exists(self) -> bool:
        return files.is_file(self.path)

    def is_held(self) -> bool:
        with storage(f"can't check the lease on the log {self.path}"):
            return is_held(self.path)

    def reader(self) -> Reader:
        return Reader(lambda: snapshot_of(self.path, self._payloads))

    def open(self) -> Writer:
        # The order matters. The lease comes first, as everything after it changes files. `JsonlFile` restores
        # what a power failure took before anything is read: what looks torn without it is acknowledged. Only
        # then does `Writer` look for damage and cut off a torn end.
        lease = self._take_lease()
        try:
            file = JsonlFile(self.path, lease, self._disk, self._retry, self._payloads)
            # Even if the log has events: an engine that restored it may have died before it synced the name.
            with storage(f"can't make the name of the log {self.path} durable"):
                self._disk.sync_directory(self._directory)
            if file.restored:
                self._buffering.on_warning(
                    f"restored the last {file.restored:,} bytes of the log {self.path}, which were missing, "
                    "probably after a power failure"
                )
            return Writer(file, self._buffering)
        except BaseException:
            lease.close()
            raise

    @contextmanager
    def hold(self) -> Iterator[None]:
        lease = self._take_lease()
        try:
            yield
        finally:
            lease.close()

    def _take_lease(self) -> LogLease:
        self._check_local()
        while True:
            lease = LogLease(self._open_file)
            try:
                self._lock(lease)
                if self._is_current(lease.fd):
                    return lease
            except BaseException:
                lease.close()
                raise
            lease.close()  # The run was archived while we waited; a new log may be in its place.

    def _lock(self, lease: LogLease) -> None:
        with storage(f"can't lock the log {self.path}"):
            taken = lease.take(self._retry.sleep)
        if not taken:
            raise RunActive(
                f"the log {self.path} is held by another process",
                hint="wait for it to finish, or stop it with `--force`",
            )

    def _open_file(self) -> int:
        with storage(f"can't open the log {self.path}"):
            self._disk.make_directories(self._directory)
            return self._disk.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND)

    def _is_current(self, fd: int) -> bool:
        try:
            return os.path.samestat(os.fstat(fd), os.lstat(self.path))
        except FileNotFoundError:
            return False

    def _check_local(self) -> None:
        if reason := why_not_local(os.path.realpath(self._directory), self._mounts()):
            raise StorageFailed(
                f"can't store the log there: {reason}; its locks and syncs are not reliable",
                hint="move the project to a local disk",
            )


def _whole_number(environ: Mapping[str, str], name: str, *, minimum: int) -> int | None:
    text = environ.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) >= minimum):
        raise InvalidRequest(f"{name} must be a whole number, got {text!r}", hint=f"use {minimum} or more")
    return int(text)


class LogReport(Struct, frozen=True):
    lines: int
    events: int
    payloads: int
    """Number of intact payloads."""
    damage: tuple[Damage, ...]
    torn: TornTail | None
    head: Head

    @property
    def is_intact(self) -> bool:
        """Whether every line is an event and the chain holds; a torn tail is repaired on the next run."""
        return not self.damage


class _CountedPayloads(PayloadStore):
    intact = 0

    def load(self, payload: Payload) -> bytes:
        data = super().load(payload)
        self.intact += 1
        return data


def _payloads_of(path: str) -> str:
    return os.path.join(os.path.dirname(path), "payloads")


def verify(path: str | os.PathLike[str]) -> LogReport:
    if not files.is_file(str(path)):
        raise UnknownRun(
            f"no log found at {path}", hint="run `agentforge list` to see the runs of this project"
        )
    payloads = _CountedPayloads(_payloads_of(str(path)), Disk(), WriteRetry())
    reader = Reader(lambda: snapshot_of(str(path), payloads))
    events = sum(1 for _ in reader.events())
    return LogReport(reader.lines, events, payloads.intact, tuple(reader.damage), reader.torn, reader.head)
