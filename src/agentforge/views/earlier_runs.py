"""What earlier runs of a pipeline cost and how long they took."""

from collections.abc import Sequence
from math import ceil

from msgspec import Struct

from agentforge.model.plan import Plan
from agentforge.model.spending import Spending
from agentforge.model.status import RunStatus
from agentforge.views.results import RunInfo


class Percentiles(Struct, frozen=True):
    """Of values that were really measured: half of them are at most `p50`, nine of ten at most `p90`."""

    runs: int
    p50: float
    p90: float


class EarlierRuns(Struct, frozen=True):
    """The finished runs of a pipeline, those in mock mode and replays excepted."""

    runs: int = 0
    seconds: Percentiles | None = None
    """Without the time in which they waited for people."""
    cost_usd: Percentiles | None = None
    """Of the runs whose agents reported what they cost, if any."""


def is_earlier_run(info: RunInfo, plan: Plan) -> bool:
    """Whether the run tells something about the next one of that plan: it was completed, and the agents of a
    pipeline or a stage of that name did the work."""
    settings, other = info.state.settings, info.plan
    is_same = (other.mode, other.pipeline.name) == (plan.mode, plan.pipeline.name)
    is_real = not settings.mock and settings.replay is None
    return is_same and is_real and info.state.status is RunStatus.COMPLETED


def earlier_runs(found: Sequence[RunInfo]) -> EarlierRuns:
    results = [info.result for info in found]
    spent = [one.spending for one in results if one.spending != Spending()]
    known = [spending.cost_usd for spending in spent if not (spending.unpriced or spending.assumed_usd)]
    seconds = [max(0.0, one.duration_seconds - one.waited_seconds) for one in results]
    return EarlierRuns(len(found), _percentiles(seconds), _percentiles(known))


def _percentiles(values: Sequence[float]) -> Percentiles | None:
    ordered = sorted(values)
    if not ordered:
        return None
    return Percentiles(len(ordered), *(ordered[ceil(len(ordered) * share / 100) - 1] for share in (50, 90)))
