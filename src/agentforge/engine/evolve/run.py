"""Applies events to the state. Never decides and never rejects: facts are checked before they are recorded
(see `legal`), so that a log always reads the same way, even with lines missing."""

from datetime import timedelta
from typing import assert_never, cast

import msgspec
from msgspec.structs import replace

from agentforge.engine.evolve import checks, hooks
from agentforge.engine.evolve.block import (
    BlockFact,
    block_of,
    evolve_block,
    with_branch_stage,
)
from agentforge.engine.evolve.plan_change import apply_plan_change
from agentforge.engine.evolve.stage import (
    StageFact,
    answered,
    entered_again,
    evolve_stage,
    excused,
    on_resume,
    reentry_of,
)
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.errors import LogCorrupt, LogTooOld
from agentforge.model.event import Event
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.place import visits_key
from agentforge.model.request import TIMER, Feedback, Request
from agentforge.model.state import (
    MACHINE_SHUTDOWN,
    MAX_REFUSED,
    Between,
    BlockState,
    BranchState,
    LatestResume,
    Note,
    Reentry,
    RefusedFile,
    Restart,
    RunState,
    StageRecord,
    StageState,
    Stop,
    Waiver,
    is_within,
    latest_notes,
)
from agentforge.model.status import RunStatus, TaskStatus

MAX_CONTROLS = 32
FIRST_FACTS = (f.SessionStarted, f.LogImported)
FACTS_WITH_USAGE = (f.ErrorOccurred, f.JudgeCompleted)
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
    return replace(changed, seq=event.seq, updated_at=event.at, cursor=_run_cursor(changed, event))


def _frequent(state: RunState, event: Event) -> RunState:
    """A shortcut for the most frequent events outside blocks, equivalent to `_apply`."""
    fact = cast("f.IterationStarted | f.AttemptStarted | f.IterationCompleted", event.fact)
    at = evolve_stage(_node(state, event), event, fact)
    if type(fact) is f.IterationCompleted:
        state = _progressed(state, fact)
    return replace(state, seq=event.seq, updated_at=event.at, cursor=event.cursor, at=at)


def _progressed(state: RunState, fact: f.IterationCompleted) -> RunState:
    if not state.recoveries and fact.usage is None:
        return state
    spending = state.spending.plus(fact.usage)
    return replace(state, recoveries=0, recoveries_excused=0, spending=spending)


def _run_cursor(state: RunState, event: Event) -> Cursor | None:
    """The cursor of the run as a whole: inside a block that of the block, not of a branch."""
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
    match fact:
        case f.TimerFired(timer=timer):
            return _fired(state, event, timer)
        case f.NodeStarted() | f.NodeCompleted() | f.NodeRestarted():
            return _apply_node(state, event, fact)
        case f.ProviderStarted() | f.ProviderCompleted() | f.StageCompleted() | f.ManifestWritten():
            return _apply_block(state, event, fact)
        case f.RequestOpened() | f.RequestAnswered() | f.RequestResolved():
            return _apply_request(state, event, fact)
        case f.CheckpointCleared() | f.CheckWaived():
            return _apply_permission(state, fact)
        case f.PauseRequested() | f.CancelRequested() | f.RestartRequested() | f.NoteAdded():
            return _apply_control(_with_control(state, fact.control), fact)
        case f.DamageAccepted(lines=lines):
            return replace(state, accepted_damage=(*state.accepted_damage, *lines))
        case f.FileRefused(name=name, reason=reason, moved_to=moved_to):
            refused = (*state.refused, RefusedFile(name, reason, moved_to))
            return replace(state, refused=refused[-MAX_REFUSED:])
        case f.PlanChanged():
            return apply_plan_change(state, fact)
        case f.LogRepaired() | f.LogImported() | f.SessionStarted() | f.TmuxSessionCleaned() | f.TreeTaken():
            return state
        case (
            f.SessionCompleted()
            | f.SessionFailed()
            | f.SessionPaused()
            | f.AwaitingApproval()
            | f.SessionContinued()
            | f.SessionResumed()
            | f.SessionAborted()
            | f.SessionRecovered()
        ):
            return _apply_session(state, event, fact)
        case _:
            return _apply_task(state, event, fact)


