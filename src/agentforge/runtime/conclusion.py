"""Turns the results of an attempt into its outcome: files in their final form, and one fact.

Repeating it after a crash produces the same files and the same fact.
"""

import errno
import json
import logging
import os
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.claims import allowed_by
from agentforge.engine.normalise import clean_output, normalise_result, normalise_returned, with_fields_of
from agentforge.model import facts as f
from agentforge.model.artifact import MAX_ARTIFACT_BYTES, REMOVED
from agentforge.model.errors import StorageFailed, UnusableFile
from agentforge.model.failure import Failure, FailureKind, short_message
from agentforge.model.layout import IterationLayout, iteration_dir
from agentforge.model.names import protected_step
from agentforge.model.result import Decision, Result
from agentforge.model.secrets import Redactor
from agentforge.model.task import AgentTask
from agentforge.ports.provider import ExecuteResult
from agentforge.runtime.artifacts import ArtifactRules
from agentforge.runtime.attempt_folder import archive_folder
from agentforge.runtime.state_folder import OutputCopies
from agentforge.system import files
from agentforge.system.confined import ConfinedFolder
from agentforge.system.folders import NotRegular, OutsideRoot

MAX_RESULT_BYTES = 1024 * 1024
MAX_RECORDS_BYTES = 1024 * 1024

log = logging.getLogger("agentforge.run")

# Files that an attempt may leave in the iteration's folder; archived before the next attempt starts.
OUTPUT = "output.md"
LEFTOVERS = frozenset({"result.json", "status.json", "artifact.json", OUTPUT, "error.json"})


# The line by which prompts of agent-pipelines ask the agent to report that no work is left.
PROMISE = "<promise>COMPLETE</promise>"


# Theory of operation
#
# `conclude` may run twice for one attempt: an engine that dies before the outcome is in the log leaves it
# to the next one. So it depends on nothing but what the attempt left, and each step can be repeated.
# Files are replaced, never appended to, in a final form that reads the same again; what was moved is
# found at its new place; a copy of the output is recognized.
#
# The order matters. Secrets are removed first, so that neither a file that is written later nor a fact
# can have one. The copy at the output path comes last: it is the only effect outside of the run's folder,
# and a failed attempt must leave the user's file as it was.


class Attempted(Struct, frozen=True):
    """The attempt that an outcome is about."""

    task: AgentTask
    here: IterationLayout
    project: str = ""
    """The folder that the output path must stay in."""
    outbox: str = ""
    """Where the agent may have written its result and notes instead."""
    progress: str = ""
    """The file with the notes."""
    output_path: str | None = None
    copies: OutputCopies | None = None
    """Which files at output paths the engine wrote; None: it may replace any."""
    redactor: Redactor = Redactor(())
    artifacts: ArtifactRules | None = None
    """What its artifact must be like; None: it leaves none."""
    light: bool = False
    """Whether no files are written: the outcome is only in the log."""
    honors_promise: bool = False
    """Whether the last line of the agent's output may end the stage."""
    repeatable: bool = False
    """Whether a later engine may repeat this: then files must be replaced atomically."""
    started: bool = True
    """False: the agent was never started."""
    agent_session: str | None = None
    """The agent session, which the next attempt may resume."""

    @property
    def folder(self) -> str:
        """The iteration's folder, relative to the run directory."""
        return iteration_dir(self.task.place.folder, self.task.iteration)


def conclude(about: Attempted, ended: ExecuteResult, now: datetime) -> f.AnyFact:
    """The outcome of a finished attempt: `iteration_complete` or `error`. Secrets are removed here."""
    ended = _without_secrets(about, ended)
    raw = ended.output.encode("utf-8", "replace")
    text = _write_output(about, raw)
    wrote_output = bool(text)
    result = _result_of(about, ended)
    if isinstance(result, Failure):
        return _failed(about, ended, result, wrote_output, now)
    # All files are written before the fact is recorded: they are written again if a crash comes in between,
    # while a fact without them would stay so.
    if about.honors_promise and result.decision is Decision.CONTINUE:
        lines = (line.strip() for line in reversed(clean_output(raw).text.splitlines()))
        if next(filter(None, lines), "") == PROMISE:
            result = replace(result, decision=Decision.STOP, reason=result.reason or "promised complete")
    if result.decision is Decision.ERROR:
        _write_result(about, result)
        reason = result.reason or "; ".join(result.errors) or result.summary or "no reason given"
        failure = Failure(FailureKind.AGENT_ERROR, f"Agent reported error: {reason}")
        return _failed(about, ended, failure, wrote_output, now)
    artifact = None
    if about.artifacts is not None and result.decision is not Decision.ASK:
        accepted = about.artifacts.accept(about.task, ended.artifact, light=about.light)
        stated: Result | Failure
        if isinstance(accepted, Failure):
            stated = accepted
        else:
            artifact, value = accepted
            stated = with_fields_of(value, about.task.node, result)
        if isinstance(stated, Failure):
            _write_result(about, result)
            return _failed(about, ended, stated, wrote_output, now)
        result = stated
    _write_result(about, result)
    if about.output_path and wrote_output and (uncopied := _copy_output(about, about.output_path, text)):
        return _failed(about, ended, uncopied, wrote_output, now)
    note_attempt(about, "success", None, now, OUTPUT if wrote_output else None)
    return f.IterationCompleted(
        stage=about.task.node.label,
        attempt=about.task.attempt,
        decision=result.decision,
        reason=result.reason or result.signals.notes,
        result_file=f"{about.folder}/result.json",
        result=result,
        duration_ms=ended.duration_ms,
        output=f"{about.folder}/output.md" if wrote_output and not about.light else None,
        text=text if about.light else None,
        usage=ended.usage,
        artifact=artifact,
    )


