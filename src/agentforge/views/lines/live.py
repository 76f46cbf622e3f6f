"""Lines for attached terminals and the logs: one line of text per event that matters to people."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from agentforge.engine.decide.checks import PASS
from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.facts import AnyFact
from agentforge.model.plan import Plan, StageNode
from agentforge.model.request import Request
from agentforge.model.result import Decision
from agentforge.model.state import RefusedFile, RunState
from agentforge.model.status import RunStatus, status_text
from agentforge.views.lines.checks import CheckEvent, check_words, waiver_words
from agentforge.views.lines.hooks import HookEvent, hook_words
from agentforge.views.lines.requests import RequestFact, request_words
from agentforge.views.stage_progress import StageProgress, completion_text
from agentforge.views.text import counted, one_line, reason_text, request_text, span
from agentforge.views.visits import verdict_mark

LineLevel = Literal["info", "warn", "error"]
LineMark = Literal["begin", "done", "failed", "wait", "note", "warning", "back", "onward"]

SUMMARY_CHARS = 160
MESSAGE_CHARS = 400


class RunLine(Struct, frozen=True):
    subject: str
    """The stage and iteration; empty for the run as a whole."""
    text: str
    mark: LineMark = "note"
    level: LineLevel = "info"

    @property
    def words(self) -> str:
        return f"{self.subject} {self.text}" if self.subject else self.text


def run_line(event: Event, plan: Plan, state: RunState | None = None) -> RunLine | None:
    """The line for an event, or None if the event isn't shown. `state`: after the event."""
    stage, place = _stage(event, plan), _place(event, plan, state)
    match event.fact:
        case f.NodeStarted() as fact:
            return _begun(stage, fact)
        case f.IterationStarted():
            return RunLine(place, "started", "begin")
        case f.IterationCompleted() as fact:
            return _completed(place, fact)
        case f.NodeCompleted() | f.StageCompleted() as fact:
            return _ended(stage, fact)
        case f.ErrorOccurred() as fact:
            message = one_line(fact.message, MESSAGE_CHARS)
            tried = f" (attempt {fact.attempt})" if fact.attempt else ""
            return RunLine(place, f"failed{tried}: {fact.kind.value}: {message}", "failed", "error")
        case f.RetryScheduled() | f.StageRetried() | f.LimitMet() | f.ProviderChanged() as fact:
            return _after_failure(place, fact, event.at)
        case f.AttemptStarted() | f.AttemptReattached() | f.AttemptLost() | f.AttemptEnding() as fact:
            return _of_attempt(place, fact)
        case f.TreeTaken(problem=problem):
            text = f"the changes to files are not recorded: {one_line(problem, MESSAGE_CHARS)}"
            return RunLine(place, text, "note", "warn") if problem else None
        case f.GitLeft(items=items, omitted=omitted):
            more = f"; and {omitted} more" if omitted else ""
            left = "; ".join(item.text for item in items)
            return RunLine(place, f"left for git: {one_line(left, MESSAGE_CHARS)}{more}", "note", "warn")
        case f.ProviderCompleted() as fact:
            return _of_branch(stage, fact)
        case f.JudgeCompleted() as fact:
            return _judged(place, fact)
        case fact:
            return _of_decision(event, stage, place, fact)


def _of_decision(event: Event, stage: str, place: str, fact: f.AnyFact) -> RunLine | None:
    if isinstance(fact, HookEvent):
        return _of_hook(place, fact, event.at)
    if isinstance(fact, CheckEvent):
        is_branch = event.cursor is not None and event.cursor.provider is not None
        return _of_check(place, stage, fact, is_branch=is_branch)
    return _of_request(stage, fact) if isinstance(fact, RequestFact) else _of_session(fact)


def _of_check(place: str, stage: str, fact: CheckEvent, *, is_branch: bool) -> RunLine | None:
    words = check_words(fact, is_branch=is_branch)
    match fact:
        case f.CheckStarted():
            return RunLine(place, words, "begin")
        case f.CheckPrepared():
            return None
        case f.CheckCompleted(status="pass", changed=()):
            return RunLine(place, words, "done")
        case f.CheckCompleted():
            return RunLine(place, words, "failed", "error")
        case f.StageVerdictReached(verdict=verdict):
            if verdict == PASS:
                return RunLine(stage, words, "done")
            is_failed = verdict_mark(verdict, "") == "failed"
            return RunLine(stage, words, "failed" if is_failed else "note", "warn")
        case f.StageTransitioned():
            return RunLine(stage, words, "back" if fact.cycle else "onward", "warn")
        case f.CheckWaived():
            return RunLine("", words, "note", "warn")
        case f.CheckEnding() | f.CheckLost():  # exhaustive
            return RunLine(place, words, "wait", "warn")


