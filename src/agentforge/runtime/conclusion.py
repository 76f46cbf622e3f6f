"""What an attempt left behind becomes its outcome: files in their final shape, and one fact.

Doing it again after a crash gives the same files and the same fact.
"""

import json
import logging
import os
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.normalise import clean_output, normalise_result, normalise_returned
from agentforge.model import facts as f
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.layout import AttemptLayout, IterationLayout
from agentforge.model.place import Place
from agentforge.model.plan import ProviderChoice, StageNode
from agentforge.model.result import Decision, Result
from agentforge.model.secrets import Redactor
from agentforge.ports.provider import ExecuteResult
from agentforge.system import files

log = logging.getLogger("agentforge.run")

# What an attempt may leave in the iteration's folder; moved away before the next attempt begins.
LEFT_BEHIND = frozenset({"result.json", "status.json", "output.md", "error.json"})


# How prompts of agent-pipelines have an agent say that nothing is left to do.
PROMISE = "<promise>COMPLETE</promise>"


class Attempted(Struct, frozen=True):
    """The attempt that an outcome is about."""

    node: StageNode
    by: ProviderChoice
    """Who of the node's providers."""
    here: IterationLayout
    iteration: int
    number: int
    started_at: datetime
    timeout: float | None = None
    agent_session: str | None = None
    """The agent's own session, which a next attempt may go on with."""
    started: bool = True
    """False: nothing ran."""
    prompt: str = ""
    """As it was rendered just now; otherwise its file has it."""
    light: bool = False
    """Whether no file is written: what comes of it is in the log alone."""
    is_clean: bool = False
    """Whether nobody can have left anything in the iteration's folder."""
    output_path: str | None = None
    repeatable: bool = False
    """Whether a later engine may take the same outcome again: then no file may be left half-written."""
    heeds_promise: bool = False
    """Whether the last line of what the agent says may end the stage."""
    redactor: Redactor = Redactor(())
    at: Place | None = None
    """Where in the plan."""

    @property
    def place(self) -> AttemptLayout:
        return self.here.attempt(self.number)


def conclude(about: Attempted, ended: ExecuteResult, now: datetime) -> f.AnyFact:
    """The outcome of an attempt that came to its end: `iteration_complete` or `error`. No secret of the
    engine's gets further than here."""
    ended = _without_secrets(about, ended)
    raw = ended.output.encode("utf-8", "replace")
    text = _write_output(about, raw)
    wrote_output = bool(text)
    result = _judge(about, ended)
    if isinstance(result, Failure):
        return _failed(about, ended, result, wrote_output, now)
    if about.heeds_promise and result.decision is Decision.CONTINUE and _promises(raw):
        result = replace(result, decision=Decision.STOP, reason=result.reason or "promised complete")
    if not about.light:
        _write_result(about, files.compact(result))
    if result.decision is Decision.ERROR:
        reason = result.reason or "; ".join(result.errors) or result.summary or "no reason given"
        failure = Failure(FailureKind.AGENT_ERROR, f"Agent reported error: {reason}")
        return _failed(about, ended, failure, wrote_output, now)
    if about.output_path and wrote_output:
        _copy_output(about, about.output_path)
    note_attempt(about, "success", None, now, "output.md" if wrote_output else None)
    return f.IterationCompleted(
        stage=about.node.name or about.node.id,
        attempt=about.number,
        decision=result.decision,
        reason=result.reason or result.signals.notes,
        result_file=about.here.result,
        result=result,
        duration_ms=ended.duration_ms,
        output=about.here.output if wrote_output and not about.light else None,
        text=text if about.light else None,
        usage=ended.usage,
    )


def _promises(raw: bytes) -> bool:
    """Whether the last line that isn't empty is the promise, and not merely somewhere a mention of it."""
    lines = (line.strip() for line in reversed(clean_output(raw).text.splitlines()))
    return next((line for line in lines if line), "") == PROMISE


def _judge(about: Attempted, ended: ExecuteResult) -> Result | Failure:
    if ended.failure is not None:
        return ended.failure
    if ended.exit_code != 0:
        last = next((line for line in reversed(ended.output.splitlines()) if line.strip()), "no output")
        return Failure(
            FailureKind.PROVIDER_CRASHED,
            f"{about.by.type} exited with status {ended.exit_code}: {last.strip()[:200]}",
            ended.exit_code,
        )
    if about.light or ended.result is not None:
        return normalise_returned(ended.result)
    return normalise_result(files.read_text(about.here.result), files.read_text(about.here.status))


