"""`.claude/locks/<session>.stopped`: the error that ended an engine in the background, for people who can no
longer see its terminal. The next engine that drives the run removes it."""

import os
from contextlib import suppress

import msgspec

from agentforge.model.errors import StorageFailed, UnusableFile
from agentforge.model.json_text import NOT_JSON
from agentforge.model.layout import locks_dir, stop_reason_file
from agentforge.model.session_name import session_name
from agentforge.model.stop_reason import StopReason
from agentforge.system import files

SUFFIX = ".stopped"
MAX_BYTES = 64 * 1024


def leave_reason(project: str, reason: StopReason) -> None:
    """Best effort: the reason may be a full disk."""
    path = stop_reason_file(project, reason.session)
    with suppress(StorageFailed):
        files.make_dir(os.path.dirname(path))
        files.replace(path, files.compact(reason))


def reason_of(project: str, session: str) -> StopReason | None:
    try:
        content = files.read_bytes(stop_reason_file(project, session_name(session)), MAX_BYTES)
        return None if content is None else msgspec.json.decode(content, type=StopReason)
    except (UnusableFile, *NOT_JSON):
        return None


def stopped_sessions(project: str) -> list[str]:
    """The sessions that have a reason."""
    names = files.listing(locks_dir(project))
    return sorted(name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))


def drop_reason(project: str, session: str) -> None:
    # Not essential: the reason is out of date and is replaced by the next one.
    with suppress(StorageFailed):
        files.remove(stop_reason_file(project, session))
