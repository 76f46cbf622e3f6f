"""The rows of `status`, in the order and with the labels of agent-pipelines."""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Literal

from msgspec import Struct

from agentforge.model.artifact import ItemAt
from agentforge.model.plan import PASS
from agentforge.model.status import status_text
from agentforge.views.lines.checks import skipped_text, tree_text, unused_text, waived_text, waiver_text
from agentforge.views.lines.deliver import delivered_text
from agentforge.views.lines.entries import check_outcome
from agentforge.views.lines.hooks import hook_call_text
from agentforge.views.lines.requests import question_text, waits_text
from agentforge.views.lines.runs import refused_text
from agentforge.views.run_model import judge_warning
from agentforge.views.spending import cap_of_run, cost_text, overrun_text
from agentforge.views.stage_progress import BranchProgress, StageProgress, completion_text
from agentforge.views.status import RunningCheck, StatusView, WaitStatus
from agentforge.views.text import age, counted, duration_text, one_line, reason_text, span
from agentforge.views.visits import CheckRun, VerdictMark, verdict_mark

Tone = Literal["plain", "good", "busy", "warn", "bad", "dim"]

STATUS_TONES: dict[str, Tone] = {
    "running": "busy",
    "completed": "good",
    "failed": "bad",
    "interrupted": "warn",
    "paused": "warn",
    "awaiting_approval": "warn",
    "aborted": "dim",
}
VERDICT_TONES: dict[VerdictMark, Tone] = {"done": "good", "failed": "bad", "warning": "warn"}
UNFINISHED = frozenset({"pending", "running", "paused", "awaiting_approval"})
MAX_SHOWN_REFUSED = 3
REQUEST_CHARS = 160


class StatusRow(Struct, frozen=True):
    label: str
    value: str
    tone: Tone = "plain"


def status_rows(view: StatusView, now: datetime, zone: tzinfo) -> list[StatusRow]:
    rows = [
        StatusRow("Session", view.session),
        StatusRow("Status", _status(view), STATUS_TONES.get(view.status, "plain")),
    ]
    rows += _where(view)
    rows += _judged(view, now)
    rows += _waits(view, now)
    rows.append(StatusRow("Started", f"{view.started_at.astimezone(zone):%Y-%m-%d %H:%M:%S}"))
    if view.last_event_at is not None:
        since = age((now - view.last_event_at).total_seconds())
        rows.append(StatusRow("Last event", f"{status_text(view.last_event or '', view.requests)} ({since})"))
    rows += _health(view)
    rows.append(StatusRow("Errors", str(view.errors), "bad" if view.errors else "plain"))
    rows.append(StatusRow("Duration", duration_text(view.duration_seconds, view.waited_seconds)))
    rows += _spent(view)
    rows.append(StatusRow("Events", _events(view)))
    rows += [StatusRow("Damage", one_line(damage), "bad") for damage in view.log.damage]
    rows += [StatusRow("Refused", refused_text(file), "warn") for file in view.refused[-MAX_SHOWN_REFUSED:]]
    rows += _stopped(view, now)
    if view.answered:
        then = f"`{view.resume_command}`" if view.resume_command else program_text(view.program_hooks)
        return [*rows, *_requests(view, now), StatusRow("Resume", answered_text(then), "warn")]
    rows += _requests(view, now)
    if view.resume_command:
        rows.append(StatusRow("Resume", view.resume_command, "busy"))
    if view.program_hooks:
        rows.append(StatusRow("Resume", f"with {program_text(view.program_hooks)}", "warn"))
    return rows


def verbose_rows(view: StatusView, zone: tzinfo) -> Iterator[StatusRow]:
    """What `status -v` adds."""
    if view.user_request:
        yield StatusRow("Request", one_line(view.user_request))
    yield StatusRow("Created", f"{view.started_at.astimezone(zone):%Y-%m-%d %H:%M:%S}")
    updated = view.last_event_at or view.started_at
    yield StatusRow("Updated", f"{updated.astimezone(zone):%Y-%m-%d %H:%M:%S}")
    yield StatusRow("Tokens Used", f"{view.input_tokens + view.output_tokens:,}")
    if not any(row.label == "Cost" for row in _spent(view)):
        yield StatusRow("Cost", "unknown")


def _spent(view: StatusView) -> Iterator[StatusRow]:
    spending, tokens = view.spending, cap_of_run(view.caps, "tokens")
    if spent := cost_text(spending, cap_of_run(view.caps, "cost_usd")):
        yield StatusRow("Cost", spent)
    if view.input_tokens or view.output_tokens or tokens:
        most = f" ({tokens.text})" if tokens else ""
        yield StatusRow("Tokens", f"{view.input_tokens:,} in, {view.output_tokens:,} out{most}")
    yield from (StatusRow("Cap", f"{one_line(cap.of)}: {cap.text}") for cap in view.caps if cap.path)
    if more := overrun_text(spending):
        yield StatusRow("Overrun", more, "warn")
    if view.unenforced:
        stages = ", ".join(view.unenforced)
        yield StatusRow("Not enforced", f"the caps hold if the figures of these do: {stages}", "warn")


