"""Converts log lines of the shell engine to events; such lines are read, never written.

They have `ts` but neither number nor hash. The shell engine restarts a completed session, and resumes a
failed one, without logging it; the upcaster inserts the missing events, under the same number.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from agentforge.model import facts as f
from agentforge.model.codec import DamagedLine
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.errors import NOT_JSON
from agentforge.model.event import Event
from agentforge.model.failure import FailureKind
from agentforge.model.plan import Mode, Overrides, PipelineInfo, Plan, PlanSession, PlanSource
from agentforge.model.result import Decision, Result, Signals

# Upcasting is stateful, as an event of the shell engine says less than ours. The end of an iteration may not
# name its stage; the end of a stage in a block has no event and shows in the next one; a resume isn't logged.
# So the lines of a log are taken in order, and one object sees them all.
#
# The result must be a log that our engine could have written: every view and the fold of the state take it as
# such. Where the shell engine has no counterpart of a field, it gets the value that means "unknown" there.

BEGINNING = b'{"ts":'
ENGINE = "agent-pipelines"
NO_SUMMARY = "no summary in the log"
_ITERATION = re.compile(r"/iterations/\d+/result\.json$")


def is_shell_log(line: bytes) -> bool:
    """Whether a log that starts with this line was started by the shell engine."""
    return line.startswith(BEGINNING)


class _ShellLine(Struct):
    ts: datetime
    type: str
    session: str = ""
    cursor: dict[str, Any] | None = None
    data: dict[str, Any] | None = None


_decoder = msgspec.json.Decoder(_ShellLine)


class _ShellPlace(Struct):
    """The progress of a node, or of a provider within a block."""

    stage: int = 0
    name: str = ""
    completed: int = 0


class Upcaster:
    """Converts the lines of a log, in order."""

    def __init__(self) -> None:
        self._session_start: f.SessionStarted | None = None
        self._stopped: str = ""
        """The type of the last event if it stopped the run."""
        self._node = "0"
        self._judged = 0
        self._places: dict[str | None, _ShellPlace] = {}

    def take(self, line: bytes, number: int) -> list[Event]:
        """The events on a line. Raises DamagedLine if it isn't an event."""
        raw = _read(line)
        cursor = self._cursor(raw)
        return [
            Event(number, raw.ts, raw.session, "", fact, self._at(cursor, fact))
            for fact in self._facts(raw, cursor)
        ]

    def _facts(self, raw: _ShellLine, cursor: Cursor) -> Iterator[f.AnyFact]:
        data = raw.data or {}
        yield from self._missing_events(raw, data)
        self._stopped = raw.type if raw.type in ("session_complete", "error") else ""
        match raw.type:
            case "node_start":
                yield self._entered(cursor, data)
            case "iteration_start":
                yield from self._iteration(cursor, data)
            case "iteration_complete":
                yield self._completed(cursor, data)
            case "node_complete":
                reason = _text(data, "reason") or "completed"
                following = Destination(str(int(self._node) + 1)) if self._node.isdigit() else None
                done = self._place(None).completed
                yield f.NodeCompleted(_text(data, "name"), reason, done, next=following)
            case "session_complete":
                yield f.SessionCompleted(_text(data, "reason"))
            case "error":
                yield from self._failed(cursor, data)
            case kind:
                yield from self._beside(kind, cursor, data)

    def _missing_events(self, raw: _ShellLine, data: dict[str, Any]) -> Iterator[f.AnyFact]:
        """The start or resume that the shell engine didn't log."""
        if raw.type == "session_start" or self._session_start is None:
            self._session_start = self._start(raw, data)
            yield self._session_start
        elif self._stopped == "session_complete":
            yield self._session_start
        elif self._stopped == "error" and raw.type != "error":
            yield f.SessionResumed(ENGINE)

    def _beside(self, kind: str, cursor: Cursor, data: dict[str, Any]) -> Iterator[f.AnyFact]:
        """Providers of a block, and the judge."""
        match kind:
            case "worker_complete":
                yield f.WorkerCompleted(_text(data, "result_file"), _number(data, "exit_code"))
            case "parallel_provider_start":
                self._places[cursor.provider] = _ShellPlace()
                yield f.ProviderStarted(cursor.provider or "", _texts(data, "stages"))
            case "parallel_provider_complete":
                yield from self._stage_done(cursor)
                yield f.ProviderCompleted(cursor.provider or "")
            case "judge_start":
                yield f.JudgeStarted(_text(data, "provider"), _text(data, "model"))
            case "judge_complete":
                yield from self._judgment(cursor, data)

    def _start(self, raw: _ShellLine, data: dict[str, Any]) -> f.SessionStarted:
        mode: Mode = "loop" if data.get("mode") == "loop" else "pipeline"
        name = _text(data, "stage" if mode == "loop" else "pipeline")
        plan = Plan(
            mode=mode,
            compiled_at=raw.ts,
            source=PlanSource(_text(data, "pipeline_file"), ""),
            session=PlanSession(raw.session, raw.ts),
            pipeline=PipelineInfo(name, Overrides(), {}),
            dependencies={},
            nodes=(),
        )
        return f.SessionStarted(
            mode=mode,
            run_id="",
            plan=plan,
            engine=ENGINE,
            stage=name if mode == "loop" else None,
            stage_name=_text(data, "stage_name") or None,
            pipeline=name if mode == "pipeline" else None,
            pipeline_file=_text(data, "pipeline_file") or None,
        )

    def _entered(self, cursor: Cursor, data: dict[str, Any]) -> f.NodeStarted:
        self._node, self._judged = cursor.node_path, 0
        self._places = {None: _ShellPlace()}
        parallel = data.get("kind") == "parallel"
        return f.NodeStarted(
            name=_text(data, "name"),
            type=_text(data, "type"),
            provider=_text(data, "provider"),
            model=_text(data, "model"),
            runs=_number(data, "runs") or 1,
            kind="parallel" if parallel else None,
            providers=_texts(data, "providers"),
            stages=_texts(data, "stages"),
            path=cursor.node_path,
        )

    def _iteration(self, cursor: Cursor, data: dict[str, Any]) -> Iterator[f.AnyFact]:
        place = self._place(cursor.provider)
        if cursor.provider is not None and _number(data, "stage_index") > place.stage:
            yield from self._stage_done(cursor)
            place = self._places[cursor.provider] = _ShellPlace(_number(data, "stage_index"))
        place.name = _text(data, "stage")
        yield f.IterationStarted(
            stage=place.name,
            type=_text(data, "type") or _text(data, "ref"),
            provider=_text(data, "provider"),
            model=_text(data, "model"),
            prompt_sha256="",
        )

    def _completed(self, cursor: Cursor, data: dict[str, Any]) -> f.IterationCompleted:
        place = self._place(cursor.provider)
        place.completed = cursor.iteration
        given = _text(data, "decision")
        decision = Decision(given) if given in ("continue", "stop", "error") else Decision.CONTINUE
        signals = data.get("signals")
        plateau = isinstance(signals, dict) and signals.get("plateau_suspected") is True
        reason, result_file = _text(data, "reason"), _text(data, "result_file")
        return f.IterationCompleted(
            stage=_text(data, "stage") or place.name,
            attempt=1,
            # The shell engine ends the stage after an agent's error, and continues.
            decision=decision,
            reason=reason,
            result_file=result_file,
            result=Result(
                summary=_text(data, "summary") or reason or NO_SUMMARY,
                signals=Signals(plateau_suspected=plateau or decision is Decision.STOP, notes=reason),
                decision=decision,
                reason=reason,
            ),
            duration_ms=0,
            output=_ITERATION.sub(lambda m: m[0].replace("result.json", "output.md"), result_file) or None,
        )

    def _stage_done(self, cursor: Cursor) -> Iterator[f.StageCompleted]:
        place = self._place(cursor.provider)
        if place.name:
            yield f.StageCompleted(place.name, "completed", place.completed)

    def _judgment(self, cursor: Cursor, data: dict[str, Any]) -> Iterator[f.JudgeCompleted]:
        if cursor.iteration and cursor.iteration <= self._judged:
            return  # In loops the shell engine asks twice about the last iteration.
        self._judged = cursor.iteration
        given = data.get("result")
        success = data.get("status") == "success" and isinstance(given, dict)
        verdict = given if success and isinstance(given, dict) else {}
        result = f.JudgeResult(verdict.get("stop") is True, _text(verdict, "reason") or _text(data, "reason"))
        yield f.JudgeCompleted("success" if success else "failed", result, attempt=2)

    def _failed(self, cursor: Cursor, data: dict[str, Any]) -> Iterator[f.AnyFact]:
        message, stage = _text(data, "message"), _text(data, "stage")
        exit_code = data.get("exit_code") if isinstance(data.get("exit_code"), int) else None
        if cursor.provider is not None:
            yield f.ErrorOccurred(FailureKind.PROVIDER_CRASHED, message, stage, 1, exit_code=exit_code)
            yield f.ProviderCompleted(cursor.provider, "failed", message)
            return
        block = message.startswith("Parallel block")
        kind = FailureKind.PARALLEL_BLOCK_FAILED if block else FailureKind.STATE_CORRUPT
        yield f.SessionFailed(kind, message, stage)

    def _cursor(self, raw: _ShellLine) -> Cursor:
        given = raw.cursor or {}
        provider = given.get("provider")
        path = given.get("node_path")
        return Cursor(
            node_path=path if isinstance(path, str) and path else self._node,
            node_run=1,
            iteration=_number(given, "iteration"),
            provider=provider if isinstance(provider, str) and provider else None,
        )

    def _at(self, cursor: Cursor, fact: f.AnyFact) -> Cursor:
        """Inside a block our events name the stage, those of the shell engine only the block."""
        if cursor.provider is None or isinstance(fact, f.ProviderStarted | f.ProviderCompleted):
            return cursor
        stage = self._place(cursor.provider).stage
        if isinstance(fact, f.StageCompleted):
            return Cursor(f"{cursor.node_path}.{stage}", 1, fact.iterations, cursor.provider)
        return Cursor(f"{cursor.node_path}.{stage}", 1, cursor.iteration, cursor.provider)

    def _place(self, provider: str | None) -> _ShellPlace:
        return self._places.setdefault(provider, _ShellPlace())


def is_event(line: bytes) -> bool:
    """Whether a line without its newline is complete."""
    try:
        _decoder.decode(line)
    except NOT_JSON:
        return False
    return True


def _read(line: bytes) -> _ShellLine:
    try:
        return _decoder.decode(line)
    except NOT_JSON as error:
        # The shell engine appends to an incomplete line without ending it: the next event follows on it.
        start = line.rfind(BEGINNING)
        if start > 0 and is_event(line[start:]):
            return _decoder.decode(line[start:])
        raise DamagedLine(f"not an event of {ENGINE}: {error}") from error


def _text(data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    return value if isinstance(value, str) else ""


def _texts(data: dict[str, Any], key: str) -> tuple[str, ...]:
    value = data.get(key)
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _number(data: dict[str, Any], key: str) -> int:
    value = data.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
