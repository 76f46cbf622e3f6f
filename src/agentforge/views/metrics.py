"""What the stages of a run took, visit by visit: a selection of the record."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentforge.model.artifact import PlannedItem
from agentforge.model.place import visits_key
from agentforge.model.request import APPROVE
from agentforge.model.spending import plus
from agentforge.views.record import RunRecord
from agentforge.views.spending import CapView, cap_views
from agentforge.views.visit_totals import VisitTotals
from agentforge.views.visits import StageVisit, verdict_mark
from agentforge.views.work import IterationWork


class Amounts(Struct, frozen=True, kw_only=True):
    """Of a visit, or of all visits to a stage."""

    duration_seconds: float
    """Without the time in which the run was stopped; so far, if it is not over."""
    tokens_used: int | None
    """As reported by providers, of all attempts and judges; None if none of them reported any."""
    tokens_unreported: int
    """How many attempts and judges ran and reported none."""
    cost_usd: float | None
    """As reported; None if none of them reported it."""
    tokens_budget: int | None
    """How many an iteration may be given."""
    tokens_given: int | None
    """The most that an iteration was given, by estimation; None if that is not recorded."""
    iterations: int
    retries: int
    """Attempts that followed a failed one of their iteration."""
    steps: int | None
    """Of a stage over items: how many were worked on, and of all visits how many there are."""
    verdict: str
    approved: bool | None
    """What the verdict, a person who accepted the result despite it, or an approval says; None: nothing."""


class VisitMetrics(Amounts, frozen=True, kw_only=True):
    visit: int
    is_over: bool


class StageMetrics(Amounts, frozen=True, kw_only=True):
    stage: str
    path: str
    branch: str | None
    is_over: bool
    """Whether its latest visit is over."""
    steps_done: int | None
    cycles: int
    """How often the stage was visited."""
    visits: tuple[VisitMetrics, ...]
    caps: tuple[CapView, ...] = ()
    """What all of its visits together may spend."""

    @property
    def visit(self) -> int:
        """The latest one."""
        return self.visits[-1].visit


_Entry = tuple[StageVisit, VisitTotals, list[IterationWork]]
_VisitKey = tuple[str, str | None, int]
_Answers = dict[_VisitKey, bool]


def metrics_of(record: RunRecord) -> list[StageMetrics]:
    """Of each stage that was visited, in the order of the first visits."""
    stages: dict[tuple[str, str | None], list[_Entry]] = {}
    works: dict[_VisitKey, list[IterationWork]] = {}
    for work in record.iterations:
        works.setdefault((work.path, work.branch, work.visit), []).append(work)
    for visit, totals in zip(record.visits, record.totals, strict=True):
        done = works.get((visit.path, visit.branch, visit.visit), [])
        stages.setdefault((visit.path, visit.branch), []).append((visit, totals, done))
    answers = {
        (at.node_path, at.provider, at.node_run): request.answer == APPROVE
        for request in record.requests.values()
        if request.kind == "approval" and (at := request.at) and request.answer is not None
    }
    plan, state = record.model.plan, record.model.state
    items = state.items if state else {}
    caps = cap_views(plan, state) if plan and state else ()
    found = [_stage(entries, items.get(visits_key(*key)), answers) for key, entries in stages.items()]
    return [replace(one, caps=tuple(cap for cap in caps if cap.path == one.path)) for one in found]


def _stage(
    entries: Sequence[_Entry], items: dict[str, PlannedItem] | None, answers: _Answers
) -> StageMetrics:
    visits = tuple(_visit(entry, items is not None, answers) for entry in entries)
    used, costs, budgets, given = (
        [known for one in visits if (known := getattr(one, name)) is not None]
        for name in ("tokens_used", "cost_usd", "tokens_budget", "tokens_given")
    )
    last = entries[-1][0]
    judged = next((one for one in reversed(visits) if one.approved is not None), None)
    return StageMetrics(
        stage=last.stage,
        path=last.path,
        branch=last.branch,
        is_over=visits[-1].is_over,
        duration_seconds=round(sum(one.duration_seconds for one in visits), 3),
        tokens_used=sum(used) if used else None,
        tokens_unreported=sum(one.tokens_unreported for one in visits),
        cost_usd=plus(*costs) if costs else None,
        tokens_budget=budgets[-1] if budgets else None,
        tokens_given=max(given, default=None),
        iterations=sum(one.iterations for one in visits),
        retries=sum(one.retries for one in visits),
        steps=None if items is None else len(items),
        steps_done=None if items is None else sum(one.status == "done" for one in items.values()),
        cycles=len(visits),
        verdict=judged.verdict if judged else "",
        approved=judged.approved if judged else None,
        visits=visits,
    )


def _visit(entry: _Entry, has_items: bool, answers: _Answers) -> VisitMetrics:
    visit, totals, works = entry
    uses = [work.context for work in works if work.context]
    approved = answers.get((visit.path, visit.branch, visit.visit))
    if visit.verdict and approved is None:
        approved = verdict_mark(visit.verdict, visit.accepted_by) != "failed"
    return VisitMetrics(
        visit=visit.visit,
        is_over=visit.ended_at is not None,
        duration_seconds=round(totals.seconds, 3),
        tokens_used=totals.tokens_used,
        tokens_unreported=totals.unreported,
        cost_usd=totals.cost_usd,
        tokens_budget=next((use.budget for use in reversed(uses) if use.budget is not None), None),
        tokens_given=max((use.tokens for use in uses), default=None),
        iterations=visit.iterations,
        retries=totals.retries,
        steps=len({work.item for work in works if work.item}) if has_items else None,
        verdict=visit.verdict,
        approved=approved,
    )