def _apply_permission(state: RunState, fact: f.CheckpointCleared | f.CheckWaived) -> RunState:
    match fact:
        case f.CheckpointCleared(name=name):
            return state if name in state.cleared else replace(state, cleared=(*state.cleared, name))
        case f.CheckWaived(check=check, reason=reason, by=by):
            others = (waiver for waiver in state.waivers if waiver.check != check)
            return replace(state, waivers=(*others, Waiver(check, reason, by)))
        case _:
            assert_never(fact)


def _apply_task(state: RunState, event: Event, fact: StageFact | hooks.AnyHookFact) -> RunState:
    match fact:
        case (
            f.HookStarted()
            | f.HookCompleted()
            | f.HookFailed()
            | f.HookTimedOut()
            | f.HookLost()
            | f.HookEnding()
            | f.HookRetryScheduled()
            | f.HookSkipped()
            | f.EffectIntended()
            | f.EffectDone()
            | f.EffectReconciled()
        ):
            return hooks.evolve_hooks(state, event, fact)
        case _:
            return _apply_stage(state, event, fact)


def _apply_stage(state: RunState, event: Event, fact: StageFact) -> RunState:
    """Apply a fact about a stage: a node of the run or a stage of a branch."""
    if isinstance(fact, f.StageVerdictReached):
        state = checks.verdict_reached(state, event, fact)
    elif isinstance(fact, f.StageTransitioned):
        state = checks.transitioned(state, event, fact)
    if isinstance(fact, f.IterationCompleted):
        state = _progressed(state, fact)
    elif isinstance(fact, FACTS_WITH_USAGE):
        state = replace(state, spending=state.spending.plus(fact.usage))
    if event.cursor is not None and event.cursor.provider is not None:
        return replace(state, at=with_branch_stage(block_of(state.block, event), event, fact))
    if event.cursor is None and state.node is None:
        return state
    return replace(state, at=evolve_stage(_node(state, event), event, fact))


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
        return _with_request(state, timer.removeprefix(TIMER), overdue=True)
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


def _apply_request(
    state: RunState, event: Event, fact: f.RequestOpened | f.RequestAnswered | f.RequestResolved
) -> RunState:
    match fact:
        case f.RequestOpened():
            fields = msgspec.structs.asdict(fact)
            request = Request(**fields, opened_at=event.at, at=event.cursor)
            return replace(state, requests=(*state.requests, request))
        case f.RequestAnswered(id=id, answer=answer, by=by, text=text):
            known = hooks.answered(state, id, by)
            return _with_request(known, id, answer=answer, answered_by=by, text=text)
        case f.RequestResolved(id=id):
            closed = next((request for request in state.requests if request.id == id), None)
            left = replace(state, requests=tuple(r for r in state.requests if r.id != id))
            left = hooks.withdrawn(left, id)
            return _resolved(left, event, fact, closed) if closed else left
        case _:
            assert_never(fact)


def _resolved(state: RunState, event: Event, fact: f.RequestResolved, request: Request) -> RunState:
    """The state after the effect of an answer."""
    if request.kind == "escalation":
        return _allow_escalated(state, event, fact, request)
    if request.kind == "pause":
        return hooks.request_resolved(state, request, fact.effect)
    stage = state.stage_asking(request.at)
    if stage is None:
        return state
    match fact.effect:
        case "approved":
            return _with_stage(state, request.at, replace(stage, approved=True))
        case "rejected":
            said = Feedback(request.text, request.answered_by)
            return _with_stage(state, request.at, replace(stage, rejected=said))
        case "answered":
            return _with_stage(state, request.at, answered(stage, request))
        case _:
            return state


def _with_request(state: RunState, id: str, **changes: object) -> RunState:
    changed = (replace(r, **changes) if r.id == id else r for r in state.requests)
    return replace(state, requests=tuple(changed))


