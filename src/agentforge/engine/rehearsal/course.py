"""The steps of a course as two runs take them, and the point where they diverge."""

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.decide.task_kinds import KINDS
from agentforge.engine.node_identity import NodeKey
from agentforge.model import facts as f
from agentforge.model.course import OUTSIDE_ITERATIONS, CourseStep
from agentforge.model.cursor import Cursor
from agentforge.model.task import Wait, Work


class Difference(Struct, frozen=True):
    """The point where two courses diverge."""

    past: CourseStep
    now: CourseStep | None
    """The step that this pipeline takes instead, or None if it has nothing left to do."""
    why: str = ""
    """Set if the run has no position in the pipeline at all."""


class Rehearsal(Struct, frozen=True):
    """A past run, rehearsed with another plan."""

    past: tuple[CourseStep, ...]
    now: tuple[CourseStep, ...]
    difference: Difference | None = None
    """The first difference, or None if the courses are the same."""
    unrecorded: tuple[CourseStep, ...] = ()
    """The steps at which the rehearsal stopped, because the past run recorded no outcome for them."""

    @property
    def is_same(self) -> bool:
        return self.difference is None


def step_of_fact(fact: f.AnyFact, place: NodeKey | None, cursor: Cursor | None) -> CourseStep | None:
    """The course step of a fact, or None."""
    step = fact.step()
    if step is None:
        return None
    # By the node's name and not by its path: another plan may have it elsewhere.
    stage, branch, visit = _where(place, cursor)
    iteration = cursor.iteration if cursor and step.what not in OUTSIDE_ITERATIONS else step.iteration
    return replace(step, stage=stage, branch=branch, visit=visit, iteration=iteration)


def step_of_work(work: Work, place: NodeKey | None) -> CourseStep | None:
    """The course step that running this work leads to, or None."""
    if isinstance(work, Wait):
        return None
    step, where = KINDS[work.KIND].step, _where(place, work.cursor)
    return CourseStep(step, *where, work.iteration, work.attempt, work.label)


def _where(place: NodeKey | None, cursor: Cursor | None) -> tuple[str, str | None, int]:
    name = place.name if place else ""
    return (name, cursor.provider, cursor.node_run) if cursor else (name, None, 1)
