"""The course of a run, by which runs are compared: the nodes that it entered, its agents, its decisions.
Times, waits and what is only about the log are left out."""

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
    "items",
    "item_over",
    "hook",
    "hook_answer",
    "check",
    "check_outcome",
    "task",
    "task_outcome",
    "verdict",
    "route",
    "stage_over",
    "branch_over",
    "node_over",
    "node_restarted",
    "person_asked",
    "stop_requested",
    "restart_requested",
    "waived",
    "resumed",
    "manifest",
    "run_completed",
    "run_failed",
    "run_paused",
    "run_aborted",
]

RUN_ENDS = frozenset({"run_completed", "run_failed", "run_paused", "run_aborted"})
OUTSIDE_ITERATIONS: frozenset[CourseStepKind] = frozenset(
    {
        "node_entered",
        "branch_begun",
        "branch_over",
        "node_over",
        "stage_over",
        "manifest",
        "stop_requested",
        "restart_requested",
        "waived",
        "resumed",
    }
)
"""Steps that are not about the iteration at which they were recorded."""


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
