"""Text about checks, verdicts and routes, and the rows of their facts. A check starts, is stopped and is lost
like any task (`row.task_row`)."""

from collections.abc import Mapping, Sequence

from agentforge.model import facts as f
from agentforge.model.check import CheckCounts
from agentforge.model.event import Event
from agentforge.model.plan import PASS
from agentforge.model.state import Waiver
from agentforge.views.lines.row import TEXT_CHARS, Details, RunLine, listed, quoted, row
from agentforge.views.text import one_line, span
from agentforge.views.visits import verdict_mark

TREE_CHARS = 12
CHECK_ENDS: Mapping[str, str] = {
    "pass": "passed",
    "fail": "failed",
    "error": "had an error",
    "timeout": "timed out",
}


def counts_text(counts: CheckCounts) -> str:
    """Such as "2 failed, 10 passed"; empty without counts."""
    named = {
        "failed": counts.failed,
        "errors": counts.errors,
        "passed": counts.passed,
        "skipped": counts.skipped,
    }
    return ", ".join(f"{number} {name}" for name, number in named.items() if number)


def tree_text(tree: str) -> str:
    """The beginning of its id; git takes it as well."""
    return one_line(tree)[:TREE_CHARS]


def no_tree_text(problem: str) -> str:
    """What follows the outcome of a check without trees: ` (no tree: git is not installed)`."""
    return f" (no tree: {_text(problem)})" if problem else ""


def waived_text(names: Sequence[str]) -> str:
    """What follows a verdict: ` (waived: test)`."""
    return f" (waived: {', '.join(map(one_line, names))})" if names else ""


def skipped_text(by: str) -> str:
    """What a stage has in place of its verdict."""
    return f"skipped by {one_line(by)}"


def waiver_text(waiver: Waiver) -> str:
    what = waiver.what if waiver.stage else waiver.check
    return f"{one_line(what)} by {_text(waiver.by)}: {_text(waiver.reason)}"


def waiver_words(waived: Sequence[Waiver]) -> str:
    """Who waived which checks and stages, and why; empty without any."""
    return "; ".join(
        f"{one_line(each.what)} was waived by {_text(each.by)}: {_text(each.reason)}" for each in waived
    )


def waiver_details(waived: Sequence[Waiver]) -> Details:
    """The same as fields of a line of `tail`."""
    checks = listed([each.check for each in waived if each.check])
    stages = listed([each.stage for each in waived if each.stage])
    by = ", ".join(dict.fromkeys(each.by for each in waived))
    reasons = "; ".join(dict.fromkeys(each.reason for each in waived))
    return {"waived": checks, "skipped": stages, "by": quoted(by), "reason": quoted(reasons)}


def outcome_words(
    status: str, how: str, seconds: float | None, counts: CheckCounts, reason: str, *, before: int
) -> str:
    """`failed in 1.5s: 1 failed, 1 passed`, `timed out after 10s`; with failures that were there `before`:
    `failed in 1.5s: 2 new failures (17 failed before too)`."""
    after = f" {'after' if status == 'timeout' else 'in'} {span(seconds)}" if seconds else ""
    why = reason if status not in ("pass", "timeout") else ""
    details = (why or f"{before:,} failed before too") if before else (counts_text(counts) or why)
    return f"{how}{after}{f': {details}' if details else ''}"


def unused_text(name: str, why: str) -> str:
    return f"{one_line(name)} is not used in this run: before the first agent, {_text(why)}"


def _text(text: str) -> str:
    return one_line(text, TEXT_CHARS)


def _completed(fact: f.CheckCompleted, _: Event) -> RunLine:
    check, no_tree = one_line(fact.named), no_tree_text(fact.tree_problem)
    if fact.changed:
        text = f"{check} is void: files changed while it ran ({_text(fact.changed[0])}){no_tree}"
        return RunLine(text, "failed", "error")
    if fact.found and fact.found.unusable:
        return RunLine(f"check {unused_text(fact.check, fact.found.unusable)}", "warning", "warn")
    how, seconds = CHECK_ENDS[fact.status], fact.duration_ms / 1000
    words = outcome_words(fact.status, how, seconds, fact.counts, _text(fact.reason), before=fact.before)
    text = f"{check} {words}{no_tree}"
    if fact.found:
        return RunLine(text)
    return RunLine(text, "done") if fact.status == "pass" else RunLine(text, "failed", "error")


def _verdict(fact: f.StageVerdictReached, _: Event) -> RunLine:
    if fact.skipped_by:
        return RunLine(f"{skipped_text(fact.skipped_by)}: {_text(fact.reason)}", "note", "warn")
    tree = f" on tree {tree_text(fact.tree)}" if fact.tree else ""
    text = f"verdict {one_line(fact.verdict)}{tree}{waived_text(fact.waived)}"
    if fact.verdict == PASS:
        return RunLine(f"{text}: {_text(fact.reason)}" if fact.reason else text, "done")
    # The next line has the reason: the route, the question or the failure.
    return RunLine(text, "failed" if verdict_mark(fact.verdict, "") == "failed" else "note", "warn")


def _routed(fact: f.StageTransitioned, event: Event) -> RunLine:
    why = f": {_text(fact.reason)}" if fact.reason else ""
    skipped = f", skipping {_text(', '.join(fact.skipped))}" if fact.skipped else ""
    if not fact.to:
        is_branch = event.cursor is not None and event.cursor.provider is not None
        whole = "its branch" if is_branch else "its pipeline" if fact.next else "the run"
        text = f"ends {whole} (verdict {one_line(fact.verdict)}){skipped}{why}"
    elif fact.cycle:
        text = f"goes back to {one_line(fact.to)} (cycle {fact.cycle} of {fact.of}){why}"
    else:
        text = f"continues with {one_line(fact.to)}{skipped}{why}"
    return RunLine(text, "back" if fact.cycle else "onward", "warn")


ROWS = (
    row(
        f.CheckPrepared,
        "iteration",
        details=lambda x: {"check": one_line(x.about), "attempt": x.attempt, "tree": x.files.tree or ""},
    ),
    row(
        f.CheckCompleted,
        "iteration",
        details=lambda x: {
            "check": one_line(x.about),
            "attempt": x.attempt,
            "status": x.status,
            "counts": quoted(counts_text(x.counts)),
            "reason": quoted(x.reason),
            "tree": x.tree_after or "",
            "tree_problem": quoted(x.tree_problem),
        },
        line=_completed,
    ),
    row(
        f.Waived,
        details=lambda x: waiver_details((x.waiver,)),
        line=lambda x, _: RunLine(waiver_words((x.waiver,)), "note", "warn"),
    ),
    row(
        f.StageVerdictReached,
        "iteration",
        subject="stage",
        details=lambda x: {
            "verdict": one_line(x.verdict),
            "failing": listed(x.failing),
            "waived": listed(x.waived),
            "reason": quoted(x.reason),
            "tree": x.tree or "",
            "skipped_by": one_line(x.skipped_by),
        },
        line=_verdict,
    ),
    row(
        f.StageTransitioned,
        "iteration",
        subject="stage",
        details=lambda x: {
            "from": one_line(x.source),
            "to": one_line(x.to) or "end",
            "verdict": one_line(x.verdict),
            "cycle": f"{x.cycle}/{x.of}" if x.cycle else "",
            "skipped": listed(x.skipped),
        },
        line=_routed,
    ),
)
