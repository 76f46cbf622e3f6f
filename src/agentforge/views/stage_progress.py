"""The progress of each stage, for `status` and the live display."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from agentforge.engine.nodes import is_of_round
from agentforge.model.artifact import ItemAt
from agentforge.model.cursor import Destination
from agentforge.model.place import visits_key
from agentforge.model.plan import Items, ParallelNode, Plan, StageNode, Step
from agentforge.model.state import (
    Between,
    BlockState,
    BranchState,
    RunState,
    StageRecord,
    StageState,
    Start,
    is_within,
    position_of,
)
from agentforge.model.status import NodeStatus, RunStatus
from agentforge.views.text import counted, reason_text, shown_reason
from agentforge.views.visits import verdict_mark

PIPELINE_ENDED = "all_loops_complete"
"""The recorded reason of a run whose last node is complete."""

StageMark = Literal["done", "current", "failed", "stopped", "waiting", "skipped", "warning"]


class BranchProgress(Struct, frozen=True):
    """The progress of one provider in a parallel block."""

    provider: str
    mark: StageMark
    stage: str
    """The current or last stage."""
    completed: int
    total: int
    """Over all its stages, as of a stage."""
    error: str = ""
    skipped: tuple[str, ...] = ()
    """Stages that a route passed over."""
    item: ItemAt | None = None
    """The one that the current stage works on."""


class StageProgress(Struct, frozen=True):
    id: str
    mark: StageMark
    completed: int
    """Completed iterations that count against the maximum: not those in which the agent asked. Of a stage
    over items: those that are over."""
    total: int
    """Maximum iterations; the stage may end earlier. Of a stage over items: how many it has, 0 before they
    are known."""
    reason: str = ""
    """Why it ended."""
    verdict: str = ""
    """Of its last visit, once that is over."""
    accepted_by: str = ""
    """Who accepted the result despite its verdict."""
    branches: tuple[BranchProgress, ...] = ()
    item: ItemAt | None = None
    """The one that it works on."""


def stage_progress(plan: Plan, state: RunState) -> tuple[StageProgress, ...]:
    # In the next round of a nested pipeline, its nodes are ahead again.
    done = {record.path: record for record in state.stages if _is_of_this_round(record, state)}
    return tuple(_step_progress(state, step, done.get(step.path)) for step in plan.steps)


def _step_progress(state: RunState, step: Step, record: StageRecord | None) -> StageProgress:
    """`record`: of its last visit."""
    name, at = step.node.id, state.node
    if at and at.path == step.path and isinstance(step.node, StageNode):
        done, total = _counts(state, step.node, step.path, at.counted)
        item = state.item_at(step.path, at.item_id)
        return StageProgress(name, _current_mark(state.status), done, total, item=item)
    if state.block and state.block.path == step.path and isinstance(step.node, ParallelNode):
        return _block_progress(state, state.block, step, step.node)
    done, total = _counts_of_all(state, step, record.counted if record else 0)
    if is_skipped(step.path, state):
        return StageProgress(name, "skipped", 0, total)
    if record is None or _is_ahead(step.path, state):
        return StageProgress(name, "waiting", 0, total)
    return StageProgress(
        name,
        verdict_mark(record.verdict, record.accepted_by),
        done,
        # A recompilation may have lowered the maximum since.
        max(total, done),
        shown_reason(record.reason),
        record.verdict,
        record.accepted_by,
    )


def _counts(state: RunState, stage: StageNode, key: str, counted: int) -> tuple[int, int]:
    """How much is done, and of how much: iterations, or items. `key`: of the stage in `RunState.items`."""
    if not isinstance(stage.termination, Items):
        return counted, stage.termination.max
    items = state.items.get(key, {}).values()
    return sum(item.status != "pending" for item in items), len(items)


def _counts_of_all(state: RunState, step: Step, counted: int) -> tuple[int, int]:
    match step.node:
        case StageNode() as stage:
            return _counts(state, stage, step.path, counted)
        case ParallelNode(branches=branches):  # exhaustive
            each = (_branch_counts(state, step, BranchState(branch.provider)) for branch in branches)
            return counted, sum(total for _, total in each)


def _branch_counts(state: RunState, step: Step, branch: BranchState) -> tuple[int, int]:
    under_way = (branch.stage,) if branch.stage else ()
    counts = []
    for stage in step.branch(branch.provider):
        path = step.inner_path(stage)
        counted = sum(one.counted for one in (*branch.stages, *under_way) if one.path == path)
        counts.append(_counts(state, stage, visits_key(path, branch.provider), counted))
    return sum(done for done, _ in counts), sum(total for _, total in counts)


def completion_text(reason: str, stages: Sequence[StageProgress]) -> str:
    """What a completed run did: `2 stages completed, 1 skipped`; of a loop, why it ended."""
    if reason != PIPELINE_ENDED or not stages:
        return reason_text(reason)
    counts = dict.fromkeys(("completed", "accepted", "skipped", "not run"), 0)
    for stage in stages:
        what = {"skipped": "skipped", "waiting": "not run"}.get(stage.mark)
        counts[what or ("accepted" if stage.accepted_by else "completed")] += 1
    (first, number), *others = [(what, number) for what, number in counts.items() if number]
    if first == "completed" and not others:
        return "all stages completed"
    return ", ".join([f"{counted(number, 'stage')} {first}", *(f"{count} {what}" for what, count in others)])


def is_skipped(path: str, state: RunState) -> bool:
    """Whether a route passed over the node, or a recompilation left it behind."""
    return any(is_within(path, node) for node in state.skipped) and not _is_ahead(path, state)


def _is_ahead(path: str, state: RunState) -> bool:
    """Whether the run has yet to come there, perhaps once more."""
    here = current_path(state)
    return here is not None and order(path) > order(here)


def order(path: str) -> tuple[int, ...]:
    """Paths compare as the nodes follow each other."""
    return tuple(map(position_of, path.split(".")))


def _block_progress(state: RunState, block: BlockState, step: Step, node: ParallelNode) -> StageProgress:
    rows = tuple(
        _branch_progress(
            state, step, block.branch(planned.provider) or BranchState(planned.provider), planned.stages
        )
        for planned in node.branches
    )
    completed, total = sum(row.completed for row in rows), sum(row.total for row in rows)
    return StageProgress(node.id, _current_mark(state.status), completed, total, branches=rows)


def _branch_progress(
    state: RunState, step: Step, branch: BranchState, stages: tuple[StageNode, ...]
) -> BranchProgress:
    marks: dict[NodeStatus, StageMark] = {
        NodeStatus.PENDING: "waiting",
        NodeStatus.RUNNING: _current_mark(state.status),
        NodeStatus.COMPLETED: "done",
        NodeStatus.FAILED: "failed",
    }
    # A branch that is over still shows its last stage.
    place = min(branch.next_stage, len(stages) - 1)
    passed = stages if branch.status is NodeStatus.COMPLETED else stages[:place]
    completed, total = _branch_counts(state, step, branch)
    at = branch.stage
    return BranchProgress(
        provider=branch.provider,
        mark=marks[branch.status],
        stage=stages[place].id,
        completed=completed,
        total=total,
        item=state.item_at(visits_key(at.path, branch.provider), at.item_id) if at else None,
        error=branch.failure.message if branch.failure else "",
        skipped=tuple(stage.id for stage in passed if stage.id in branch.skipped),
    )


def current_step(plan: Plan, state: RunState) -> Step | None:
    """The current or next step; after the end, the last one."""
    path = current_path(state)
    if path is None and plan.steps:
        return plan.steps[0 if isinstance(state.at, Start) else -1]
    return plan.places.get(path) if path is not None else None


def current_path(state: RunState) -> str | None:
    """The current or next path; None before the first node and after the last."""
    match state.at:
        case StageState(path=path) | BlockState(path=path) | Between(next=Destination(path=path)):
            return path
        case _:
            return None


def _is_of_this_round(record: StageRecord, state: RunState) -> bool:
    """Whether the node was completed in the current round of its pipeline."""
    # After the end of the run, the latest record has its rounds.
    here = current_path(state) or state.stages[-1].path
    return is_of_round(record.path, record.rounds, here, state.rounds)


def _current_mark(status: RunStatus) -> StageMark:
    match status:
        case RunStatus.FAILED | RunStatus.ABORTED:
            return "failed"
        case RunStatus.RUNNING | RunStatus.PENDING:
            return "current"
        case RunStatus.COMPLETED:
            return "done"
        case RunStatus.PAUSED | RunStatus.AWAITING_APPROVAL:  # exhaustive
            return "stopped"
