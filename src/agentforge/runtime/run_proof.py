"""The proof that a run was started on this machine by this user.

A run folder may have come with a repository. Its log then names programs that the user did not choose, so the
engine drives a run without asking only if the proof of it is in the user's state folder. The proof names
the run, its folder and the log's inode with its generation; it is durable before the run's first event.
"""

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from agentforge.model.errors import StorageFailed
from agentforge.ports.event_log import EventLog, Head
from agentforge.runtime.state_folder import HeadKeeper, StateFolder, holds, read_kept
from agentforge.system import files
from agentforge.system.disk import Disk

log = logging.getLogger("agentforge.run")

KIND = "runs"


class RunOrigin(Struct, frozen=True):
    kind: Literal["here", "restored", "moved", "copied", "replaced", "foreign"]
    """`here`: started in this folder. `restored`: so was the log, but this file is a copy of it. `moved`: the
    folder was elsewhere. `copied`: the original is elsewhere. `replaced`: another log is in its place.
    `foreign`: nothing is known about it."""
    before: str = ""
    """The folder that it was in, if moved or copied."""


class Proof(Struct, frozen=True):
    run_id: str
    run_dir: str
    inode: int
    """Of the log. There is no device: its number may change at a reboot."""
    generation: int = 0
    """Of the inode, which a file that replaces the log may have got; 0: unknown."""


class RunProof:
    """The proof of the run in one folder."""

    def __init__(self, run_dir: str, environ: Mapping[str, str]) -> None:
        self._log = os.path.join(run_dir, "events.jsonl")
        self._folder = StateFolder(run_dir, environ)
        self._heads = HeadKeeper(run_dir, environ)

    def store(self, run_id: str) -> None:
        """Store the proof durably. Without a usable state folder, the run starts without it."""
        problem = self._folder.problem
        try:
            if not problem:
                path = self._folder.path(KIND, run_id)
                proof = Proof(run_id, self._folder.run_dir, self._inode(), files.generation(self._log))
                self._folder.make(KIND)
                with files.storage(path):
                    Disk().replace(path, files.compact(proof))
                return
        except StorageFailed as error:
            problem = error.message
        log.warning(
            "can't record that this run was started here (%s): if it is interrupted, `recover` skips it and "
            "`resume` needs --trust; set XDG_STATE_HOME to a persistent folder that you own",
            problem,
        )

    def origin(self, run_id: str, event_log: EventLog) -> RunOrigin:
        if self._folder.problem or not run_id:
            return RunOrigin("foreign")
        known = read_kept(self._folder.path(KIND, run_id), Proof)
        if known is not None and self._is_same_file(known):
            return RunOrigin("here")
        if known is not None:
            # Another file is in the log's place: a backup of the log, if it ends where the log did.
            is_same = _ends_at(self._heads.kept(run_id), event_log)
            return RunOrigin("restored" if is_same else "replaced")
        others = (read_kept(path, Proof) for path in self._folder.of_other_places(KIND, run_id))
        found = [self._elsewhere(proof, event_log) for proof in others if proof is not None]
        # A run may be known at several places: that it was moved outweighs that it was copied.
        return max(found, key=lambda origin: origin.kind == "moved", default=RunOrigin("foreign"))

    def move(self, run_id: str, before: str) -> None:
        """The run folder was moved: what is kept about it follows."""
        self.store(run_id)
        with suppress(StorageFailed):
            self._heads.move(run_id, before)
            files.remove(self._folder.path(KIND, run_id, before))

    def forget(self, run_id: str, before: str) -> bool:
        """The run, which was in another folder before, is deleted: so is what is kept about this log. Copies
        of the run keep theirs. Returns whether there are none."""
        if self._folder.problem or not run_id:
            return False
        places = {before, self._folder.run_dir}
        for path in self._folder.of_other_places(KIND, run_id):
            proof = read_kept(path, Proof)
            if proof is not None and proof.inode == self._inode():
                places.add(proof.run_dir)
        with suppress(StorageFailed):
            for place in places:
                self._heads.forget(run_id, place)
                files.remove(self._folder.path(KIND, run_id, place))
        return not list(self._folder.of_other_places(KIND, run_id))

    def _elsewhere(self, proof: Proof, event_log: EventLog) -> RunOrigin:
        """Whether this is the log of a run that was in another folder, or a copy of it."""
        head = self._heads.kept(proof.run_id, proof.run_dir)
        if self._is_same_file(proof):
            # The file came with its folder, but something else may have changed the events in it.
            is_moved = _intact_head(event_log) is not None and (head is None or holds(head, event_log))
        else:
            # A link from there to here doesn't count as a run that is still there.
            is_here = os.path.realpath(proof.run_dir) == self._folder.run_dir
            is_there = not is_here and os.path.lexists(os.path.join(proof.run_dir, "events.jsonl"))
            is_moved = not is_there and _ends_at(head, event_log)
        return RunOrigin("moved" if is_moved else "copied", proof.run_dir)

    def _is_same_file(self, proof: Proof) -> bool:
        """Whether the log is the file that the proof names."""
        if proof.inode != self._inode():
            return False
        found = files.generation(self._log)
        return proof.generation == found or 0 in (proof.generation, found)

    def _inode(self) -> int:
        try:
            return os.lstat(self._log).st_ino
        except OSError:
            return 0


def _ends_at(kept: Head | None, event_log: EventLog) -> bool:
    """Whether the log is all that was written here, and nothing was added elsewhere."""
    return kept is not None and _intact_head(event_log) == kept


def _intact_head(event_log: EventLog) -> Head | None:
    """The head of a log whose whole chain holds, or None."""
    reader = event_log.reader()
    for _ in reader.events():
        pass
    return None if reader.damage else reader.head
