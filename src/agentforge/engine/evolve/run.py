"""Applies events to the state. Never decides and never rejects: facts are checked before they are recorded
(see `legal`), so that a log always reads the same way, even with lines missing."""

from typing import assert_never, cast

from msgspec.structs import replace

from agentforge.engine.evolve import checks, hooks
from agentforge.engine.evolve.block import (
    BlockFact,
    block_of,
    evolve_block,
    with_branch_stage,
)
from agentforge.engine.evolve.plan_change import apply_plan_change
from agentforge.engine.evolve.requests import RequestFact, apply_request, with_request
from agentforge.engine.evolve.session import SessionFact, apply_control, apply_session
from agentforge.engine.evolve.stage import (
    StageFact,
    entered_again,
    evolve_stage,
    reentry_of,
)
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.errors import LogCorrupt, LogTooOld
from agentforge.model.event import Event
from agentforge.model.place import visits_key
from agentforge.model.request import TIMER
from agentforge.model.state import (
    MAX_REFUSED,
    STUCK,
    Between,
    BlockState,
    BranchState,
    Reentry,
    RefusedFile,
    RunState,
    StageRecord,
    StageState,
    Waiver,
    is_within,
)
from agentforge.model.status import RunStatus

# Theory of operation
#
# The state is the fold of the log, and nothing else. So an event that is on the disk is never refused here,
# and what follows from it doesn't depend on the version that reads it: routes, times, numbers and limits
# were decided, and recorded, when it happened. As long as `evolve` chose the next node itself, a newer
# engine could have sent a running pipeline elsewhere.
#
# It is total. Every prefix of a log is a state, and so is a log with lines missing: what a damaged line
# would have entered (a node, a block, a task) is rebuilt from the cursor of the next one, or ignored.
# Otherwise one bad sector would make a run unreadable, and its agents unreachable.
#
# It is bounded. No collection grows with the iterations, so that a run of a week costs as much per event as
# one of a minute: what views show of the past, they fold from the log.

MAX_CONTROLS = 32
FIRST_FACTS = (f.SessionStarted, f.LogImported)
FACTS_WITH_USAGE = (f.IterationCompleted, f.ErrorOccurred, f.JudgeCompleted)
FREQUENT = frozenset({f.IterationStarted, f.AttemptStarted, f.IterationCompleted})


def evolve(state: RunState | None, event: Event) -> RunState:
    """The state after the event; the first event of a log starts the session."""
    fact, cursor = event.fact, event.cursor
    if state is not None and type(fact) in FREQUENT and cursor is not None and cursor.provider is None:
        return _frequent(state, event)
    if isinstance(fact, FIRST_FACTS):
        _refuse_older(event, fact)
        return _started(event, fact)
    if state is None:
        raise LogCorrupt(
            f"the log of session {event.session!r} doesn't start with session_start",
            hint="run `agentforge log verify` to see which lines are damaged",
        )
    changed = _apply(state, event)
    if state.hooks:
        changed = hooks.left(changed, event.cursor, fact)
    if state.recoveries and _is_progress(state, fact):
        changed = replace(changed, recoveries=0, recoveries_excused=0)
    return replace(changed, seq=event.seq, updated_at=event.at, cursor=_run_cursor(changed, event))


def _frequent(state: RunState, event: Event) -> RunState:
    """A shortcut for the most frequent events outside blocks, equivalent to `_apply`."""
    fact = cast("f.IterationStarted | f.AttemptStarted | f.IterationCompleted", event.fact)
    at = evolve_stage(_node(state, event), event, fact)
    if type(fact) is f.IterationCompleted and (state.recoveries or fact.usage is not None):
        spending = state.spending.plus(fact.usage)
        state = replace(state, recoveries=0, recoveries_excused=0, spending=spending)
    return replace(state, seq=event.seq, updated_at=event.at, cursor=event.cursor, at=at)


def _is_progress(state: RunState, fact: f.AnyFact) -> bool:
    """Whether a run gets on although its engine dies: something was completed or answered that isn't done
    again. All of it is bounded between two iterations, so that no engine dies without end."""
    match fact:
        case f.IterationCompleted() | f.CheckCompleted() | f.JudgeCompleted(status="success"):
            return True
        case f.HookCompleted(point=point):
            return point != "request"  # What it answers counts, if that is accepted.
        case f.RequestAnswered(id=id):
            return all(request.reason != STUCK for request in state.requests if request.id == id)
        case _:
            return False


