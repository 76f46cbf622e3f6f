"""Applies events to a parallel block; each provider's branch moves through the stages independently."""

from typing import assert_never

from msgspec.structs import replace

from agentforge.engine.evolve.stage import StageFact, entered_again, evolve_stage, on_resume, reentry_of
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.state import (
    BRANCH_END,
    BlockState,
    BranchState,
    Reentry,
    RunState,
    StageRecord,
    StageState,
    Transition,
    position_of,
)
from agentforge.model.status import NodeStatus

BlockFact = (
    f.ProviderStarted
    | f.ProviderCompleted
    | f.StageCompleted
    | f.ManifestWritten
    | f.NodeStarted
    | f.NodeRestarted
)


def block_of(block: BlockState | None, event: Event) -> BlockState:
    """The current block; rebuilt from the cursor if a damaged log lacks its start."""
    assert event.cursor is not None
    path, run = event.cursor.node_path, event.cursor.node_run
    if isinstance(event.fact, f.ProviderStarted | f.ProviderCompleted | f.ManifestWritten):
        return (
            block if block is not None and (block.path, block.run) == (path, run) else BlockState(path, run)
        )
    # A stage of a branch can have more visits than the block.
    path = path.rpartition(".")[0]
    return block if block is not None and block.path == path else BlockState(path, run)


def with_branch_stage(block: BlockState, event: Event, fact: StageFact) -> BlockState:
    """The block after an event in a stage of one of its branches."""
    branch = _branch(block, event)
    stage = evolve_stage(_stage(branch, event), event, fact)
    started_at = branch.started_at or event.at
    return _with(block, replace(branch, stage=stage, status=NodeStatus.RUNNING, started_at=started_at))


def evolve_block(block: BlockState, event: Event, fact: BlockFact) -> BlockState:
    if isinstance(fact, f.ManifestWritten):
        return replace(block, manifest=True)
    branch = _branch(block, event)
    match fact:
        case f.ProviderStarted():
            return _with(block, replace(branch, status=NodeStatus.RUNNING, started_at=event.at))
        case f.ProviderCompleted(status="completed"):
            return _with(block, replace(branch, status=NodeStatus.COMPLETED, stage=None, failure=None))
        case f.ProviderCompleted(error=error, kind=kind):
            failure = Failure(kind or FailureKind.PARALLEL_BLOCK_FAILED, error or "no reason given")
            return _with(block, replace(branch, status=NodeStatus.FAILED, failure=failure))
        case f.StageCompleted():
            at = _stage(branch, event)
            record = StageRecord(
                fact.name, at.path, fact.iterations, event.at, fact.reason, at.run, asked=at.asked
            )
            others = (known for known in branch.stages if known.path != at.path)
            skipped = tuple(known for known in branch.skipped if known != fact.name)
            left = replace(branch, stage=None, stages=(*others, record), jump=None, skipped=skipped)
            return _with(block, _routed(left, at.transition) if at.transition else left)
        case f.NodeRestarted():
            reentry = reentry_of(_stage(branch, event), fact)
            return _with(block, replace(branch, stage=None, reentry=reentry))
        case f.NodeStarted():
            here = event.cursor
            assert here is not None
            at = StageState(here.node_path, here.node_run, fact.folder, event.at)
            return _with(block, replace(branch, stage=entered_again(at, branch.reentry), reentry=None))
        case _:
            assert_never(fact)


def _routed(branch: BranchState, transition: Transition) -> BranchState:
    jump = position_of(transition.next.path) if transition.next else BRANCH_END
    reentry = Reentry(feedback=transition.feedback) if transition.feedback else None
    skipped = tuple(dict.fromkeys((*branch.skipped, *transition.skipped)))
    return replace(branch, jump=jump, reentry=reentry, skipped=skipped)


def _branch(block: BlockState, event: Event) -> BranchState:
    provider = (event.cursor.provider if event.cursor else None) or ""
    return block.branch(provider) or BranchState(provider)


def _with(block: BlockState, changed: BranchState) -> BlockState:
    if block.branch(changed.provider) is None:
        return replace(block, branches=(*block.branches, changed))
    branches = (changed if b.provider == changed.provider else b for b in block.branches)
    return replace(block, branches=tuple(branches))


def _stage(branch: BranchState, event: Event) -> StageState:
    """The branch's current stage, or a new one."""
    assert event.cursor is not None
    at, path, run = branch.stage, event.cursor.node_path, event.cursor.node_run
    return at if at is not None and (at.path, at.run) == (path, run) else StageState(path, run)


def with_stage(state: RunState, at: Cursor | None, stage: StageState) -> RunState:
    """The run with another state of the stage at the cursor: of a branch, or of the node itself."""
    if at is None or at.provider is None or state.block is None:
        return replace(state, at=stage)
    branches = (
        replace(branch, stage=stage) if branch.provider == at.provider else branch
        for branch in state.block.branches
    )
    return replace(state, at=replace(state.block, branches=tuple(branches)))


def with_fresh_stages(state: RunState) -> RunState:
    """Earlier failures no longer count, in any stage but those whose question is open: its answer is about
    them."""
    match state.at:
        case StageState() as stage:
            fresh = replace(state, at=on_resume(stage))
        case BlockState() as block:
            fresh = replace(state, at=block.resumed(on_resume))
        case _:
            return state
    for request in state.open_requests:
        if request.kind == "escalation" and (asking := state.stage_asking(request.at)):
            fresh = with_stage(fresh, request.at, asking)
    return fresh