def _result_of(about: Attempted, ended: ExecuteResult) -> Result | Failure:
    if ended.failure is not None:
        return ended.failure
    if ended.exit_code != 0:
        last = next((line for line in reversed(ended.output.splitlines()) if line.strip()), "no output")
        return Failure(
            FailureKind.PROVIDER_CRASHED,
            f"{about.task.by.type} exited with status {ended.exit_code}: {last.strip()[:200]}",
            ended.exit_code,
        )
    if about.light or ended.result is not None:
        return normalise_returned(ended.result, allowed_by(about.task.node))
    try:
        text = files.read_text(about.here.result, MAX_RESULT_BYTES)
        older = files.read_text(about.here.status, MAX_RESULT_BYTES) if text is None else None
        return normalise_result(text, older, allowed_by(about.task.node))
    except UnusableFile as error:  # Agents may put anything in the place of their files.
        found = error.message.removeprefix(f"{about.here.root}/")
        return Failure(
            FailureKind.RESULT_INVALID, f"{found}; the agent must write a regular file of at most 1 MB"
        )


def _failed(
    about: Attempted, ended: ExecuteResult, failure: Failure, wrote_output: bool, now: datetime
) -> f.ErrorOccurred:
    failure = replace(failure, message=short_message(failure.message))
    output = OUTPUT if wrote_output else None
    note_attempt(about, "failed", failure.kind.value, now, output)
    details = {
        "type": failure.kind.value,
        "message": failure.message,
        "exit_code": failure.exit_code,
        "stage": about.task.node.id,
        "iteration": about.task.iteration,
        "attempt": about.task.attempt,
        "provider": about.task.by.type,
        "timestamp": now,
        "output_path": output,
    }
    if not about.light:
        files.replace(about.here.error, files.pretty(details))
    return f.ErrorOccurred(
        kind=failure.kind,
        message=failure.message,
        stage=about.task.node.id,
        attempt=about.task.attempt,
        exit_code=failure.exit_code,
        duration_ms=ended.duration_ms,
        usage=ended.usage,
        resets_at=_in_utc(failure.resets_at),
        agent_session=about.agent_session,
        started=about.started,
    )


def _in_utc(time: datetime | None) -> datetime | None:
    """Convert to UTC, as all times in the log are. A time without a zone is UTC; out of range: None."""
    try:
        return time and (time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC))
    except OverflowError:
        return None


def _without_secrets(about: Attempted, ended: ExecuteResult) -> ExecuteResult:
    """Redact the agent's output and files."""
    if not about.redactor:
        return ended
    hide_secrets(about)
    failure = ended.failure
    if failure is not None:
        failure = replace(failure, message=about.redactor.text(failure.message))
    hide = about.redactor.data
    return replace(
        ended,
        output=about.redactor.text(ended.output),
        failure=failure,
        result=ended.result and hide(ended.result),
        artifact=ended.artifact and hide(ended.artifact),
    )


def hide_secrets(about: Attempted) -> None:
    """Redact the result files and the artifact that the agent wrote."""
    here = about.here
    written_by_agent = (
        (here.result, MAX_RESULT_BYTES),
        (here.status, MAX_RESULT_BYTES),
        (here.artifact, MAX_ARTIFACT_BYTES),
    )
    for path, most in written_by_agent if about.redactor and not about.light else ():
        written = files.read_usable(path, most)
        if written is not None and (kept := about.redactor.json(written)) != written:
            files.replace(path, kept)
    if about.redactor and not about.light:
        found = files.about(here.artifact)
        if found is not None and found.st_size > MAX_ARTIFACT_BYTES:
            files.replace(here.artifact, REMOVED)