def answered_text(then: str) -> str:
    """`then`: what continues the run."""
    return f"answered, not continued: {then}"


def program_text(hooks: Sequence[str]) -> str:
    """Who continues a run that has hooks of a program."""
    return f"the program that registers its hooks ({', '.join(map(one_line, hooks))})"


def stage_text(stage: StageProgress) -> str:
    """The progress of a stage: `2/4`, and its verdict, or why it ended early."""
    if stage.mark == "skipped":
        return "skipped"
    # The items of a stage that is yet to come are not known.
    done = f"{stage.completed}/{stage.total}" if stage.total or stage.completed else ""
    verdict = one_line(stage.verdict)
    if stage.accepted_by:
        return f"{done}  {verdict}, accepted by {one_line(stage.accepted_by)}"
    if verdict not in ("", PASS):
        return f"{done}  {verdict}"
    is_early = stage.reason and (stage.completed < stage.total or not done)
    return f"{done}  {reason_text(stage.reason)}" if is_early else done


def step_text(item: ItemAt) -> str:
    return f"{item.number} of {item.of}"


def branch_text(branch: BranchProgress) -> str:
    """The progress of a provider in a parallel block: `2/4  critique`, and its error."""
    place = f"{branch.completed}/{branch.total}"
    if branch.mark == "done":
        skipped = f", skipped {', '.join(branch.skipped)}" if branch.skipped else ""
        return f"{place}  done{skipped}"
    step = f", step {step_text(branch.item)}" if branch.item else ""
    error = f"  {one_line(branch.error)}" if branch.error else ""
    return f"{place}  {branch.stage}{step}{error}"


def _status(view: StatusView) -> str:
    if view.status == "running" and view.driver_pid:
        return f"running (PID {view.driver_pid})"
    if view.status == "interrupted":
        return "interrupted (no engine running)"
    return status_text(view.status, view.requests)


def _where(view: StatusView) -> list[StatusRow]:
    if view.node is None:
        return []
    node = view.node
    name = node.id if node.ref in (node.id, "") else f"{node.id}/{node.ref}"
    rows = [StatusRow("Pipeline", view.pipeline)] if view.mode == "pipeline" else []
    if view.user_request:
        rows.append(StatusRow("User request", one_line(view.user_request, REQUEST_CHARS)))
    rows.append(StatusRow("Node", f"{node.path} ({name})"))
    if node.visit > 1:
        rows.append(StatusRow("Visit", str(node.visit)))
    if view.item is not None:
        rows.append(StatusRow("Step", f"{step_text(view.item)}: {view.item.id}"))
    number = view.iteration - view.iterations_asked
    if view.iterations_max:
        rows.append(StatusRow("Iteration", f"{number}/{view.iterations_max}"))
    elif view.item is not None:
        rows.append(StatusRow("Iteration", str(number)))
    if view.attempt:
        rows.append(StatusRow("Attempt", str(view.attempt), "warn" if view.attempt > 1 else "plain"))
        rows.append(StatusRow("Provider", f"{node.provider} ({node.model})" if node.model else node.provider))
    return rows


def _judged(view: StatusView, now: datetime) -> list[StatusRow]:
    """The cycles, and the latest checks and verdict of each stage."""
    rows = [
        StatusRow("Cycle", f"{one.cycle} of {one.of}, back from {one.stage} to {one.to}", "warn")
        for one in view.cycles
    ]
    for visit in view.visits:
        rows += [_check(view, visit.stage, run, now) for run in visit.checks]
        if visit.verdict:
            accepted = f", accepted by {one_line(visit.accepted_by)}" if visit.accepted_by else ""
            verdict = f"{one_line(visit.verdict)}{accepted}{waived_text(visit.waived)}"
            text = f"{visit.stage}: {skipped_text(visit.skipped_by) if visit.skipped_by else verdict}"
            tone = VERDICT_TONES[verdict_mark(visit.verdict, visit.accepted_by or visit.skipped_by)]
            rows.append(StatusRow("Verdict", text, tone))
    rows += [StatusRow("Check", unused_text(*one), "warn") for one in view.unused.items()]
    if view.delivered:
        rows.append(StatusRow("Delivered", delivered_text(view.delivered)))
    return rows + [StatusRow("Waived", waiver_text(waiver), "warn") for waiver in view.waivers]


def _check(view: StatusView, stage: str, run: CheckRun, now: datetime) -> StatusRow:
    if run.status == "running" and view.status != "running":
        return StatusRow("Check", f"{stage}: {one_line(run.check)} was interrupted", "warn")
    if run.status == "running":
        since = span((now - run.started_at).total_seconds())
        return StatusRow("Check", f"{stage}: {check_outcome(run)}, {since}", "busy")
    tree = f", tree {tree_text(run.tree)}" if run.tree else ""
    tone: Tone = "good" if run.status == "pass" else "warn"
    return StatusRow("Check", f"{stage}: {check_outcome(run)}{tree}", tone)