def _run_cursor(state: RunState, event: Event) -> Cursor | None:
    """The cursor of the run as a whole: inside a block that of the block, not of a branch; under a new plan
    at the node's new place."""
    if isinstance(event.fact, f.PlanChanged) and event.cursor is not None:
        path = event.cursor.node_path
        return replace(event.cursor, node_path=event.fact.paths.get(path, path) or path)
    if event.cursor is None or event.cursor.provider is None:
        return event.cursor or state.cursor
    return Cursor(state.block.path, state.block.run, 0) if state.block else state.cursor


def _refuse_older(event: Event, fact: f.SessionStarted | f.LogImported) -> None:
    """Runs of the shell engine have no run id and no format."""
    if fact.run_id and fact.format != f.LOG_FORMAT:
        raise LogTooOld(
            f"the log of session {event.session!r} has format {fact.format}, but this version requires"
            f" format {f.LOG_FORMAT}",
            hint="finish the run with the version that started it, or start over with --force",
        )


def _started(event: Event, fact: f.SessionStarted | f.LogImported) -> RunState:
    started = RunState(
        session=event.session,
        run_id=fact.run_id,
        mode=fact.mode,
        status=RunStatus.RUNNING,
        started_at=event.at,
        seq=event.seq,
        updated_at=event.at,
        clock_from=event.at,
        settings=fact.settings,
        cursor=event.cursor,
    )
    if isinstance(fact, f.SessionStarted):
        return replace(started, waivers=fact.waivers) if fact.waivers else started
    # Earlier lines don't count, and the shell engine enters every node once.
    entered = [record.path for record in fact.stages]
    entered += [] if isinstance(fact.at, Between) else [fact.at.path]
    if isinstance(fact.at, BlockState):
        done = ((branch.provider, record.path) for branch in fact.at.branches for record in branch.stages)
        entered += [visits_key(path, provider) for provider, path in done]
    visits = dict.fromkeys(entered, 1)
    return replace(started, started_at=fact.started_at, at=fact.at, visits=visits, stages=fact.stages)


def _apply(state: RunState, event: Event) -> RunState:
    fact = event.fact
    if isinstance(fact, hooks.AnyHookFact):
        return hooks.evolve_hooks(state, event, fact)
    match fact:
        case f.TimerFired(timer=timer):
            return _fired(state, event, timer)
        case f.NodeStarted() | f.NodeCompleted() | f.NodeRestarted():
            return _apply_node(state, event, fact)
        case f.ProviderStarted() | f.ProviderCompleted() | f.StageCompleted() | f.ManifestWritten():
            return _apply_block(state, event, fact)
        case f.CheckpointCleared() | f.CheckWaived() | f.DamageAccepted():
            return _apply_permission(state, fact)
        case f.FileRefused(name=name, reason=reason, moved_to=moved_to):
            refused = (*state.refused, RefusedFile(name, reason, moved_to))
            return replace(state, refused=refused[-MAX_REFUSED:])
        case f.PlanChanged():
            return apply_plan_change(state, event, fact)
        case f.LogRepaired() | f.LogImported() | f.SessionStarted() | f.TmuxSessionCleaned() | f.TreeTaken():
            return state
        case _:
            pass
    if isinstance(fact, RequestFact):
        return apply_request(state, event, fact)
    if isinstance(fact, f.ControlFact):
        return apply_control(_with_control(state, fact.control), fact)
    if isinstance(fact, SessionFact):
        return apply_session(state, event, fact)
    return _apply_stage(state, event, fact)


def _apply_permission(
    state: RunState, fact: f.CheckpointCleared | f.CheckWaived | f.DamageAccepted
) -> RunState:
    match fact:
        case f.DamageAccepted(lines=lines):
            return replace(state, accepted_damage=(*state.accepted_damage, *lines))
        case f.CheckpointCleared(name=name):
            return state if name in state.cleared else replace(state, cleared=(*state.cleared, name))
        case f.CheckWaived(check=check, reason=reason, by=by):
            others = (waiver for waiver in state.waivers if waiver.check != check)
            return replace(state, waivers=(*others, Waiver(check, reason, by)))
        case _:
            assert_never(fact)


def _apply_stage(state: RunState, event: Event, fact: StageFact) -> RunState:
    """Apply a fact about a stage: a node of the run or a stage of a branch."""
    if isinstance(fact, f.GitLeft) and not _is_in_progress(state, event.cursor):
        return state
    if isinstance(fact, f.StageVerdictReached):
        state = checks.verdict_reached(state, event, fact)
    elif isinstance(fact, f.StageTransitioned):
        state = checks.transitioned(state, event, fact)
    if isinstance(fact, FACTS_WITH_USAGE):
        state = replace(state, spending=state.spending.plus(fact.usage))
    if event.cursor is not None and event.cursor.provider is not None:
        return replace(state, at=with_branch_stage(block_of(state.block, event), event, fact))
    if event.cursor is None and state.node is None:
        return state
    return replace(state, at=evolve_stage(_node(state, event), event, fact))


