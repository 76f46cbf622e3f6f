"""The state of a run that agent-pipelines' own engine began, from the event that took it up."""

from agentforge.model import facts as f
from agentforge.model.adopted import BranchPosition, DoneStage, StagePosition
from agentforge.model.event import Event
from agentforge.model.state import Between, BlockState, BranchState, RunState, StageRecord, StageState
from agentforge.model.status import NodeStatus, RunStatus


def adopted(event: Event, fact: f.LogAdopted) -> RunState:
    """Nothing of what came before in the log counts beside it."""
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
        at=_at(fact),
        visits=_visits(fact),
        stages=tuple(_record(done) for done in fact.stages),
    )


def _visits(fact: f.LogAdopted) -> dict[str, int]:
    """That engine enters every node once."""
    entered = [done.path for done in fact.stages]
    entered += [at.path for at in (fact.node, fact.block) if at]
    return dict.fromkeys(entered, 1)


def _at(fact: f.LogAdopted) -> StageState | BlockState | Between:
    if fact.block is not None:
        return BlockState(fact.block.path, 1, "", tuple(map(_branch, fact.block.branches)))
    return _stage(fact.node) if fact.node else Between(fact.next)


def _branch(branch: BranchPosition) -> BranchState:
    return BranchState(
        provider=branch.provider,
        status=NodeStatus(branch.status),
        stage=_stage(branch.stage) if branch.stage else None,
        stages=tuple(_record(done) for done in branch.stages),
        started_at=branch.started_at,
    )


def _stage(at: StagePosition) -> StageState:
    return StageState(
        path=at.path,
        run=1,
        completed=at.completed,
        last_decision=at.last_decision,
        judged=at.judged,
        stops=at.stops,
        plateaus=at.plateaus,
        judge_failures=at.judge_failures,
    )


def _record(done: DoneStage) -> StageRecord:
    return StageRecord(done.name, done.path, done.iterations, done.completed_at, done.reason)
