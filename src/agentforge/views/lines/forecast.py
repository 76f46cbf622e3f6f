"""What a run does at most and what earlier ones took, in `dry-run`."""

from collections.abc import Iterator, Sequence

from agentforge.engine.decide.hooks import MAX_HOOK_RESTARTS
from agentforge.engine.decide.people import MAX_QUESTION_ROUNDS
from agentforge.engine.worst_case import Figure, StageWorst, WorstCase
from agentforge.views.earlier_runs import EarlierRuns, Percentiles
from agentforge.views.text import counted, money, one_line, padded, span, width

TITLES: dict[Figure, str] = {
    "iterations": "iterations",
    "attempts": "attempts",
    "judgments": "judge calls",
    "seconds": "time",
    "cost_usd": "cost",
    "tokens": "tokens",
}
NAME_CHARS = 40
MAX_NAMED = 6
INTRODUCTION = (
    "If agents, judges and checks fail as often as they may, until the run ends or a person must allow more."
)
NOT_COUNTED = (
    "what people allow beyond the limits, such as further cycles or a resume",
    "attempts that end at a provider's quota or rate limit or at a budget, or with the engine or the machine",
    "the time of waiting for people and for such limits",
)


def worst_case_lines(worst: WorstCase) -> Iterator[str]:
    yield from ("", "## Worst case", INTRODUCTION, "", *_table(worst), "")
    exact = [TITLES[figure] for figure in worst.exact if getattr(worst, figure)]
    if exact:
        yield f"- Exact, as a run can reach them: {', '.join(exact)}; other numbers are upper bounds"
    else:
        yield "- All numbers are upper bounds"
    if any(stage.visits > 1 for stage in worst.stages):
        yield f"- Visits: also after routes back, rejections, and up to {MAX_HOOK_RESTARTS} restarts by hooks"
    yield f"- Iterations: also {MAX_QUESTION_ROUNDS} in each visit in which the agent asks questions"
    reasons: dict[tuple[str, str, str], list[str]] = {}
    figures = _figures(worst)
    for one in (one for one in worst.unbounded if one.figure in figures):
        reasons.setdefault((TITLES[one.figure], one.why, one.fix), []).append(one.what)
    for (title, why, fix), names in reasons.items():
        yield f"- No bound for the {title}: {_named(names)}{why}; {fix}"
    if worst.unenforced:
        yield f"- Not enforced: {_named(worst.unenforced)}an attempt may spend more than its figure"
    yield f"- Not counted: {'; '.join(NOT_COUNTED)}"


def _named(names: Sequence[str]) -> str:
    shown = [one_line(name, NAME_CHARS) for name in dict.fromkeys(filter(None, names))]
    more = f" and {len(shown) - MAX_NAMED} more" if len(shown) > MAX_NAMED else ""
    return f"{', '.join(shown[:MAX_NAMED])}{more}: " if shown else ""


def _figures(worst: WorstCase) -> list[Figure]:
    """The columns: calls of judges and tokens only where something is known of them."""
    is_shown = {"judgments": worst.judgments != 0}
    is_shown["tokens"] = bool(worst.tokens or any(stage.tokens for stage in worst.stages))
    return [figure for figure in TITLES if is_shown.get(figure, True)]


def _table(worst: WorstCase) -> Iterator[str]:
    figures = _figures(worst)

    def row(name: str, visits: str, of: StageWorst | WorstCase) -> list[str]:
        return [name, visits, *(_shown(figure, getattr(of, figure)) for figure in figures)]

    head = ["stage", "visits", *(TITLES[figure] for figure in figures)]
    rows = [row(_name(stage), f"{stage.visits:,}", stage) for stage in worst.stages]
    rows = [head, *rows, row("all", "", worst)]
    first, *others = [max(map(width, column)) for column in zip(*rows, strict=True)]
    rows.insert(1, ["-" * first, *("-" * (wide - 1) + ":" for wide in others)])
    for name, *cells in rows:
        numbers = (cell.rjust(wide) for cell, wide in zip(cells, others, strict=True))
        yield f"| {' | '.join([padded(name, first), *numbers])} |"


def _name(stage: StageWorst) -> str:
    name = f"{stage.branch}: {stage.id}" if stage.branch else stage.id
    return one_line(name, NAME_CHARS).replace("|", "/")


def _shown(figure: Figure, number: float | None) -> str:
    if number is None:
        return "no bound"
    if figure == "seconds":
        return span(number)
    return money(number) if figure == "cost_usd" else f"{number:,.0f}"


def earlier_lines(earlier: EarlierRuns) -> Iterator[str]:
    yield from ("", "## Earlier runs")
    if earlier.seconds is None:
        yield "- None of this pipeline was completed in this project"
        return
    yield f"- Time: {_percentiles('seconds', earlier.seconds)}"
    known = [_percentiles("cost_usd", earlier.cost_usd)] if earlier.cost_usd else []
    unknown = earlier.runs - (earlier.cost_usd.runs if earlier.cost_usd else 0)
    known += [f"unknown for {counted(unknown, 'run')}"] if unknown else []
    yield f"- Cost: {'; '.join(known)}"


def _percentiles(figure: Figure, found: Percentiles) -> str:
    low, high = _shown(figure, found.p50), _shown(figure, found.p90)
    return f"p50 {low}, p90 {high} ({counted(found.runs, 'run')})"
