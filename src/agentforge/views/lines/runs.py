"""The rows of facts about the run as a whole, its nodes (stages and parallel blocks) and its log."""

from agentforge.engine.decide.people import SKIPPED
from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.plan import PASS
from agentforge.model.spending import shown
from agentforge.model.state import RefusedFile
from agentforge.model.status import RunStatus, status_text
from agentforge.views.lines.checks import waiver_details, waiver_words
from agentforge.views.lines.row import (
    BRIEF_CHARS,
    TEXT_CHARS,
    Details,
    RunLine,
    message,
    quoted,
    quoted_reason,
    row,
)
from agentforge.views.stage_progress import completion_text
from agentforge.views.text import counted, money, one_line, reason_text, request_text


def refused_text(file: f.FileRefused | RefusedFile) -> str:
    moved_to = one_line(file.moved_to, TEXT_CHARS)
    return f"{one_line(file.name, TEXT_CHARS)}: {one_line(file.reason)}; moved to {moved_to}"


def _new_plan(fact: f.PlanChanged) -> Details:
    places = fact.plan.places
    skipped = [one_line(places[path].node.id) for path in fact.skipped if path in places]
    return {"node": fact.at.path if fact.at else "", "skipped": ",".join(skipped)}


def _continuing(fact: f.PlanChanged, _: Event) -> RunLine:
    limits = fact.plan.pipeline.limits
    known = limits.caps.known if limits else ()
    if caps := [shown(unit, cap) for unit, cap in known if unit in fact.caps_set]:
        return RunLine(f"continuing with other caps: the run may spend at most {', '.join(caps)}")
    return RunLine("continuing with the recompiled pipeline")


def _begun(fact: f.NodeStarted, _: Event) -> RunLine | None:
    if fact.skipped:
        return None  # The next line says who skips it.
    if fact.kind == "parallel":
        return RunLine(f"started: {', '.join(fact.providers)} in parallel", "begin")
    if not fact.provider:
        return RunLine("started", "begin")  # The engine performs it.
    model = f" ({fact.model})" if fact.model else ""
    most = f"up to {counted(fact.runs, 'iteration')}" if fact.runs else "one iteration for each item"
    return RunLine(f"started: {most} with {fact.provider}{model}", "begin")


def _ended(fact: f.NodeCompleted | f.StageCompleted, _: Event) -> RunLine | None:
    verdict = one_line(fact.verdict)
    if fact.reason == SKIPPED:
        return None
    if by := one_line(fact.overridden_by):
        because = f": {one_line(fact.override_reason, TEXT_CHARS)}" if fact.override_reason else ""
        return RunLine(f"was accepted by {by} despite verdict {verdict}{because}", "warning", "warn")
    # The lines of the verdict and of the route say how it ended.
    return RunLine(f"is done: {reason_text(fact.reason)}", "done") if verdict in ("", PASS) else None


def _restarted(fact: f.NodeRestarted, _: Event) -> RunLine:
    what = "was rejected" if fact.cause == "rejected" else "is restarted"
    because = "" if fact.reason == "requested" else f": {message(fact.reason)}"
    return RunLine(f"{what} by {one_line(fact.by)}, and runs again{because}", "wait")


def _capped(fact: f.LedgerAnswered, _: Event) -> RunLine | None:
    """Only if nothing was left."""
    answer = fact.answer
    if answer.granted_usd:
        return None
    held = f", {money(answer.reserved_usd)} reserved" if answer.reserved_usd else ""
    spent = f"{money(answer.spent_usd)} of {money(answer.cap_usd)} spent{held}"
    return RunLine(f"the cap of {one_line(answer.day)} is reached by all runs: {spent}", "wait", "warn")