def _is_in_progress(state: RunState, at: Cursor | None) -> bool:
    """Whether it is the visit of a stage in progress: hooks also run before and after."""
    stage = state.stage(at.provider) if at else None
    return bool(at and stage and (stage.path, stage.run) == (at.node_path, at.node_run))


def _apply_block(state: RunState, event: Event, fact: BlockFact) -> RunState:
    at = event.cursor
    if at is None:
        return state
    changed = replace(state, at=evolve_block(block_of(state.block, event), event, fact))
    if isinstance(fact, f.StageCompleted):
        return _visited(changed, visits_key(at.node_path, at.provider), at.node_run)
    return changed


def _fired(state: RunState, event: Event, timer: str) -> RunState:
    if timer.startswith(hooks.TIMER):
        return hooks.timer_fired(state, timer)
    if timer.startswith(TIMER):
        return with_request(state, timer.removeprefix(TIMER), overdue=True)
    if timer != "stop":
        return _apply_stage(state, event, f.TimerFired(timer))
    if state.stop and state.stop.due_at:
        return replace(state, stop=replace(state.stop, now=True))
    return state


def _apply_node(
    state: RunState, event: Event, fact: f.NodeStarted | f.NodeCompleted | f.NodeRestarted
) -> RunState:
    if (
        event.cursor is not None
        and event.cursor.provider is not None
        and not isinstance(fact, f.NodeCompleted)
    ):
        return _apply_branch_node(state, event, fact, event.cursor)
    match fact:
        case f.NodeStarted():
            at = _entered(event, fact)
            if isinstance(at, StageState) and isinstance(state.at, Between):
                at = entered_again(at, state.at.reentry)
            skipped = {path: when for path, when in state.skipped.items() if not is_within(at.path, path)}
            visited = checks.new_round(_visited(state, at.path, at.run), at.path, fact.rounds)
            return replace(visited, at=at, rounds=fact.rounds, skipped=skipped)
        case f.NodeRestarted():
            left = _node(state, event)
            return replace(state, at=Between(fact.next, reentry_of(left, fact)))
        case f.NodeCompleted():
            return _completed(state, event, fact)
        case _:
            assert_never(fact)


def _completed(state: RunState, event: Event, fact: f.NodeCompleted) -> RunState:
    at = state.block or _node(state, event)
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
    transition = at.transition if isinstance(at, StageState) else None
    if transition is None:
        return left
    reentry = Reentry(feedback=transition.feedback) if transition.feedback else None
    passed = dict.fromkeys(checks.passed_over(at.path, transition), event.at)
    return replace(left, at=Between(fact.next, reentry), skipped={**state.skipped, **passed})


def _apply_branch_node(
    state: RunState, event: Event, fact: f.NodeStarted | f.NodeRestarted, at: Cursor
) -> RunState:
    """A stage of a branch is left, or visited again."""
    changed = replace(state, at=evolve_block(block_of(state.block, event), event, fact))
    return _visited(changed, visits_key(at.node_path, at.provider), at.node_run)


def _visited(state: RunState, key: str, run: int) -> RunState:
    return replace(state, visits={**state.visits, key: max(run, state.visits.get(key, 0))})


def _entered(event: Event, fact: f.NodeStarted) -> StageState | BlockState:
    here = event.cursor or Cursor("", 1, 0)
    at = StageState(fact.path or here.node_path, max(fact.run, here.node_run), fact.folder, event.at)
    if fact.kind != "parallel":
        return at
    return BlockState(at.path, at.run, at.folder, tuple(map(BranchState, fact.providers)))


def _with_control(state: RunState, control: str | None) -> RunState:
    """Remember the control, so that it isn't processed twice."""
    return replace(state, controls=(*state.controls, control)[-MAX_CONTROLS:]) if control else state


def _node(state: RunState, event: Event) -> StageState:
    """The current node; rebuilt from the cursor if a damaged log lacks its start."""
    at, cursor = state.at, event.cursor
    if cursor is None:
        return at if isinstance(at, StageState) else StageState("", 1)
    if isinstance(at, StageState) and at.path == cursor.node_path and at.run == cursor.node_run:
        return at
    return StageState(cursor.node_path, cursor.node_run)
