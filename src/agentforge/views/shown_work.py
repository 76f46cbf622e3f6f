"""An iteration as `show --json` prints it."""

from datetime import datetime

from msgspec import Struct

from agentforge.model.file_change import Changes, FileChange
from agentforge.model.result import Decision, Result
from agentforge.views.work import AttemptWork, IterationWork, JudgeWork, WorkStatus


class IterationView(Struct, frozen=True):
    stage: str
    branch: str | None
    path: str
    visit: int
    iteration: int
    status: WorkStatus
    started_at: datetime
    ended_at: datetime | None
    duration_seconds: float | None
    decision: Decision | None
    summary: str
    reason: str
    result: Result | None
    attempts: tuple[AttemptWork, ...]
    judge: JudgeWork | None
    cost_usd: float | None
    """None if no agent reported its cost."""
    unpriced_models: tuple[str, ...]
    input_tokens: int
    output_tokens: int
    changed: tuple[FileChange, ...] | None
    """None if unknown."""
    changed_by_others: bool
    """Whether other branches worked on the same files at the same time."""
    tree_before: str | None
    tree_after: str | None
    tree_problem: str


def iteration_view(work: IterationWork, changes: Changes | None) -> IterationView:
    result, spent = work.result, work.spending
    return IterationView(
        stage=work.stage,
        branch=work.branch,
        path=work.path,
        visit=work.visit,
        iteration=work.iteration,
        status=work.status,
        started_at=work.started_at,
        ended_at=work.ended_at,
        duration_seconds=work.duration_seconds,
        decision=result.decision if result else None,
        summary=result.summary if result else "",
        reason=work.reason,
        result=result,
        attempts=work.attempts,
        judge=work.judge,
        cost_usd=spent.cost_usd or None,
        unpriced_models=spent.unpriced,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        changed=changes.files if changes else None,
        changed_by_others=work.shared,
        tree_before=work.before,
        tree_after=work.after,
        tree_problem=work.problem,
    )
