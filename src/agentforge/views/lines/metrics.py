"""What the stages of a run took, as text."""

from collections.abc import Iterable, Iterator

from agentforge.views.lines.entries import EntryRow, RunEntry, Shown
from agentforge.views.metrics import Amounts, StageMetrics, VisitMetrics
from agentforge.views.text import counted, money, one_line, span


def metrics_entry(one: StageMetrics, shown: Shown) -> RunEntry:
    mark = "done" if one.is_over else "current" if shown.status == "running" else "stopped"
    if one.approved is False:
        mark = "failed"
    visits = one.visits if len(one.visits) > 1 else ()
    each = (EntryRow(f"Visit {visit.visit}", _visit(visit)) for visit in visits)
    return RunEntry(mark, _name(one), (*metric_rows(one), *each))


def metrics_lines(stages: Iterable[StageMetrics]) -> Iterator[str]:
    """All stages as indented text, below a heading."""
    yield "Stage Metrics:"
    for number, one in enumerate(stages):
        if number:
            yield ""
        name = _name(one)
        yield f"  {name[:1].upper()}{name[1:]}:"
        yield from (f"    {row.label}: {row.value}" for row in metric_rows(one))


def metric_rows(one: StageMetrics) -> Iterator[EntryRow]:
    yield EntryRow("Duration", _seconds(one.duration_seconds))
    budget = "" if one.tokens_budget is None else f" / {one.tokens_budget:,}"
    yield EntryRow("Tokens", f"{_used(one)}{budget}")
    if one.cost_usd:
        yield EntryRow("Cost", money(one.cost_usd))
    yield from (EntryRow("Cap", cap.text) for cap in one.caps)
    yield EntryRow("Retries", f"{one.retries:,}")
    if one.steps is not None:
        done = "" if one.steps == one.steps_done else f"{one.steps_done:,} / "
        yield EntryRow("Steps", f"{done}{one.steps:,}")
    if one.cycles > 1 or one.approved is not None:
        yield EntryRow("Cycles", f"{one.cycles:,}")
    if one.approved is not None:
        yield EntryRow("Approved", "true" if one.approved else "false")


def _name(one: StageMetrics) -> str:
    return one_line(f"{one.stage} ({one.branch})" if one.branch else one.stage)


def _visit(one: VisitMetrics) -> str:
    """`12.3s, 2,450 tokens, 1 retry, fail`"""
    steps = [counted(one.steps, "step")] if one.steps is not None else []
    said = [one_line(one.verdict)] if one.verdict else []
    open = [] if one.is_over else ["not finished"]
    retries = counted(one.retries, "retry", "retries")
    return ", ".join([_seconds(one.duration_seconds), f"{_used(one)} tokens", retries, *steps, *said, *open])


def _used(one: Amounts) -> str:
    if one.tokens_used is None:
        return "unknown"
    return f"{one.tokens_used:,} + unknown" if one.tokens_unreported else f"{one.tokens_used:,}"


def _seconds(seconds: float) -> str:
    """As a span, but with a digit more up to a minute."""
    return f"{seconds:.1f}s" if seconds < 59.95 else span(seconds)
