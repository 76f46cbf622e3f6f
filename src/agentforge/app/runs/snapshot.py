"""Reads the read model of a run: from the snapshot in state.json and the end of the log, or from all of it.

state.json is a cache. It saves `status` and `list` from reading long logs, and whatever is wrong with it, the
log is read instead. Its hash tells a file that another log left, or this log before it was cut. It proves
nothing about the state: an agent can write state.json. So only looks at a run read it, never an engine.
"""

import msgspec

from agentforge.model import facts as f
from agentforge.model.errors import NOT_JSON, LogConflict, LogCorrupt, LogTooOld, StorageFailed
from agentforge.model.layout import RunLayout
from agentforge.model.names import name_problem
from agentforge.model.plan import Plan
from agentforge.ports.event_log import EventLog, Head, LogReader
from agentforge.system import files
from agentforge.views.files.state import SNAPSHOT_VERSION, StateSnapshot
from agentforge.views.run_model import RunModel, fold_events

MAX_STATE_BYTES = 16 * 1024 * 1024
"""No engine writes a larger state.json: it names the latest iterations only."""


class _Cached(msgspec.Struct):
    snapshot: StateSnapshot


_decoder = msgspec.json.Decoder(_Cached)


def read_snapshot(layout: RunLayout) -> StateSnapshot | None:
    """None if there is no usable one."""
    try:
        content = files.read_bytes(layout.state, MAX_STATE_BYTES)
        snapshot = None if content is None else _decoder.decode(content).snapshot
    except (StorageFailed, *NOT_JSON):
        return None
    if snapshot is None or snapshot.version != SNAPSHOT_VERSION or name_problem(snapshot.state.session):
        return None
    return snapshot


def read_model(session: str, log: EventLog, reader: LogReader, snapshot: StateSnapshot | None) -> RunModel:
    """The snapshot with what the reader finds after it, or all that the reader finds."""
    # The plan is not in state.json, because it is large and at the start of the log anyway. After a
    # recompilation it may be anywhere in the log, so all of it is read.
    plan = _first_plan(log) if snapshot and not snapshot.state.recompiled else None
    if snapshot and plan:
        head = Head(snapshot.state.seq, snapshot.hash, snapshot.length)
        try:
            return fold_events(reader.events(after=head), RunModel(plan, snapshot.state, snapshot.summary))
        except LogConflict:
            pass  # It is of another log.
    try:
        return fold_events(reader.events())
    except LogTooOld:
        raise
    except LogCorrupt:
        refuse_damage(session, reader)
        raise


def _first_plan(log: EventLog) -> Plan | None:
    """The plan that the run started with, from the log's first event of this engine, or None."""
    for event in log.reader().events():
        fact = event.fact
        if isinstance(fact, f.LogImported) or (isinstance(fact, f.SessionStarted) and fact.run_id):
            return fact.plan
        if event.trace_id:
            return None
    return None


def refuse_damage(session: str, reader: LogReader) -> None:
    """Raise LogCorrupt, with the first damaged line, for a log whose start can't be read."""
    for first in reader.damage:
        raise LogCorrupt(
            f"the log of session {session!r} has no readable first event: line {first.line}: {first.reason}",
            hint="restore it, or use --force to start over: the damaged run is archived",
        ) from None
