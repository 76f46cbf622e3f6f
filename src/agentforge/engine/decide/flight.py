"""The tasks that were started and haven't ended: they are awaited, reattached to after a crash, or ended."""

from collections.abc import Iterator

from agentforge.engine.decide.hooks import calls_in_flight
from agentforge.engine.decide.stage_at import StageAt, stage_at
from agentforge.engine.decide.task_kinds import KINDS
from agentforge.model.event import Draft
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.model.task import StartedTask


def in_flight(plan: Plan, state: RunState) -> Iterator[StartedTask]:
    """All of the run, whichever engine recorded the start, or that it is to be ended."""
    for provider, at in state.under_way():
        if (here := stage_at(plan, state, provider, at)) is not None:
            yield from _of_stage(here)
    yield from calls_in_flight(plan, state)


def in_flight_at(here: StageAt) -> StartedTask | None:
    """What runs in this visit of the stage: a task of its own, or a hook that is called for it."""
    hooks = calls_in_flight(here.plan, here.state, here.place.cursor(0))
    return next(_of_stage(here), None) or next(hooks, None)


def _of_stage(here: StageAt) -> Iterator[StartedTask]:
    for kind, known in here.at.tasks:
        build = KINDS[kind].in_flight
        if known.in_flight and build is not None and (task := build(here, known)) is not None:
            yield task


def ended(task: StartedTask, reason: str) -> Draft | None:
    """The fact that stops the task, or None if that is recorded already."""
    ending = KINDS[task.KIND].ending
    if task.ending or ending is None:
        return None
    return Draft(ending(**task.names, reason=reason), task.recorded_at)