def _of_hook(place: str, fact: HookEvent, at: datetime) -> RunLine | None:
    words = hook_words(fact, at)
    if not words:
        return None
    match fact:
        case f.HookFailed() | f.HookTimedOut():
            return RunLine(place, words, "failed", "error")
        case f.HookLost() | f.HookSkipped():
            return RunLine(place, words, "warning", "warn")
        case f.HookStarted():
            return RunLine(place, words, "begin")
        case f.HookRetryScheduled() | f.HookEnding():
            return RunLine(place, words, "wait", "warn")
        case f.HookCompleted():  # exhaustive
            return RunLine(place, words, "done")


def _of_attempt(
    place: str, fact: f.AttemptStarted | f.AttemptReattached | f.AttemptLost | f.AttemptEnding
) -> RunLine | None:
    match fact:
        case f.AttemptStarted(resume=str() as session):
            return RunLine(place, f"resuming agent session {one_line(session, SUMMARY_CHARS)}")
        case f.AttemptStarted():
            return None
        case f.AttemptReattached():
            return RunLine(place, f"reattached to the running agent (PID {fact.pid})")
        case f.AttemptLost():
            return RunLine(place, f"lost attempt {fact.attempt}: {fact.reason}", "wait", "warn")
        case f.AttemptEnding():  # exhaustive
            return RunLine(place, f"stopping the agent: {reason_text(fact.reason)}", "wait", "warn")


def _after_failure(
    place: str, fact: f.RetryScheduled | f.StageRetried | f.LimitMet | f.ProviderChanged, at: datetime
) -> RunLine:
    """The failure itself is on the previous line."""
    match fact:
        case f.RetryScheduled():
            wait = span((fact.due_at - at).total_seconds())
            text = f"retrying in {wait} (try {fact.attempt} of {fact.of})"
        case f.StageRetried():
            wait = span((fact.due_at - at).total_seconds())
            text = f"retrying the stage in {wait} (retry {fact.number} of {fact.of})"
        case f.LimitMet():
            wait = span((fact.due_at - at).total_seconds())
            text = f"waiting {wait} for the limit of {fact.provider}"
        case f.ProviderChanged():  # exhaustive
            wait = f" in {span((fact.due_at - at).total_seconds())}" if fact.due_at else ""
            text = f"switching from {fact.provider} to {fact.to}{wait}"
    return RunLine(place, text, "wait", "warn")


def _begun(stage: str, fact: f.NodeStarted) -> RunLine:
    if fact.kind == "parallel":
        return RunLine(stage, f"started: {', '.join(fact.providers)} in parallel", "begin")
    model = f" ({fact.model})" if fact.model else ""
    limit = counted(fact.runs, "iteration")
    return RunLine(stage, f"started: up to {limit} with {fact.provider}{model}", "begin")


def _of_request(stage: str, fact: RequestFact) -> RunLine | None:
    words = request_words(fact)
    if not words:
        return None
    if isinstance(fact, f.NodeRestarted):
        return RunLine(stage, words, "wait")
    asks = isinstance(fact, f.RequestOpened)
    return RunLine("", words, "wait" if asks else "note", "warn" if asks else "info")


def _ended(stage: str, fact: f.NodeCompleted | f.StageCompleted) -> RunLine | None:
    why, verdict = reason_text(fact.reason), one_line(fact.verdict)
    if by := one_line(fact.overridden_by):
        because = f": {one_line(fact.override_reason, SUMMARY_CHARS)}" if fact.override_reason else ""
        text = f"was accepted by {by} despite verdict {verdict}{because}"
        return RunLine(stage, text, "warning", "warn")
    # The lines of the verdict and of the route say how it ended.
    return RunLine(stage, f"is done: {why}", "done") if verdict in ("", PASS) else None


def _of_branch(stage: str, fact: f.ProviderCompleted) -> RunLine:
    if fact.status == "failed":
        why = one_line(fact.error or "", MESSAGE_CHARS)
        return RunLine(stage, f"failed: {why}", "failed", "error")
    return RunLine(stage, "is done", "done")


def _judged(place: str, fact: f.JudgeCompleted) -> RunLine:
    reason = one_line(fact.error or fact.result.reason, MESSAGE_CHARS if fact.error else SUMMARY_CHARS)
    because = f": {reason}" if reason else ""
    if fact.status == "failed":
        return RunLine(place, f"could not be judged (attempt {fact.attempt}){because}", "failed", "error")
    if fact.status == "skipped":
        return RunLine(place, f"continuing without the judge{because}", "note", "warn")
    return RunLine(place, f"judged: {'stop' if fact.result.stop else 'continue'}{because}")


def _of_session(fact: AnyFact) -> RunLine | None:
    match fact:
        case f.SessionStarted(waivers=waived):
            return RunLine("", waiver_words(waived), "note", "warn") if waived else None
        case f.SessionRecovered():
            return RunLine("", "recovered from an interruption")
        case f.SessionResumed():
            return RunLine("", "resumed")
        case f.PauseRequested():
            return RunLine("", request_text("pause", fact.reason), "wait")
        case f.CancelRequested():
            return RunLine("", request_text("cancel", fact.reason), "wait")
        case f.SessionContinued():
            return RunLine("", "continuing after an answer")
        case f.PlanChanged():
            return RunLine("", "continuing with the recompiled pipeline")
        case _:
            return _of_log(fact)