def _failed(
    about: Attempted, ended: ExecuteResult, failure: Failure, wrote_output: bool, now: datetime
) -> f.ErrorOccurred:
    output = "output.md" if wrote_output else None
    note_attempt(about, "failed", failure.kind.value, now, output)
    details = {
        "type": failure.kind.value,
        "message": failure.message,
        "exit_code": failure.exit_code,
        "stage": about.node.id,
        "iteration": about.iteration,
        "attempt": about.number,
        "provider": about.by.type,
        "timestamp": now,
        "output_path": output,
    }
    if not about.light:
        files.replace(about.here.error, files.pretty(details))
    return f.ErrorOccurred(
        kind=failure.kind,
        message=failure.message,
        stage=about.node.id,
        attempt=about.number,
        exit_code=failure.exit_code,
        duration_ms=ended.duration_ms,
        usage=ended.usage,
        resets_at=_in_utc(failure.resets_at),
        agent_session=about.agent_session,
        started=about.started,
    )


def _in_utc(time: datetime | None) -> datetime | None:
    """As all times in the log are. One without a zone is meant so; one beyond all calendars is none."""
    try:
        return time and (time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC))
    except OverflowError:
        return None


def _without_secrets(about: Attempted, ended: ExecuteResult) -> ExecuteResult:
    """What the agent said and wrote, as far as it may be kept."""
    if not about.redactor:
        return ended
    hide_secrets(about)
    failure = ended.failure
    if failure is not None:
        failure = replace(failure, message=about.redactor.text(failure.message))
    result = ended.result and about.redactor.data(ended.result)
    return replace(ended, output=about.redactor.text(ended.output), failure=failure, result=result)


def hide_secrets(about: Attempted) -> None:
    """In the files that the agent wrote for us."""
    written_by_agent = (about.here.result, about.here.status)
    for path in written_by_agent if about.redactor and not about.light else ():
        written = files.read_bytes(path)
        if written is not None and (kept := about.redactor.bytes(written)) != written:
            files.replace(path, kept)


def _write_output(about: Attempted, raw: bytes) -> str:
    """The text of output.md; empty where the agent said nothing."""
    clean = clean_output(raw)
    if clean.truncated_from is not None:
        log.warning(
            "Iteration %d output truncated from %d bytes to 1MB", about.iteration, clean.truncated_from
        )
    if clean.text and not about.light:
        files.write(about.here.output, clean.text.encode())
    return clean.text


def _write_result(about: Attempted, content: bytes) -> None:
    """The normalised result, in place of what the agent wrote."""
    if not about.repeatable:
        files.write(about.here.result, content)
    elif files.read_bytes(about.here.result) != content:
        files.replace(about.here.result, content)


def note_target(about: Attempted) -> None:
    """Remember what lies at the stage's output path before the agent begins."""
    if about.output_path:
        files.make_dir(about.here.attempt(about.number).root)
        files.write(_target_note(about), files.compact(_look(about.output_path)))


def _copy_output(about: Attempted, target: str) -> None:
    """Put the output where the stage wants it, unless the agent wrote that file itself."""
    found = _look(target)
    if found is not None and files.read_bytes(_target_note(about)) != files.compact(found):
        return
    files.make_dir(os.path.dirname(target))
    place = os.path.realpath(target)
    # Runs that share the target have each their own draft.
    draft = f"{place}.{crc32(about.here.root.encode('utf-8', 'replace')):08x}.tmp"
    files.replace(place, files.read_bytes(about.here.output) or b"", draft=draft)


def _look(path: str) -> tuple[int, int, int] | None:
    """Enough to tell whether a file was written in between; nothing if there is none."""
    with files.storage(path):
        try:
            found = os.stat(path)
        except FileNotFoundError:
            return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _target_note(about: Attempted) -> str:
    return os.path.join(about.here.attempt(about.number).root, "target.json")


def note_attempt(
    about: Attempted, status: str, error: str | None, now: datetime, output: str | None = None
) -> None:
    """Put the attempt's record into attempts.jsonl, once however often its outcome is taken. An iteration
    that succeeds at once needs none."""
    if about.light or (about.number == 1 and status == "success"):
        return
    record: dict[str, Any] = {
        "attempt": about.number,
        "status": status,
        "error": error,
        "started_at": about.started_at,
        "ended_at": now,
        "output_path": output,
    }
    if about.number == 1:
        files.write(about.here.attempts, files.compact(record))
    else:
        files.make_dir(about.here.root)
        files.replace(about.here.attempts, _earlier_records(about) + files.compact(record))


def _earlier_records(about: Attempted) -> bytes:
    kept = []
    for line in (files.read_bytes(about.here.attempts) or b"").splitlines(keepends=True):
        try:
            if json.loads(line)["attempt"] < about.number:
                kept.append(line)
        except (ValueError, KeyError, TypeError):
            continue
    return b"".join(kept)


def set_aside(about: Attempted) -> None:
    """Move what earlier attempts left behind, so that this one can't be judged by it."""
    if about.is_clean:
        return
    move_left_behind(about.here, about.number - 1)


def move_left_behind(here: IterationLayout, attempt: int) -> None:
    aside = here.attempt(attempt).root
    for name in LEFT_BEHIND.intersection(files.listing(here.root)):
        files.make_dir(aside)
        files.move(os.path.join(here.root, name), os.path.join(aside, name))