def _allow_escalated(state: RunState, event: Event, fact: f.RequestResolved, request: Request) -> RunState:
    """Let the escalated work continue. Counters are kept, so a limit can be hit again, unless the answer
    resets them."""
    if fact.effect not in ("continue", "reset", "granted", "accepted"):
        return state
    if fact.effect == "reset" and request.reason not in checks.ROUTE_REASONS:
        state = _reset(state, request)
    if request.reason == "recoveries_without_progress":
        return replace(state, recoveries_excused=state.recoveries)
    if request.reason == "runtime_limit":
        granted = float(fact.granted) if fact.effect == "granted" else None
        state = _extend_runtime(replace(state, clock_from=event.at, runtime_granted=granted), request)
    stage = state.stage_asking(request.at)
    if stage is None:
        return state
    if request.reason in checks.ROUTE_REASONS or request.reason == "verdict":
        changed = checks.answered(state, stage, request, fact)
        return _with_stage(changed, request.at, checks.answered_stage(stage, request, fact))
    if request.reason == "hook_restarts" and fact.effect == "accepted":
        return hooks.request_resolved(state, request, "continue")
    more = fact.granted if fact.effect == "granted" else 1 if fact.effect == "continue" else 0
    match request.reason:
        case "approval_rounds":
            stage = replace(stage, rounds_granted=stage.rounds_granted + more)
        case "question_rounds":
            stage = replace(stage, asks_granted=stage.asks_granted + more)
        case "check_lost":
            check = replace(stage.check, excused=True, lost=0) if stage.check else None
            stage = replace(stage, check=check)
        case "hook_restarts":
            stage = replace(stage, hook_restarts=max(0, stage.hook_restarts - more) if more else 0)
        case _:
            stage = excused(stage)
    return _with_stage(state, request.at, stage)


def _reset(state: RunState, request: Request) -> RunState:
    """Earlier failures no longer count: in the stage that asked, or everywhere."""
    if request.scope == "run":
        return _with_fresh_stages(replace(state, recoveries=0, recoveries_excused=0))
    stage = state.stage_asking(request.at)
    return state if stage is None else _with_stage(state, request.at, on_resume(stage))


def _extend_runtime(state: RunState, request: Request) -> RunState:
    """One branch asks for all: other branches whose agents the limit stopped continue, too."""
    if request.scope != "run":
        return state
    for provider, stage in tuple(state.under_way()):
        attempt = stage.iteration.attempt if stage.iteration else None
        failure = attempt.failure if attempt and attempt.status is TaskStatus.FAILED else None
        if attempt and not attempt.once and failure and failure.kind is FailureKind.ITERATION_TIMEOUT:
            state = _with_stage(state, Cursor(stage.path, stage.run, 0, provider), excused(stage))
    return state


def _with_stage(state: RunState, at: Cursor | None, stage: StageState) -> RunState:
    if at is None or at.provider is None or state.block is None:
        return replace(state, at=stage)
    branches = (
        replace(branch, stage=stage) if branch.provider == at.provider else branch
        for branch in state.block.branches
    )
    return replace(state, at=replace(state.block, branches=tuple(branches)))


def _with_control(state: RunState, control: str | None) -> RunState:
    """Remember the control, so that it isn't processed twice."""
    return replace(state, controls=(*state.controls, control)[-MAX_CONTROLS:]) if control else state


def _apply_control(
    state: RunState, fact: f.PauseRequested | f.CancelRequested | f.RestartRequested | f.NoteAdded
) -> RunState:
    match fact:
        case f.PauseRequested() | f.CancelRequested():
            return _stop_requested(state, fact)
        case f.NoteAdded(text=text, by=by):
            return replace(state, notes=latest_notes((*state.notes, Note(text, by))))
        case f.RestartRequested(reason=reason, by=by, provider=provider, hook=hook):
            stage = state.stage(provider)
            if stage is None:
                return state
            count = stage.hook_restarts + bool(hook)
            restarts = replace(stage, restart=Restart(reason, by), hook_restarts=count)
            return _with_stage(state, Cursor(stage.path, stage.run, 0, provider), restarts)
        case _:
            assert_never(fact)


def _stop_requested(state: RunState, fact: f.PauseRequested | f.CancelRequested) -> RunState:
    match fact:
        case f.CancelRequested():
            stop = Stop(cancel=True, reason=fact.reason, now=True)
        case f.PauseRequested():
            # A shutdown stops what a person was about to stop: it stays the person's stop.
            known = state.stop if fact.reason == MACHINE_SHUTDOWN else None
            reason = known.reason if known else fact.reason
            stop = Stop(cancel=False, reason=reason, now=fact.now, due_at=fact.due_at)
            if state.stop and state.stop.cancel:
                stop = state.stop
        case _:
            assert_never(fact)
    return replace(state, stop=stop)


