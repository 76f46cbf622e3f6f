"""Stores a log's head outside the workspace, out of reach of a careless agent.

A log that was shortened or replaced while no engine was running is detected when the run is resumed or
recovered.
"""

import logging
import os
from collections.abc import Mapping
from hashlib import sha256

import msgspec
from msgspec import Struct

from agentforge.model.errors import LogConflict, LogCorrupt, StorageFailed
from agentforge.ports.event_log import EventLog, Head
from agentforge.system import files

log = logging.getLogger("agentforge.run")


class KeptHead(Struct, frozen=True):
    run_id: str
    head: Head


class HeadKeeper:
    def __init__(self, run_dir: str, environ: Mapping[str, str]) -> None:
        home = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME", ""), ".local", "state")
        name = sha256(os.path.realpath(run_dir).encode("utf-8", "surrogateescape")).hexdigest()[:32]
        self._path = os.path.join(home, "agentforge", "heads", f"{name}.json")
        self._usable = os.path.isabs(home)

    def keep(self, run_id: str, head: Head) -> None:
        """Called after a sync, so that the stored head is never ahead of the log. Best effort: without a
        writable home, the run continues without it."""
        if not self._usable:
            return
        try:
            files.make_dir(os.path.dirname(self._path))
            files.replace(self._path, files.compact(KeptHead(run_id, head)))
        except StorageFailed as error:
            self._usable = False
            log.warning("can't store the log's head outside the project: %s", error)

    def check_head(self, run_id: str, event_log: EventLog) -> None:
        """Raise LogCorrupt if this is not, or no longer all of, the log whose head was kept."""
        kept = self._kept()
        if kept is None or kept.run_id != run_id:
            return
        try:
            next(iter(event_log.reader().events(after=kept.head)), None)
        except LogConflict:
            raise LogCorrupt(
                f"the log no longer holds event {kept.head.seq} as it was written: "
                "it was shortened or changed while no engine was running",
                hint="restore events.jsonl, or continue with the remaining events: --accept-damage",
            ) from None

    def _kept(self) -> KeptHead | None:
        try:
            return msgspec.json.decode(files.read_bytes(self._path) or b"", type=KeptHead)
        except (StorageFailed, msgspec.DecodeError):
            return None