def _waits(view: StatusView, now: datetime) -> list[StatusRow]:
    """Hooks that are called, stages waiting for a retry or limit, and unavailable providers."""
    is_interrupted = view.status == "interrupted"
    calls = (hook_call_text(call, now, is_interrupted=is_interrupted) for call in view.hooks)
    rows = [StatusRow("Hook", text, "busy") for text in calls]
    rows += [StatusRow("Waiting", wait_text(wait, now), "warn") for wait in view.waiting]
    waiting = {(w.stage, w.provider) for w in view.waiting}
    for rest in view.resting:
        # A provider that the stage waits for has a row already.
        if (rest.stage, rest.provider) not in waiting:
            when = _until(rest.until, now) if rest.until else "until you resume"
            rows.append(
                StatusRow(
                    "Unavailable", f"{rest.stage}: {rest.provider}, {when}: {one_line(rest.message)}", "warn"
                )
            )
    return rows


def running_check_text(running: RunningCheck, now: datetime) -> str:
    """`check test, 12s`"""
    return f"check {one_line(running.check)}, {span((now - running.since).total_seconds())}"


def wait_text(wait: WaitStatus, now: datetime) -> str:
    return f"{wait.stage}: {wait.provider}, {_until(wait.until, now)}: {one_line(wait.message)}"


def _until(until: datetime, now: datetime) -> str:
    return f"for another {span((until - now).total_seconds())}"


def _health(view: StatusView) -> list[StatusRow]:
    """How it goes; of a run that is over or interrupted, how it ended."""
    if view.status in UNFINISHED:
        tone: Tone = "warn" if view.health.label == "warning" else "good"
        rows = [StatusRow("Health", f"{view.health.label} ({view.health.score:.2f})", tone)]
        return rows + [StatusRow("Warning", one_line(warning), "warn") for warning in view.health.warnings]
    where = f"{view.node.id}, iteration {view.iteration - view.iterations_asked}" if view.node else "the run"
    reason = view.completion_reason or ""
    match view.status:
        case "failed":
            outcome = StatusRow("Outcome", f"failed in {where}", "bad")
        case "interrupted":
            outcome = StatusRow("Outcome", f"the engine stopped during {where}", "warn")
        case "completed":
            outcome = StatusRow("Outcome", completion_text(reason, view.stages), "good")
        case _:
            because = f": {reason_text(reason)}" if reason_text(reason) else ""
            outcome = StatusRow("Outcome", f"cancelled{because}", "dim")
    if not view.judge_failures:
        return [outcome]
    # Without a judgment, a stage runs to its maximum.
    warning = judge_warning(view.judge_failures, one_line(view.judge_error or ""))
    return [outcome, StatusRow("Warning", warning, "warn")]


def _events(view: StatusView) -> str:
    parts = [f"{view.log.events_flushed:,} written"]
    buffer = view.log.buffer
    # What the engine reported last says nothing once it is no longer running.
    if buffer is not None and view.status == "running":
        parts.append(f"{buffer.events_buffered} buffered, slowest flush {buffer.slowest_flush_ms:.0f} ms")
    if view.log.behind is None:
        parts.append("no usable state.json")
    elif view.log.behind:
        parts.append(f"state.json is {counted(view.log.behind, 'event')} behind")
    return ", ".join(parts)


def _stopped(view: StatusView, now: datetime) -> Iterator[StatusRow]:
    """Why the run, its engine in the background or its work stopped."""
    if failure := view.failure:
        yield StatusRow("Error", f"{failure.type}: {one_line(failure.message)}", "bad")
        yield StatusRow("Last completed iteration", str(failure.last_completed_iteration))
    if stopped := view.stopped:
        since = age((now - stopped.at).total_seconds())
        yield StatusRow("Engine", f"stopped {since}: {one_line(stopped.message)}", "bad")
        if stopped.hint:
            yield StatusRow("Hint", one_line(stopped.hint))
    if view.pause and view.pause.reason not in ("", view.status):
        yield StatusRow("Pause reason", reason_text(view.pause.reason))


def _requests(view: StatusView, now: datetime) -> list[StatusRow]:
    """What is asked, of whom, and the commands that answer."""
    rows = []
    for request in view.requests:
        if view.answered and request.id not in view.unanswered:
            continue
        rows.append(StatusRow("Question", question_text(request), "warn"))
        rows.append(StatusRow("Waits for", waits_text(request, now)))
    rows += [StatusRow("Answer", command, "busy") for command in view.answer_commands]
    return rows + ([StatusRow("Inspect", view.inspect_command, "busy")] if view.inspect_command else [])
