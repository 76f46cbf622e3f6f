"""Text about checks, verdicts and routes: their events in `tail` and on a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from agentforge.engine.decide.checks import PASS
from agentforge.model import facts as f
from agentforge.model.check import CheckCounts
from agentforge.model.state import Waiver
from agentforge.views.text import one_line, span

TEXT_CHARS = 160
TREE_CHARS = 12
CHECK_ENDS: Mapping[str, str] = {
    "pass": "passed",
    "fail": "failed",
    "error": "had an error",
    "timeout": "timed out",
}

CheckEvent = (
    f.CheckStarted
    | f.CheckPrepared
    | f.CheckCompleted
    | f.CheckEnding
    | f.CheckLost
    | f.CheckWaived
    | f.StageVerdictReached
    | f.StageTransitioned
)
Waived = f.CheckWaived | Waiver


def check_details(fact: CheckEvent) -> list[tuple[str, Any]]:
    """The fields of a line of `tail`; those that are empty are left out."""
    match fact:
        case f.CheckStarted() | f.CheckLost():
            return [("check", one_line(fact.check)), ("attempt", fact.attempt)]
        case f.CheckPrepared():
            named = [("check", one_line(fact.check)), ("attempt", fact.attempt)]
            return [*named, ("tree", fact.files.tree or "")]
        case f.CheckEnding():
            return [
                ("check", one_line(fact.check)),
                ("attempt", fact.attempt),
                ("reason", _quoted(fact.reason)),
            ]
        case f.CheckCompleted():
            named = [("check", one_line(fact.check)), ("attempt", fact.attempt), ("status", fact.status)]
            counts = _quoted(counts_text(fact.counts))
            return [
                *named,
                ("counts", counts),
                ("reason", _quoted(fact.reason)),
                ("tree", fact.tree_after or ""),
                ("tree_problem", _quoted(fact.tree_problem)),
            ]
        case f.CheckWaived():
            return [("check", one_line(fact.check)), *_said_about((fact,))]
        case f.StageVerdictReached():
            failing, waived = ",".join(map(one_line, fact.failing)), ",".join(map(one_line, fact.waived))
            said = [("verdict", one_line(fact.verdict)), ("failing", failing), ("waived", waived)]
            return [*said, ("reason", _quoted(fact.reason)), ("tree", fact.tree or "")]
        case f.StageTransitioned():
            cycle = f"{fact.cycle}/{fact.of}" if fact.cycle else ""
            to = [("from", one_line(fact.source)), ("to", one_line(fact.to) or "end")]
            skipped = ",".join(map(one_line, fact.skipped))
            return [*to, ("verdict", one_line(fact.verdict)), ("cycle", cycle), ("skipped", skipped)]
        case _:
            assert_never(fact)


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


def check_words(fact: CheckEvent, *, is_branch: bool = False) -> str:
    """The event as a line for people; `is_branch`: of a stage in a parallel block."""
    match fact:
        case f.CheckStarted():
            return f"running check {one_line(fact.check)}"
        case f.CheckPrepared():
            return ""
        case f.CheckCompleted():
            return _completed(fact)
        case f.CheckEnding():
            return f"stopping check {one_line(fact.check)}: {_text(fact.reason)}"
        case f.CheckLost():
            return f"lost check {one_line(fact.check)} (try {fact.attempt})"
        case f.CheckWaived():
            return waiver_words((fact,))
        case f.StageVerdictReached():
            waived = waived_text(fact.waived)
            # Of other verdicts, the next line has the reason: the route, the question or the failure.
            why = f": {_text(fact.reason)}" if fact.reason and fact.verdict == PASS else ""
            tree = f" on tree {tree_text(fact.tree)}" if fact.tree else ""
            return f"verdict {one_line(fact.verdict)}{tree}{waived}{why}"
        case f.StageTransitioned():
            return _routed(fact, "its branch" if is_branch else "its pipeline" if fact.next else "the run")
        case _:
            assert_never(fact)


def waived_text(names: Sequence[str]) -> str:
    """What follows a verdict: ` (waived: test)`."""
    return f" (waived: {', '.join(map(one_line, names))})" if names else ""


def waiver_text(waiver: Waiver) -> str:
    return f"{one_line(waiver.check)} by {_text(waiver.by)}: {_text(waiver.reason)}"


def waiver_words(waived: Sequence[Waived]) -> str:
    """Who waived which checks, and why; empty without any."""
    return "; ".join(
        f"check {one_line(each.check)} was waived by {_text(each.by)}: {_text(each.reason)}"
        for each in waived
    )


def waiver_details(waived: Sequence[Waived]) -> list[tuple[str, Any]]:
    """The same as fields of a line of `tail`."""
    return [("waived", ",".join(one_line(each.check) for each in waived)), *_said_about(waived)]


def _said_about(waived: Sequence[Waived]) -> list[tuple[str, Any]]:
    by = ", ".join(dict.fromkeys(each.by for each in waived))
    return [("by", _quoted(by)), ("reason", _quoted("; ".join(dict.fromkeys(w.reason for w in waived))))]


def _completed(fact: f.CheckCompleted) -> str:
    no_tree = no_tree_text(fact.tree_problem)
    if fact.changed:
        paths = _text(fact.changed[0])
        return f"check {one_line(fact.check)} is void: files changed while it ran ({paths}){no_tree}"
    seconds, reason = fact.duration_ms / 1000, _text(fact.reason)
    how = outcome_words(fact.status, CHECK_ENDS[fact.status], seconds, fact.counts, reason)
    return f"check {one_line(fact.check)} {how}{no_tree}"


def outcome_words(status: str, how: str, seconds: float | None, counts: CheckCounts, reason: str) -> str:
    """`failed in 1.5s: 1 failed, 1 passed`, `timed out after 10s`"""
    after = f" {'after' if status == 'timeout' else 'in'} {span(seconds)}" if seconds else ""
    details = counts_text(counts) or (reason if status not in ("pass", "timeout") else "")
    return f"{how}{after}{f': {details}' if details else ''}"


def _routed(fact: f.StageTransitioned, whole: str) -> str:
    why = f": {_text(fact.reason)}" if fact.reason else ""
    skipped = f", skipping {_text(', '.join(fact.skipped))}" if fact.skipped else ""
    if not fact.to:
        return f"ends {whole} (verdict {one_line(fact.verdict)}){skipped}{why}"
    if fact.cycle:
        return f"goes back to {one_line(fact.to)} (cycle {fact.cycle} of {fact.of}){why}"
    return f"continues with {one_line(fact.to)}{skipped}{why}"


def _text(text: str) -> str:
    return one_line(text, TEXT_CHARS)


def _quoted(text: str) -> str:
    return f'"{_text(text)}"' if text else ""