ROWS = (
    row(
        f.SessionStarted,
        details=lambda x: waiver_details(x.waivers) if x.waivers else {},
        line=lambda x, _: RunLine(waiver_words(x.waivers), "note", "warn") if x.waivers else None,
    ),
    row(
        f.SessionRecovered,
        details=lambda x: {"by": x.by, "pid": x.pid},
        line=RunLine("recovered from an interruption"),
        demo=("reattached", "a new engine recovered the run from its log"),
    ),
    row(
        f.SessionContinued,
        details=lambda x: {"requests": ",".join(x.requests)},
        line=RunLine("continuing after an answer"),
    ),
    row(
        f.SessionCompleted,
        details=lambda x: {"reason": quoted_reason(x.reason)},
        ending=lambda x, stages, _: RunLine(f"completed: {completion_text(x.reason, stages)}", "done"),
        demo=("done", "the run is complete"),
    ),
    row(
        f.SessionFailed,
        details=lambda x: {"type": x.kind.value, "message": quoted(x.message)},
        ending=lambda x, _, __: RunLine(f"failed: {x.kind.value}: {message(x.message)}", "failed", "error"),
    ),
    row(
        f.SessionPaused,
        details=lambda x: {"reason": quoted_reason(x.reason)},
        ending=lambda x, _, __: RunLine(f"paused: {reason_text(x.reason)}", "wait"),
    ),
    row(f.SessionResumed, details=lambda x: {"by": x.by}, line=RunLine("resumed")),
    row(
        f.SessionAborted,
        details=lambda x: {"reason": quoted_reason(x.reason)},
        ending=lambda x, _, __: RunLine(f"cancelled: {reason_text(x.reason)}", "failed"),
    ),
    row(
        f.AwaitingApproval,
        details=lambda x: {"requests": ",".join(x.requests)},
        ending=lambda _, __, asked: RunLine(status_text(RunStatus.AWAITING_APPROVAL, asked), "wait"),
    ),
    row(
        f.PauseRequested,
        details=lambda x: {"reason": quoted_reason(x.reason)},
        line=lambda x, _: RunLine(request_text("pause", x.reason), "wait"),
    ),
    row(
        f.CancelRequested,
        details=lambda x: {"reason": quoted_reason(x.reason)},
        line=lambda x, _: RunLine(request_text("cancel", x.reason), "wait"),
    ),
    row(
        f.RestartRequested,
        details=lambda x: {"provider": x.provider or "", "by": one_line(x.by), "reason": quoted(x.reason)},
        line=lambda x, _: RunLine(request_text("restart of the stage", message(x.reason))),
    ),
    row(
        f.NoteAdded,
        details=lambda x: {"by": one_line(x.by), "text": quoted(x.text)},
        line=lambda x, _: RunLine(f"{one_line(x.by)} added a note: {message(x.text)}"),
    ),
    row(f.PlanChanged, details=_new_plan, line=_continuing),
    row(
        f.NodeStarted,
        "node",
        details=lambda x: {"kind": x.kind or "stage", "skipped": "yes" if x.skipped else ""},
        line=_begun,
        demo=lambda x, _: ("stage", x.name),
    ),
    row(f.NodeCompleted, "visit", details=lambda x: {"reason": quoted_reason(x.reason)}, line=_ended),
    row(
        f.NodeRestarted,
        "branch",
        details=lambda x: {"cause": x.cause, "by": one_line(x.by), "reason": quoted(x.reason)},
        line=_restarted,
    ),
    row(f.ProviderStarted, "visit", details=lambda x: {"provider": x.provider}),
    row(
        f.ProviderCompleted,
        "visit",
        details=lambda x: {"provider": x.provider, "status": x.status, "error": quoted(x.error or "")},
        line=lambda x, _: (
            RunLine(f"failed: {message(x.error or '')}", "failed", "error")
            if x.status == "failed"
            else RunLine("is done", "done")
        ),
    ),
    row(f.WorkerCompleted, "iteration", details=lambda x: {"exit_code": x.exit_code}),
    row(f.StageCompleted, "visit", details=lambda x: {"reason": quoted_reason(x.reason)}, line=_ended),
    row(f.ManifestWritten),
    row(f.DelayStarted),
    row(f.TimerFired, details=lambda x: {"timer": x.timer}),
    row(
        f.LedgerAnswered,
        "iteration",
        details=lambda x: {
            "day": one_line(x.answer.day),
            "cap_usd": x.answer.cap_usd,
            "spent_usd": x.answer.spent_usd,
            "reserved_usd": x.answer.reserved_usd,
            "granted_usd": x.answer.granted_usd,
        },
        line=_capped,
    ),
    row(
        f.FileRefused,
        details=lambda x: {
            "name": quoted(x.name, BRIEF_CHARS),
            "moved_to": quoted(x.moved_to, BRIEF_CHARS),
            "reason": quoted(x.reason),
        },
        line=lambda x, _: RunLine(f"refused {refused_text(x)}", "note", "warn"),
    ),
    row(
        f.SpendingWarned,
        details=lambda x: {"cost_usd": x.cost_usd, "warn_usd": x.warn_usd},
        line=lambda x, _: RunLine(
            f"has spent {money(x.cost_usd)}; you wanted to know at {money(x.warn_usd)}",
            "warning",
            "warn",
        ),
    ),
    row(f.TmuxSessionCleaned, details=lambda x: {"name": x.name}),
    row(
        f.LogImported,
        details=lambda x: {"lines": x.lines, "engine": x.engine},
        line=lambda x, _: RunLine(
            f"imported from the agent-pipelines shell engine ({counted(x.lines, 'event')})"
        ),
    ),
    row(
        f.LogRepaired,
        details=lambda x: {"bytes": x.bytes},
        line=lambda x, _: RunLine(
            f"the log's last line was incomplete; {x.bytes} bytes were archived", "note", "warn"
        ),
    ),
    row(
        f.DamageAccepted,
        details=lambda x: {"lines": ",".join(map(str, x.lines))},
        line=lambda x, _: RunLine(f"ignoring {counted(len(x.lines), 'damaged line')}", "note", "warn"),
    ),
)
