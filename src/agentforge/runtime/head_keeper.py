"""Stores a log's head outside the workspace, out of reach of a careless agent.

A log that was shortened or replaced while no engine was running is detected when the run is resumed or
recovered.
"""

import logging
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from agentforge.model.errors import LogConflict, LogCorrupt, StorageFailed
from agentforge.model.json_text import NOT_JSON
from agentforge.ports.event_log import EventLog, Head
from agentforge.runtime.state_folder import StateFolder
from agentforge.system import files

log = logging.getLogger("agentforge.run")

KIND = "heads"
MAX_BYTES = 64 * 1024


class KeptHead(Struct, frozen=True):
    run_id: str
    head: Head


class HeadKeeper:
    def __init__(self, run_dir: str, environ: Mapping[str, str]) -> None:
        self._folder = StateFolder(run_dir, environ)
        self._usable = not self._folder.problem

    def keep(self, run_id: str, head: Head) -> None:
        """Called after a sync, so that the stored head is never ahead of the log. Best effort: without a
        writable home, the run continues without it."""
        if not self._usable:
            return
        try:
            self._folder.make(KIND)
            files.replace(self._folder.path(KIND, run_id), files.compact(KeptHead(run_id, head)))
        except StorageFailed as error:
            self._usable = False
            log.warning("can't store the log's head outside the project: %s", error)

    def kept(self, run_id: str, run_dir: str = "") -> Head | None:
        """The head of the run's log in this folder, or in another one."""
        try:
            content = files.read_bytes(self._folder.path(KIND, run_id, run_dir), MAX_BYTES)
            found = msgspec.json.decode(content or b"", type=KeptHead)
        except (StorageFailed, *NOT_JSON):
            return None
        return found.head if found.run_id == run_id else None

    def move(self, run_id: str, before: str) -> None:
        """The run folder was moved: the head that is kept of its log follows."""
        head = self.kept(run_id, before)
        if head is not None:
            self.keep(run_id, head)
            files.remove(self._folder.path(KIND, run_id, before))

    def forget(self, run_id: str, run_dir: str) -> None:
        """The run that was in that folder is deleted."""
        files.remove(self._folder.path(KIND, run_id, run_dir))

    def check_head(self, run_id: str, event_log: EventLog) -> None:
        """Raise LogCorrupt if this is not, or no longer all of, the log whose head was kept."""
        kept = self.kept(run_id)
        if kept is None:
            return
        try:
            next(iter(event_log.reader().events(after=kept)), None)
        except LogConflict:
            raise LogCorrupt(
                f"the log no longer holds event {kept.seq} as it was written: "
                "it was shortened or changed while no engine was running",
                hint="restore events.jsonl, or continue with the remaining events: --accept-damage",
            ) from None
