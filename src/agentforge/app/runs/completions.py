"""`.claude/loop-completions.json`: the completed single-stage runs, for tools that read it."""

import logging
import os
from contextlib import suppress
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct

from agentforge.app.runs.lock_folder import hide_from_git, ignore_in
from agentforge.engine.decide.termination import MAX_ITERATIONS
from agentforge.model.errors import NOT_JSON, StorageFailed, UnusableFile
from agentforge.model.layout import locks_dir, loop_completions
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.model.status import RunStatus
from agentforge.system import files
from agentforge.system.repository import common_folder, linked_folder

IGNORED = b"/.gitignore\n/*loop-completions.json*\n"
"""An agent that stages all files doesn't commit the list or this `.gitignore`."""
EXCLUDED = b"/.claude/*loop-completions.json*"
"""The same in git's own list of a clone, if `.claude` has a `.gitignore` of the project's."""

log = logging.getLogger("agentforge.run")


class Completion(Struct, frozen=True):
    session: str
    type: str
    status: Literal["complete", "max_iterations", "failed"]
    completed_at: datetime


def record_completion(project: str, plan: Plan, state: RunState) -> None:
    """Record the end of a single-stage run for other tools."""
    ended = completion_of(plan, state)
    try:
        if ended is not None:
            add_completion(project, ended)
    except StorageFailed as error:
        log.warning("cannot record the completion of session %r: %s", state.session, error.message)


def completion_of(plan: Plan, state: RunState) -> Completion | None:
    """The entry, or None for pipelines and for runs that are unfinished or were cancelled."""
    if plan.mode != "loop" or state.completed_at is None:
        return None
    status: Literal["complete", "max_iterations", "failed"] = "complete"
    if state.status is RunStatus.FAILED:
        status = "failed"
    elif state.status is not RunStatus.COMPLETED:
        return None
    elif state.completion_reason == MAX_ITERATIONS:
        status = "max_iterations"
    at = state.completed_at.replace(microsecond=0)
    return Completion(state.session, plan.only_stage.stage, status, at)


def add_completion(project: str, completion: Completion) -> bool:
    """Append the entry unless it exists; True if it is new. A file that isn't a list is archived."""
    path = loop_completions(project)
    entry = msgspec.to_builtins(completion)
    ignore_in(os.path.dirname(path), IGNORED)
    # Runs of one project may end at the same time. git ignores the folder of the lock.
    hide_from_git(project)
    with files.locked(os.path.join(locks_dir(project), "loop-completions")):
        with suppress(StorageFailed):
            _exclude(project)
        files.remove_drafts(os.path.dirname(path), os.path.basename(path))
        try:
            content = files.read_bytes(path)
            known = msgspec.json.decode(content, type=list[Any]) if content else []
        except (UnusableFile, *NOT_JSON):
            files.move(path, f"{path}.unreadable")
            known = []
        # A crash may repeat the end of a run.
        if entry in known:
            return False
        files.replace(path, files.pretty([*known, entry]))
    return True


def _exclude(project: str) -> None:
    own = os.path.join(project, ".git")
    place = own if files.is_dir(own) else linked_folder(project)
    path = os.path.join(common_folder(place) or place, "info", "exclude")
    ignored = files.read_bytes(os.path.join(project, ".claude", ".gitignore")) or b""
    if not place or b"loop-completions.json" in ignored or not files.is_dir(os.path.dirname(path)):
        return
    listed = files.read_bytes(path) or b""
    if EXCLUDED not in listed.splitlines():
        files.replace(path, b"\n".join([*listed.splitlines(), EXCLUDED, b""]))
