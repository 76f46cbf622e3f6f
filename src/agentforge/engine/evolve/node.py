"""Applies events to the nodes of a run: stages, and parallel blocks, in which each provider's branch moves
through the stages independently.

A stage of a branch is visited again with the same facts as a node; the cursor names the branch.
"""

from collections.abc import Callable
from typing import TypeVar, assert_never

from msgspec.structs import replace

from agentforge.engine.evolve import checks
from agentforge.engine.evolve.spending import settled
from agentforge.engine.evolve.stage import entered_again, on_resume, reentry_of
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.place import visits_key
from agentforge.model.state import (
    BRANCH_END,
    Between,
    BlockState,
    BranchState,
    Reentry,
    RunState,
    StageRecord,
    StageState,
    Transition,
    is_within,
    position_of,
)
from agentforge.model.status import NodeStatus

_Given = TypeVar("_Given", bound=f.Fact)

_BlockFact = f.ProviderStarted | f.ProviderCompleted | f.ManifestWritten
"""Facts about a block itself, whose path is in the cursor; others name a stage of a branch."""
_SPENDS = frozenset(
    kind for kind in f.FACTS.values() if issubclass(kind, f.TaskOutcome) and kind.KIND in ("agent", "judge")
)
_InBranch = f.NodeStarted | f.NodeRestarted | f.StageCompleted


def apply_place(state: RunState, event: Event, fact: f.PlaceFact) -> RunState:
    at = event.cursor
    if isinstance(fact, f.NodeCompleted):
        return _completed(state, event, fact)
    if at is None or at.provider is None:
        if isinstance(fact, f.NodeStarted):
            return _entered(state, event, fact)
        if isinstance(fact, f.NodeRestarted):
            left = replace(state, at=Between(fact.next, reentry_of(node_of(state, event), fact)))
            return _without_items(left, fact, event.cursor)
    if at is None:
        return state
    changed = replace(state, at=_evolve_block(_block_of(state.block, event), event, fact))
    if isinstance(fact, _BlockFact):
        return changed
    if isinstance(fact, f.NodeRestarted):
        changed = _without_items(changed, fact, at)
    return _visited(changed, visits_key(at.node_path, at.provider), at.node_run)


def in_stage(
    state: RunState,
    event: Event,
    fact: _Given,
    evolve: Callable[[StageState, Event, _Given], StageState],
) -> RunState:
    """Change the stage of the cursor: a node of the run or a stage of a branch."""
    at = event.cursor
    if type(fact) in _SPENDS and isinstance(fact, f.TaskOutcome):
        state = settled(state, at, fact)
    if at is not None and at.provider is not None:
        block = _block_of(state.block, event)
        branch = _branch(block, event)
        stage = evolve(_stage(branch, event), event, fact)
        started_at = branch.started_at or event.at
        running = replace(branch, stage=stage, status=NodeStatus.RUNNING, started_at=started_at)
        return replace(state, at=_with(block, running))
    if at is None and state.node is None:
        return state
    return replace(state, at=evolve(node_of(state, event), event, fact))


# -- nodes of the run


def _entered(state: RunState, event: Event, fact: f.NodeStarted) -> RunState:
    here = event.cursor or Cursor("", 1, 0)
    at: StageState | BlockState
    reentry = state.at.reentry if isinstance(state.at, Between) else None
    at = StageState(fact.path or here.node_path, max(fact.run, here.node_run), fact.folder, event.at)
    if fact.kind == "parallel":
        branches = (BranchState(name, reentry=reentry) for name in fact.providers)
        at = BlockState(at.path, at.run, at.folder, tuple(branches))
    else:
        at = entered_again(at, reentry)
    skipped = {path: when for path, when in state.skipped.items() if not is_within(at.path, path)}
    if not fact.skipped:
        # A stage that is run again may change what it has frozen.
        state = replace(state, frozen={key: kept for key, kept in state.frozen.items() if key != at.path})
    visited = checks.new_round(_visited(state, at.path, at.run), at.path, fact.rounds)
    if reentry is not None:
        visited = replace(visited, items=state.items)  # Sent back, a pipeline repeats what isn't done.
    return replace(visited, at=at, rounds=fact.rounds, skipped=skipped)


def _completed(state: RunState, event: Event, fact: f.NodeCompleted) -> RunState:
    at = state.block or node_of(state, event)
    done = StageRecord(
        fact.name,
        at.path,
        fact.iterations,
        event.at,
        fact.reason,
        at.run,
        state.rounds,
        judge_failures=at.judge_failures if isinstance(at, StageState) else 0,
        verdict=fact.verdict,
        accepted_by=fact.overridden_by,
        asked=at.completed - at.counted,
    )
    others = (known for known in state.stages if known.path != at.path)
    left = replace(state, at=Between(fact.next), stages=(*others, done))
    if not isinstance(at, StageState):
        return left
    passed, told = {}, None
    if at.is_skipped:
        # The next stage is told what this one was to be told.
        passed, told = {at.path: event.at}, at.feedback
    if at.transition is not None:
        passed |= dict.fromkeys(checks.passed_over(at.path, at.transition), event.at)
        told = at.transition.feedback or told
    reentry = Reentry(feedback=told) if told else None
    return replace(left, at=Between(fact.next, reentry), skipped={**state.skipped, **passed})


def _without_items(state: RunState, fact: f.NodeRestarted, at: Cursor | None) -> RunState:
    """Someone who starts a stage over, without saying what is wrong, wants all of its items again."""
    if at is None or fact.feedback is not None or not state.items:
        return state
    key = visits_key(at.node_path, at.provider)
    return replace(state, items={known: items for known, items in state.items.items() if known != key})


def _visited(state: RunState, key: str, run: int) -> RunState:
    return replace(state, visits={**state.visits, key: max(run, state.visits.get(key, 0))})


def node_of(state: RunState, event: Event) -> StageState:
    """The current node; rebuilt from the cursor if a damaged log lacks its start."""
    at, cursor = state.at, event.cursor
    if cursor is None:
        return at if isinstance(at, StageState) else StageState("", 1)
    if isinstance(at, StageState) and at.path == cursor.node_path and at.run == cursor.node_run:
        return at
    return StageState(cursor.node_path, cursor.node_run)


# -- blocks and their branches


def _block_of(block: BlockState | None, event: Event) -> BlockState:
    """The current block; rebuilt from the cursor if a damaged log lacks its start."""
    assert event.cursor is not None
    path, run = event.cursor.node_path, event.cursor.node_run
    if isinstance(event.fact, _BlockFact):
        return (
            block if block is not None and (block.path, block.run) == (path, run) else BlockState(path, run)
        )
    # A stage of a branch can have more visits than the block.
    path = path.rpartition(".")[0]
    return block if block is not None and block.path == path else BlockState(path, run)


def _evolve_block(block: BlockState, event: Event, fact: _BlockFact | _InBranch) -> BlockState:
    branch = _branch(block, event)
    match fact:
        case f.ManifestWritten():
            return replace(block, manifest=True)
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
