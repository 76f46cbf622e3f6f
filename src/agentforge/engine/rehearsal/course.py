"""The course of a run: what was entered, asked and decided, without times; and how two courses compare."""

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
    "stage_over",
    "branch_over",
    "node_over",
    "person_asked",
    "stop_requested",
    "resumed",
    "manifest",
    "run_completed",
    "run_failed",
    "run_paused",
    "run_aborted",
]

RUN_ENDS = frozenset({"run_completed", "run_failed", "run_paused", "run_aborted"})


class CourseStep(Struct, frozen=True, omit_defaults=True):
    """One step of a course."""

    what: CourseStepKind
    stage: str = ""
    """The stage or block, with the pipelines that it is in: `polish/refine`."""
    branch: str | None = None
    run: int = 1
    """Which time the node is entered."""
    iteration: int = 0
    attempt: int = 0
    detail: str = ""
    """Why it ended, who was asked, what was said."""


class Difference(Struct, frozen=True):
    """Where two courses part."""

    past: CourseStep
    now: CourseStep | None
    """What this pipeline does instead; nothing where it has nothing to do any more."""
    why: str = ""
    """Where the run can't be found again in the pipeline at all."""


class Rehearsal(Struct, frozen=True):
    """A past run, rehearsed with another plan."""

    past: tuple[CourseStep, ...]
    now: tuple[CourseStep, ...]
    difference: Difference | None = None
    """The first; nothing if the courses are the same."""
    unrecorded: tuple[CourseStep, ...] = ()
    """What the rehearsal came to a stop at, because the past run has no answer to it."""

    @property
    def is_same(self) -> bool:
        return self.difference is None
