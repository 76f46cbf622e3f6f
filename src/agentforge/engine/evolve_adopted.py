"""The state of a run that agent-pipelines' own engine began, from the event that took it up."""

from agentforge.model import facts as f
from agentforge.model.adopted import BlockPosition, BranchPosition, DoneStage, Position
from agentforge.model.event import Event
from agentforge.model.state import BlockState, BranchState, NodeState, RunState, StageRecord
from agentforge.model.status import NodeStatus, RunStatus


def adopted(event: Event, fact: f.LogAdopted) -> RunState:
    """Nothing of what came before in the log counts beside it."""
    at = fact.node or fact.block
    return RunState(
        session=event.session,
        run_id=fact.run_id,
        mode=fact.mode,
        status=RunStatus.RUNNING,
        started_at=fact.started_at,
        seq=event.seq,
        updated_at=event.at,
        clock_from=event.at,
        settings=fact.settings,
        cursor=event.cursor,
        next_node=at.index if at else max((done.index for done in fact.stages), default=-1) + 1,
        node=_stage(fact.node, f"{fact.node.index}") if fact.node and not fact.block else None,
        block=_block(fact.block) if fact.block else None,
        stages=tuple(_record(done) for done in fact.stages),
    )


def _block(block: BlockPosition) -> BlockState:
    branches = tuple(_branch(block.index, branch) for branch in block.branches)
    return BlockState(block.index, 1, branches, path=f"{block.index}")


def _branch(index: int, branch: BranchPosition) -> BranchState:
    return BranchState(
        provider=branch.provider,
        status=NodeStatus(branch.status),
        stage=_stage(branch.stage, f"{index}.{branch.stage.index}") if branch.stage else None,
        stages=tuple(_record(done) for done in branch.stages),
        started_at=branch.started_at,
    )


def _stage(at: Position, path: str) -> NodeState:
    return NodeState(
        index=at.index,
        run=1,
        status=NodeStatus.RUNNING,
        completed=at.completed,
        last_decision=at.last_decision,
        judged=at.judged,
        stops=at.stops,
        plateaus=at.plateaus,
        judge_failures=at.judge_failures,
        path=path,
    )


def _record(done: DoneStage) -> StageRecord:
    return StageRecord(done.name, done.index, done.iterations, done.completed_at, done.reason)