def _of_log(fact: AnyFact) -> RunLine | None:
    match fact:
        case f.LogImported():
            events = counted(fact.lines, "event")
            return RunLine("", f"imported from the agent-pipelines shell engine ({events})")
        case f.LogRepaired():
            text = f"the log's last line was incomplete; {fact.bytes} bytes were archived"
            return RunLine("", text, "note", "warn")
        case f.DamageAccepted():
            return RunLine("", f"ignoring {counted(len(fact.lines), 'damaged line')}", "note", "warn")
        case f.FileRefused():
            return RunLine("", f"refused {refused_text(fact)}", "note", "warn")
        case _:
            return None


def refused_text(file: f.FileRefused | RefusedFile) -> str:
    moved_to = one_line(file.moved_to, SUMMARY_CHARS)
    return f"{one_line(file.name, SUMMARY_CHARS)}: {one_line(file.reason)}; moved to {moved_to}"


def ending_line(
    fact: AnyFact, stages: Sequence[StageProgress], asked: Sequence[Request] = ()
) -> RunLine | None:
    """The line for the end of a run, for the logs; terminals print their own conclusion. `stages`: of a
    completed run; `asked`: the open requests of one that waits."""
    match fact:
        case f.SessionCompleted():
            return RunLine("", f"completed: {completion_text(fact.reason, stages)}", "done")
        case f.SessionFailed():
            text = f"failed: {fact.kind.value}: {one_line(fact.message, MESSAGE_CHARS)}"
            return RunLine("", text, "failed", "error")
        case f.SessionPaused():
            return RunLine("", f"paused: {reason_text(fact.reason)}", "wait")
        case f.AwaitingApproval():
            return RunLine("", status_text(RunStatus.AWAITING_APPROVAL, asked), "wait")
        case f.SessionAborted():
            return RunLine("", f"cancelled: {reason_text(fact.reason)}", "failed")
        case _:
            return None


def _completed(place: str, fact: f.IterationCompleted) -> RunLine:
    summary = one_line(fact.result.summary, SUMMARY_CHARS)
    duration = span(fact.duration_ms / 1000)
    phrases = {
        Decision.CONTINUE: f"done in {duration}",
        Decision.STOP: f"done in {duration} (agent requested stop)",
        Decision.ERROR: f"reported an error after {duration}",
        Decision.ASK: f"asked a question after {duration}",
    }
    bad = fact.decision is Decision.ERROR
    text = f"{phrases[fact.decision]}: {summary}" if summary else phrases[fact.decision]
    return RunLine(place, text, "failed" if bad else "done", "error" if bad else "info")


def _stage(event: Event, plan: Plan) -> str:
    """`build`, inside a parallel block `claude: build`."""
    cursor = event.cursor
    node = plan.by_path.get(cursor.node_path) if cursor else None
    if cursor is None or node is None:
        return ""
    return f"{cursor.provider}: {node.id}" if cursor.provider else node.id


def _place(event: Event, plan: Plan, state: RunState | None) -> str:
    """`build 2/3`, inside a parallel block `claude: build 2/3`."""
    cursor, stage = event.cursor, _stage(event, plan)
    node = plan.by_path.get(cursor.node_path) if cursor else None
    if cursor is None or not isinstance(node, StageNode) or not cursor.iteration:
        return stage
    at = state.stage(cursor.provider) if state else None
    number = cursor.iteration - (at.asked_before if at else 0)
    return f"{stage} {number}/{max(node.termination.max, number)}"


def header_lines(plan: Plan) -> list[str]:
    """The lines printed before a run."""
    if plan.mode == "loop":
        node = plan.only_stage
        model = f" / {node.provider.model}" if node.provider.model else ""
        return [
            f"Loop: {node.id}",
            f"Session: {plan.session.name}",
            f"Max iterations: {node.termination.max}",
            f"Provider: {node.provider.type}{model}",
        ]
    stages = " → ".join(node.id for node in plan.nodes)
    again = f", {plan.passes} times" if plan.passes > 1 else ""
    return [
        f"Pipeline: {plan.pipeline.name}",
        f"Session: {plan.session.name}",
        f"{counted(len(plan.nodes), 'stage').capitalize()}: {stages}{again}",
        f"Providers: {', '.join(_providers(plan))}",
    ]


def _providers(plan: Plan) -> list[str]:
    """Each provider with its model once, in the order of their stages; the model may be a default."""
    chains = (choice for step in plan.steps for stage in step.stages for choice in stage.chain)
    named = (f"{choice.type} / {choice.model}" if choice.model else choice.type for choice in chains)
    return list(dict.fromkeys(named))
