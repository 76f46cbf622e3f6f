"""Logs on stderr: JSON lines beside JSON on stdout, else short lines for people."""

import json
import logging
import os
import sys
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from msgspec.structs import asdict

from agentforge import RedactingFilter
from agentforge.cli.invocation import LOG_FORMATS, LOG_LEVELS, Invocation
from agentforge.cli.output import json_for_terminal, wrapped
from agentforge.model import facts as f
from agentforge.model.errors import InvalidRequest
from agentforge.model.event import Event
from agentforge.model.plan import Plan
from agentforge.views.lines.events import ending_line, run_line
from agentforge.views.orchestration import orchestration_code
from agentforge.views.run_model import RunModel
from agentforge.views.spans import event_span_id
from agentforge.views.stage_progress import stage_progress
from agentforge.views.text import printable
from agentforge.views.transitions import StageTransition, Transitions, transitions_before

LEVEL_VARIABLE = "AGENT_PIPELINES_LOG_LEVEL"
FIELDS = (
    *("session", "stage", "iteration", "provider", "duration_ms", "event_type", "error"),
    *("orchestration_code", "trace_id", "span_id"),
)
NOT_FOR_PEOPLE = ("event_type", "stage", "iteration", "error", "trace_id", "span_id")

current_session: ContextVar[str | None] = ContextVar("current_session", default=None)

log = logging.getLogger("agentforge.events")

_NAMES = {"WARNING": "warn", "CRITICAL": "fatal"}
NEVER = logging.CRITICAL + 1
_LEVELS = {"debug": 10, "info": 20, "warn": 30, "error": 40}


def set_up_logs(call: Invocation) -> None:
    """Send AgentForge's logs to stderr, in the requested format and from the requested level."""
    # A program reads stdout, and probably stderr, too. People may read both in a file.
    for_programs = call.as_json and not sys.stderr.isatty()
    requested = call.log_level or _from_environment()
    level = requested or ("info" if for_programs else "warn")
    handler = _Stderr()
    form = call.log_format or ("json" if for_programs else "pretty")
    assert form in LOG_FORMATS
    handler.setFormatter(_Json() if form == "json" else PrettyFormatter())
    handler.addFilter(_add_session)
    handler.addFilter(RedactingFilter(os.environ))
    root = logging.getLogger("agentforge")
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[level])
    # Other handlers would print each line again.
    root.propagate = False
    # The display already shows the events; with --json there is none.
    logs_events = requested in ("debug", "info") or for_programs
    log.setLevel(logging.NOTSET if logs_events else NEVER)


class RunLogger:
    """Logs the events of runs, so that logs and events.jsonl can be read side by side, and their transitions.
    `past`: reads the events of a run from its log."""

    def __init__(self, past: Callable[[str], Iterable[Event]]) -> None:
        self._past = past
        self._transitions: dict[str, Transitions] = {}

    def log(self, event: Event) -> None:
        if not log.isEnabledFor(logging.ERROR):
            return
        known = self._transitions.get(event.session)
        if known is None:
            # Another process may have started the run.
            known = self._transitions[event.session] = transitions_before(event, self._past(event.session))
        if transition := known.apply(event):
            _log_transition(event, known.run, transition)
        if known.run.plan is not None:
            _log_event(event, known.run, known.run.plan)


def _log_transition(event: Event, run: RunModel, transition: StageTransition) -> None:
    fields = {"event": "stage_transition", **asdict(transition)}
    # As attributes of the record, so that a filter sees them; with keys whose value is null.
    extra = {**_place(event, run), **fields, "keys": tuple(fields)}
    log.info(": ".join(filter(None, (transition.words, transition.reason))), extra=extra)


def _place(event: Event, run: RunModel) -> dict[str, Any]:
    """Which run and which of its spans a record is about."""
    span = event_span_id(event, run.plan)
    return {"session": event.session, "trace_id": event.trace_id, "span_id": span}


def _log_event(event: Event, run: RunModel, plan: Plan) -> None:
    is_over = isinstance(event.fact, f.SessionCompleted)
    stages = stage_progress(plan, run.state) if is_over and run.state else ()
    asked = run.state.open_requests if run.state else ()
    line = run_line(event, plan, run.state) or ending_line(event.fact, stages, asked)
    level = _LEVELS[line.level] if line else logging.DEBUG
    if not log.isEnabledFor(level):
        return
    extra: dict[str, Any] = {**_place(event, run), "event_type": event.fact.TYPE}
    fact, at = event.fact, event.cursor
    if isinstance(fact, f.PlanChanged) and run.state:
        # That of the event is of the plan before.
        at = run.state.cursor
    if at is not None:
        extra["stage"] = node.id if (node := plan.by_path.get(at.node_path)) else None
        extra["iteration"] = at.iteration or None
    extra["provider"] = getattr(fact, "provider", None) or (at.provider if at else None)
    extra["duration_ms"] = getattr(fact, "duration_ms", None)
    if isinstance(fact, f.ErrorOccurred | f.SessionFailed):
        extra["error"] = fact.message
    if event.fact.run_status is not None and (state := run.state):
        kind = state.failure.kind if state.failure else None
        extra["orchestration_code"] = orchestration_code(state.status, kind, state.open_requests)
    log.log(level, line.words if line else fact.TYPE, extra=extra)


def _from_environment() -> str | None:
    written = os.environ.get(LEVEL_VARIABLE, "").strip().lower()
    if not written:
        return None
    level = {"warning": "warn", "fatal": "error"}.get(written, written)
    if level not in LOG_LEVELS:
        raise InvalidRequest(
            f"invalid log level {LEVEL_VARIABLE}={written!r}", hint=f"use one of {', '.join(LOG_LEVELS)}"
        )
    return level


def _add_session(record: logging.LogRecord) -> bool:
    if getattr(record, "session", None) is None:
        record.session = current_session.get()
    return True


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    found = {name: getattr(record, name, None) for name in FIELDS}
    if record.exc_info and record.exc_info[1] is not None:
        found["error"] = f"{type(record.exc_info[1]).__name__}: {record.exc_info[1]}"
    return {name: value for name, value in found.items() if value is not None}


def _level(record: logging.LogRecord) -> str:
    return _NAMES.get(record.levelname, record.levelname.lower())


class _Stderr(logging.StreamHandler[Any]):
    """Looks up stderr for each line, because a live display replaces it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, _: Any) -> None:
        raise AttributeError("the stream is always stderr")


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry = {"timestamp": at.replace("+00:00", "Z"), "level": _level(record), "msg": record.getMessage()}
        entry |= _fields(record) | {name: getattr(record, name) for name in getattr(record, "keys", ())}
        return json_for_terminal(json.dumps(entry, ensure_ascii=False))


class PrettyFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created)
        shown = {name: value for name, value in _fields(record).items() if name not in NOT_FOR_PEOPLE}
        details = "".join(f" {name}={value}" for name, value in shown.items())
        line = printable(f"{at:%H:%M:%S} {_level(record).upper():<5} {record.getMessage()}{details}")
        return "\n".join(wrapped(line, err=True))
