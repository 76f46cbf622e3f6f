"""The entries of `show --checks` and `--history`: visits to stages with their checks, verdicts and routes."""

from collections.abc import Iterator, Mapping

from agentforge.views.lines.checks import CHECK_ENDS, no_tree_text, outcome_words, tree_text, waived_text
from agentforge.views.lines.entry import EntryRow, RunEntry, Shown
from agentforge.views.text import counted, one_line, reason_text
from agentforge.views.visits import CheckRun, CheckRunStatus, StageCheck, StageVisit, verdict_mark

TEXT_CHARS = 400
MAX_SHOWN_PATHS = 5

CHECK_MARKS: Mapping[CheckRunStatus, str] = {
    "running": "current",
    "lost": "warning",
    "void": "warning",
    "pass": "done",
    "fail": "failed",
    "error": "failed",
    "timeout": "failed",
}
RUN_ENDS: Mapping[str, str] = {
    "running": "is running",
    "lost": "was lost",
    "void": "was discarded because files changed",
    **CHECK_ENDS,
}


def check_entry(run: StageCheck, shown: Shown) -> RunEntry:
    """One run of a check; with details also what failed."""
    iteration = f", iteration {run.iteration}" if run.iteration else ""
    title = f"{_place(run)}{iteration}: {check_outcome(run)}"
    return RunEntry(CHECK_MARKS[run.status], title, tuple(_check_rows(run, shown)))


def check_outcome(run: CheckRun) -> str:
    """`test failed in 1.5s: 1 failed, 1 passed`"""
    reason = one_line(run.reason, TEXT_CHARS)
    how = outcome_words(run.status, RUN_ENDS[run.status], run.duration_seconds, run.counts, reason)
    return f"{one_line(run.check)} {how}{no_tree_text(run.tree_problem)}"


def _check_rows(run: CheckRun, shown: Shown) -> Iterator[EntryRow]:
    if run.tree:
        yield EntryRow("Tree", tree_text(run.tree))
    if run.changed:
        more = f" and {len(run.changed) - MAX_SHOWN_PATHS} more" * (len(run.changed) > MAX_SHOWN_PATHS)
        yield EntryRow("Changed", ", ".join(map(one_line, run.changed[:MAX_SHOWN_PATHS])) + more)
    if run.output:
        yield EntryRow("Output", one_line(f"{shown.run_dir}/{run.output}"))
    if shown.details:
        yield from (EntryRow("Failure", one_line(each, TEXT_CHARS)) for each in run.signatures)
        if run.failures > len(run.signatures):
            yield EntryRow("Failure", f"{counted(run.failures, 'failure')} in all: see the output")


def visit_entry(visit: StageVisit, shown: Shown) -> RunEntry:
    """One visit; with details also its verdict's reason, checks and route."""
    mark: str
    if visit.verdict:
        tree = f" on tree {tree_text(visit.tree)}" if visit.tree else ""
        accepted = f", accepted by {one_line(visit.accepted_by)}" if visit.accepted_by else ""
        what, mark = (
            f"{one_line(visit.verdict)}{tree}{accepted}{waived_text(visit.waived)}",
            verdict_mark(visit.verdict, visit.accepted_by),
        )
    elif visit.ended_at:
        what, mark = counted(visit.iterations, "iteration"), "done"
    else:
        what, mark = "not finished", "current"
    rows = tuple(_visit_rows(visit)) if shown.details else ()
    return RunEntry(mark, f"{_place(visit)}: {what}", rows)


def _visit_rows(visit: StageVisit) -> Iterator[EntryRow]:
    yield from (EntryRow("Check", check_outcome(run)) for run in visit.checks)
    if visit.reason:
        yield EntryRow("Reason", one_line(visit.reason, TEXT_CHARS))
    if visit.accept_reason:
        yield EntryRow("Accepted", one_line(visit.accept_reason, TEXT_CHARS))
    if visit.to is not None:
        skipped = f", skipping {', '.join(map(one_line, visit.skipped))}" if visit.skipped else ""
        onward = f"{f'on to {one_line(visit.to)}' if visit.to else 'to the end'}{skipped}"
        back = f"back to {one_line(visit.to)}, cycle {visit.cycle} of {visit.of}"
        yield EntryRow("Route", back if visit.cycle else onward)
    if visit.ended:
        yield EntryRow("Ended", reason_text(visit.ended))


def _place(visit: StageVisit | StageCheck) -> str:
    branch = f" ({one_line(visit.branch)})" if visit.branch else ""
    return f"{one_line(visit.stage)}{branch}, visit {visit.visit}"
