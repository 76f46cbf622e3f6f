"""The rows of facts about an iteration: its attempts, its judge and its queue."""

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.result import Decision
from agentforge.views.lines.row import (
    BRIEF_CHARS,
    MESSAGE_CHARS,
    TEXT_CHARS,
    Details,
    RunLine,
    message,
    quoted,
    row,
    utc,
    wait,
)
from agentforge.views.text import one_line, reason_text, span


def _completed(fact: f.IterationCompleted, _: Event) -> RunLine:
    duration = span(fact.duration_ms / 1000)
    how = {
        Decision.CONTINUE: f"done in {duration}",
        Decision.STOP: f"done in {duration} (agent requested stop)",
        Decision.ERROR: f"reported an error after {duration}",
        Decision.ASK: f"asked a question after {duration}",
    }[fact.decision]
    summary = one_line(fact.result.summary, TEXT_CHARS)
    text = f"{how}: {summary}" if summary else how
    return RunLine(text, "failed", "error") if fact.decision is Decision.ERROR else RunLine(text, "done")


def _failed(fact: f.ErrorOccurred, _: Event) -> RunLine:
    tried = f" (attempt {fact.attempt})" if fact.attempt else ""
    return RunLine(f"failed{tried}: {fact.kind.value}: {message(fact.message)}", "failed", "error")


def _git_left(fact: f.GitLeft, _: Event) -> RunLine:
    more = f"; and {fact.omitted} more" if fact.omitted else ""
    return RunLine(f"left for git: {message(_left(fact))}{more}", "note", "warn")


def _left(fact: f.GitLeft) -> str:
    return "; ".join(item.text for item in fact.items)


def _stage_retried(fact: f.StageRetried, event: Event) -> RunLine:
    limit = (
        f"retry limit reached after {fact.failures} attempts; " if fact.failures > 1 == fact.number else ""
    )
    text = f"{limit}retrying the stage in {wait(fact.due_at, event)} (retry {fact.number} of {fact.of})"
    return RunLine(text, "wait", "warn")


def _provider_changed(fact: f.ProviderChanged, event: Event) -> RunLine:
    when = f" in {wait(fact.due_at, event)}" if fact.due_at else ""
    return RunLine(f"switching from {fact.provider} to {fact.to}{when}", "wait", "warn")


def _judged(fact: f.JudgeCompleted, _: Event) -> RunLine:
    reason = one_line(fact.error or fact.result.reason, MESSAGE_CHARS if fact.error else TEXT_CHARS)
    because = f": {reason}" if reason else ""
    if fact.status == "failed":
        return RunLine(f"could not be judged (attempt {fact.attempt}){because}", "failed", "error")
    if fact.status == "skipped":
        return RunLine(f"continuing without the judge{because}", "note", "warn")
    return RunLine(f"judged: {'stop' if fact.result.stop else 'continue'}{because}")


def _stopped(fact: f.AttemptLost | f.AttemptEnding | f.AttemptCancelled | f.JudgeEnding) -> Details:
    return {"attempt": fact.attempt, "reason": quoted(fact.reason, BRIEF_CHARS)}


