"""The course of a run (nodes entered, agents called, decisions, without times) and its comparison."""

from typing import Literal

from msgspec import Struct

CourseStepKind = Literal[
    "node_entered",
    "branch_begun",
    "iteration",
    "attempt",
    "answer",
    "error",
    "attempt_lost",
    "attempt_cancelled",
    "judge",
    "judgment",
    "judge_lost",
    "queue",
    "hook",
    "hook_answer",
    "check",
    "check_outcome",
    "verdict",
    "route",
    "stage_over",
    "branch_over",
    "node_over",
    "node_restarted",
    "person_asked",
    "stop_requested",
    "restart_requested",
    "check_waived",
    "resumed",
    "manifest",
    "run_completed",
    "run_failed",
    "run_paused",
    "run_aborted",
]

RUN_ENDS = frozenset({"run_completed", "run_failed", "run_paused", "run_aborted"})


class CourseStep(Struct, frozen=True, omit_defaults=True):
    what: CourseStepKind
    stage: str = ""
    """The stage or block, with its enclosing pipelines: `polish/refine`."""
    branch: str | None = None
    visit: int = 1
    iteration: int = 0
    attempt: int = 0
    detail: str = ""
    """The reason, provider or decision."""


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