def _apply_session(
    state: RunState,
    event: Event,
    fact: f.SessionCompleted
    | f.SessionFailed
    | f.SessionPaused
    | f.AwaitingApproval
    | f.SessionContinued
    | f.SessionResumed
    | f.SessionAborted
    | f.SessionRecovered,
) -> RunState:
    match fact:
        case f.SessionCompleted(reason=reason):
            return _ended(state, event, RunStatus.COMPLETED, reason)
        case f.SessionFailed():
            failure = Failure(fact.kind, fact.message)
            return replace(state, status=RunStatus.FAILED, completed_at=event.at, failure=failure, stop=None)
        case f.SessionPaused(reason=reason, requests=requests):
            return _paused(state, event, RunStatus.PAUSED, reason, waits=bool(requests))
        case f.AwaitingApproval():
            return _paused(state, event, RunStatus.AWAITING_APPROVAL, "awaiting_approval", waits=True)
        case f.SessionAborted(reason=reason):
            return _ended(state, event, RunStatus.ABORTED, reason)
        case f.SessionRecovered(by="recovery") if not state.is_stopped_by_shutdown:
            is_over = state.stop is not None and state.stop.reason == MACHINE_SHUTDOWN
            return replace(state, recoveries=state.recoveries + 1, stop=None if is_over else state.stop)
        case f.SessionContinued() | f.SessionRecovered(by="recovery"):
            return _continued(state, event)
        case f.SessionRecovered() | f.SessionResumed():
            known = state.settings
            settings = replace(
                known, record=known.record or fact.record, approve=known.approve or fact.approve
            )
            return _resumed(replace(state, settings=settings), event, fact)
        case _:
            assert_never(fact)


def _ended(state: RunState, event: Event, status: RunStatus, reason: str) -> RunState:
    """The run is over; open requests are dropped."""
    ended = replace(state, status=status, completed_at=event.at, completion_reason=reason)
    return replace(ended, stop=None, requests=())


def _paused(state: RunState, event: Event, status: RunStatus, reason: str, *, waits: bool) -> RunState:
    return replace(state, status=status, paused_at=event.at, pause_reason=reason, stop=None, waits=waits)


def _continued(state: RunState, event: Event) -> RunState:
    """A request was answered, or the machine is up again: the time in between doesn't count as runtime."""
    waited = event.at - state.paused_at if state.paused_at else timedelta()
    return replace(
        state,
        status=RunStatus.RUNNING,
        clock_from=state.clock_from + waited,
        paused_at=None,
        pause_reason=None,
        waits=False,
    )


def _resumed(state: RunState, event: Event, fact: f.SessionResumed | f.SessionRecovered) -> RunState:
    """A person resumed the run: earlier failures no longer count."""
    notes = state.notes
    if fact.context:
        notes = latest_notes((*notes, Note(fact.context, fact.by)))
    fresh = replace(
        state,
        status=RunStatus.RUNNING,
        clock_from=event.at,
        resumed_at=event.at,
        completed_at=None,
        failure=None,
        paused_at=None,
        pause_reason=None,
        waits=False,
        stop=state.stop if state.stop and state.stop.cancel else None,
        recoveries=0,
        recoveries_excused=0,
        runtime_granted=None,
        notes=notes,
        resumption=LatestResume(event.seq, fact.context or "", fact.by),
    )
    return _with_fresh_stages(hooks.resumed(fresh))


def _with_fresh_stages(state: RunState) -> RunState:
    match state.at:
        case StageState() as stage:
            return replace(state, at=on_resume(stage))
        case BlockState() as block:
            return replace(state, at=block.resumed(on_resume))
        case _:
            return state


def _node(state: RunState, event: Event) -> StageState:
    """The current node; rebuilt from the cursor if a damaged log lacks its start."""
    at, cursor = state.at, event.cursor
    if cursor is None:
        return at if isinstance(at, StageState) else StageState("", 1)
    if isinstance(at, StageState) and at.path == cursor.node_path and at.run == cursor.node_run:
        return at
    return StageState(cursor.node_path, cursor.node_run)