ROWS = (
    row(
        f.IterationStarted,
        "iteration",
        details=lambda x: {
            "provider": x.provider,
            "model": x.model,
            "item": one_line(x.item),
            "tokens": x.context.tokens if x.context else "",
            "omitted": (len(x.context.omitted) or "") if x.context else "",
        },
        line=lambda x, _: RunLine(f"started: item {one_line(x.item)}" if x.item else "started", "begin"),
    ),
    row(
        f.IterationCompleted,
        "iteration",
        details=lambda x: {
            "decision": x.decision.value,
            "artifact_bytes": x.artifact.size if x.artifact else "",
            "summary": quoted(x.result.summary, BRIEF_CHARS),
        },
        line=_completed,
        demo=lambda x, _: ("done", f"{x.result.summary} ({x.duration_ms / 1000:.1f} s)"),
    ),
    row(
        f.AttemptStarted,
        "iteration",
        details=lambda x: {
            "attempt": x.attempt,
            "provider": x.provider if x.choice else "",
            "agent_session": x.resume or "",
        },
        line=lambda x, _: (
            None if x.resume is None else RunLine(f"resuming agent session {one_line(x.resume, TEXT_CHARS)}")
        ),
        demo=lambda x, event: (
            "work",
            f"iteration {event.cursor.iteration if event.cursor else 0}, attempt {x.attempt}: agent started",
        ),
    ),
    row(
        f.AttemptReattached,
        "iteration",
        details=lambda x: {"attempt": x.attempt, "pid": x.pid},
        line=lambda x, _: RunLine(f"reattached to the running agent (PID {x.pid})"),
        demo=lambda x, _: ("reattached", f"reattached to the running agent (supervisor PID {x.pid})"),
    ),
    row(
        f.TreeTaken,
        "iteration",
        details=lambda x: {
            "attempt": x.attempt,
            "when": x.when,
            "tree": x.tree or "",
            "problem": quoted(x.problem),
        },
        line=lambda x, _: (
            RunLine(f"the changes to files are not recorded: {message(x.problem)}", "note", "warn")
            if x.problem
            else None
        ),
    ),
    row(
        f.GitLeft,
        "iteration",
        details=lambda x: {"left": quoted(_left(x)), "omitted": x.omitted or ""},
        line=_git_left,
    ),
    row(
        f.AttemptLost,
        "iteration",
        details=_stopped,
        line=lambda x, _: RunLine(f"lost attempt {x.attempt}: {x.reason}", "wait", "warn"),
        demo=lambda x, _: ("lost", f"attempt lost: {x.reason}"),
    ),
    row(
        f.AttemptEnding,
        "iteration",
        details=_stopped,
        line=lambda x, _: RunLine(f"stopping the agent: {reason_text(x.reason)}", "wait", "warn"),
    ),
    row(f.AttemptCancelled, "iteration", details=_stopped),
    row(
        f.ErrorOccurred,
        "iteration",
        details=lambda x: {
            "type": x.kind.value,
            "exit_code": "" if x.exit_code is None else x.exit_code,
            "message": quoted(x.message),
        },
        line=_failed,
        demo=lambda x, _: ("lost", x.message),
    ),
    # Of these four, the line before says what failed.
    row(
        f.RetryScheduled,
        "iteration",
        details=lambda x: {"try": f"{x.attempt}/{x.of}"},
        line=lambda x, event: RunLine(
            f"retrying in {wait(x.due_at, event)} (try {x.attempt} of {x.of})", "wait", "warn"
        ),
    ),
    row(
        f.StageRetried,
        "iteration",
        details=lambda x: {
            "stage_try": f"{x.number}/{x.of}",
            "failures": x.failures or "",
            "type": x.kind.value,
            "message": quoted(x.message),
        },
        line=_stage_retried,
    ),
    row(
        f.LimitMet,
        "iteration",
        details=lambda x: {"provider": x.provider, "until": utc(x.until), "message": quoted(x.message)},
        line=lambda x, event: RunLine(
            f"waiting {wait(x.due_at, event)} for the limit of {x.provider}", "wait", "warn"
        ),
    ),
    row(
        f.ProviderChanged,
        "iteration",
        details=lambda x: {"provider": x.provider, "to": x.to, "message": quoted(x.message)},
        line=_provider_changed,
    ),
    row(
        f.JudgeStarted,
        "iteration",
        details=lambda x: {"provider": x.provider, "model": x.model, "attempt": x.attempt},
    ),
    row(
        f.JudgeCompleted,
        "iteration",
        details=lambda x: {
            "status": x.status,
            "stop": "true" if x.result.stop else "false",
            "reason": quoted(x.result.reason, BRIEF_CHARS),
            "error": quoted(x.error),
        },
        line=_judged,
    ),
    row(f.JudgeEnding, "iteration", details=_stopped),
    row(f.JudgeLost, "iteration", details=lambda x: {"attempt": x.attempt}),
    row(f.QueueChecked, "iteration", details=lambda x: {"remaining": x.remaining}),
)