def _write_output(about: Attempted, raw: bytes) -> str:
    """Write output.md and return its text; empty if the agent printed nothing."""
    clean = clean_output(raw)
    if clean.truncated_from is not None:
        log.warning(
            "Iteration %d output truncated from %d bytes to 1MB", about.task.iteration, clean.truncated_from
        )
    if clean.text and not about.light:
        files.write(about.here.output, clean.text.encode())
    return clean.text


def _write_result(about: Attempted, result: Result) -> None:
    """Replace the agent's result.json with the normalised one: once, as that may take as long as a sync."""
    if about.light:
        return
    content = files.compact(result)
    if not about.repeatable:
        files.write(about.here.result, content)
    elif files.read_usable(about.here.result, len(content)) != content:
        files.replace(about.here.result, content)


def _copy_output(about: Attempted, target: str, text: str) -> Failure | None:
    """Copy the output to the stage's output path, unless an agent or a person wrote that file. A link on the
    path must stay in the workspace: otherwise the attempt fails."""
    content = text.encode()
    try:
        with files.storage(target), ConfinedFolder(about.project) as project:
            if about.copies is None or about.copies.claim(project, target, content):
                # Runs that share the target have drafts of their own.
                owner = f"{crc32(about.here.root.encode('utf-8', 'replace')):08x}"
                named = os.path.relpath(target, about.project)
                project.write(target, content, lambda place: _refuse_guarded(place, named), owner)
    except StorageFailed as error:
        if not isinstance(error.__cause__, NotRegular | OutsideRoot | NotADirectoryError):
            raise
        return Failure(
            FailureKind.RESULT_INVALID, f"can't copy the output to the output path: {error.message}"
        )
    return None


def _refuse_guarded(place: str, named: str) -> None:
    """A link must not lead to what a confined agent can't write itself."""
    if place != named and not named.startswith(f"{place}/") and (found := protected_step(place)):
        raise OutsideRoot(errno.EXDEV, f"is a link that leads into {found}")


def note_attempt(
    about: Attempted, status: str, error: str | None, now: datetime, output: str | None = None
) -> None:
    """Write the attempt's record to attempts.jsonl, exactly once even if repeated. An iteration that succeeds
    on its first attempt needs none."""
    if about.light or (about.task.attempt == 1 and status == "success"):
        return
    record: dict[str, Any] = {
        "attempt": about.task.attempt,
        "status": status,
        "error": error,
        "started_at": about.task.started_at,
        "ended_at": now,
        "output_path": output,
    }
    if about.task.attempt == 1:
        files.write(about.here.attempts, files.compact(record))
    else:
        files.make_dir(about.here.root)
        files.replace(about.here.attempts, _earlier_records(about) + files.compact(record))


def _earlier_records(about: Attempted) -> bytes:
    kept = []
    # Only of earlier attempts: this one is there already if a crash came before its fact was recorded, and
    # whatever else is there, an agent wrote.
    for line in (files.read_usable(about.here.attempts, MAX_RECORDS_BYTES) or b"").splitlines(keepends=True):
        try:
            record = json.loads(line)
            number = record["attempt"]
            if isinstance(number, int) and 0 < number < about.task.attempt:
                kept.append(_with_own_output(about, record) or line)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return b"".join(kept)


def _with_own_output(about: Attempted, record: dict[str, Any]) -> bytes | None:
    """The record of an earlier attempt whose output was archived, or None if it can stay as it is."""
    archive = about.here.attempt(record["attempt"]).root
    if record.get("output_path") != OUTPUT or not files.is_file(os.path.join(archive, OUTPUT)):
        return None
    return files.compact({**record, "output_path": f"{os.path.basename(archive)}/{OUTPUT}"})


def archive_leftovers(about: Attempted) -> None:
    """Archive the leftovers of earlier attempts, so that they can't count as this attempt's results."""
    if about.task.is_new or about.light:
        return
    move_leftovers(about.here, about.task.attempt - 1)
    if about.task.attempt > 1:
        records = _earlier_records(about)
        if files.read_usable(about.here.attempts, MAX_RECORDS_BYTES) not in (None, records):
            files.replace(about.here.attempts, records)


def move_leftovers(here: IterationLayout, attempt: int) -> None:
    for name in LEFTOVERS.intersection(files.listing(here.root)):
        archive = archive_folder(here.attempt(attempt))
        files.move(os.path.join(here.root, name), os.path.join(archive, name))
