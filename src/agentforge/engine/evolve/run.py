"""Applies events to the state. Never decides and never rejects: facts are checked before they are recorded
(see `legal`), so that a log always reads the same way, even with lines missing."""

from collections.abc import Callable, Mapping
from typing import Any, get_args

from msgspec.structs import replace

from agentforge.engine.evolve import hooks
from agentforge.engine.evolve.checks import apply_to_run, evolve_checks
from agentforge.engine.evolve.deliver import evolve_delivery
from agentforge.engine.evolve.files import evolve_files
from agentforge.engine.evolve.items import evolve_items
from agentforge.engine.evolve.node import apply_place, in_stage
from agentforge.engine.evolve.requests import apply_request, with_request
from agentforge.engine.evolve.session import apply_session
from agentforge.engine.evolve.stage import evolve_stage
from agentforge.engine.evolve.task import evolve_iteration
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.errors import LogCorrupt, LogTooOld
from agentforge.model.event import Event
from agentforge.model.place import visits_key
from agentforge.model.request import TIMER, UserRequest
from agentforge.model.state import (
    Between,
    BlockState,
    RunState,
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


# Of a struct, `isinstance` is slow if it is false, as it is for nearly all events.
_FIRST = frozenset(get_args(f.FirstFact))


def evolve(state: RunState | None, event: Event) -> RunState:
    """The state after the event; the first event of a log starts the session."""
    fact = event.fact
    if type(fact) in _FIRST and isinstance(fact, f.FirstFact):
        # Runs of the shell engine have no run id and no format.
        if fact.run_id and fact.format != f.LOG_FORMAT:
            raise LogTooOld(
                f"the log of session {event.session!r} has format {fact.format}, but this version requires"
                f" format {f.LOG_FORMAT}",
                hint="finish the run with the version that started it, or start over with --force",
            )
        return _started(event, fact)
    if state is None:
        raise LogCorrupt(
            f"the log of session {event.session!r} doesn't start with session_start",
            hint="run `agentforge log verify` to see which lines are damaged",
        )
    changed = _APPLY[type(fact)](state, event, fact)
    if state.hooks and fact.leaves:
        changed = hooks.left(changed, event.cursor)
    if state.hooks and isinstance(fact, f.ErrorOccurred | f.CheckStarted):
        changed = hooks.tried_again(changed, event.cursor)
    if state.recoveries and fact.is_progress:
        changed = replace(changed, recoveries=0, recoveries_excused=0)
    at = event.cursor
    if at is None or at.provider is not None or type(fact) is f.PlanChanged:
        at = _run_cursor(changed, event)
    return replace(changed, seq=event.seq, updated_at=event.at, cursor=at)


def _run_cursor(state: RunState, event: Event) -> Cursor | None:
    """The cursor of the run as a whole: inside a block that of the block, not of a branch; under a new plan
    at the node's new place."""
    if type(event.fact) is f.PlanChanged and event.cursor is not None:
        path = event.cursor.node_path
        return replace(event.cursor, node_path=event.fact.paths.get(path) or path)
    if event.cursor is None or event.cursor.provider is None:
        return event.cursor or state.cursor
    return Cursor(state.block.path, state.block.run, 0) if state.block else state.cursor


def _started(event: Event, fact: f.FirstFact) -> RunState:
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
        asked = UserRequest(fact.user_request, fact.secrets) if fact.user_request else None
        return replace(started, waivers=fact.waivers, user_request=asked)
    # Earlier lines don't count, and the shell engine enters every node once.
    entered = [record.path for record in fact.stages]
    entered += [] if isinstance(fact.at, Between) else [fact.at.path]
    if isinstance(fact.at, BlockState):
        done = ((branch.provider, record.path) for branch in fact.at.branches for record in branch.stages)
        entered += [visits_key(path, provider) for provider, path in done]
    visits = dict.fromkeys(entered, 1)
    began = replace(started, started_at=fact.started_at, has_worked=True)
    return replace(began, at=fact.at, visits=visits, stages=fact.stages)


def _fired(state: RunState, event: Event, fact: f.TimerFired) -> RunState:
    timer = fact.timer
    if timer.startswith(hooks.TIMER):
        return hooks.timer_fired(state, timer)
    if timer.startswith(TIMER):
        return with_request(state, timer.removeprefix(TIMER), overdue=True)
    if timer != "stop":
        return in_stage(state, event, fact, evolve_stage)
    if state.stop and state.stop.due_at:
        return replace(state, stop=replace(state.stop, now=True))
    return state


def _iteration(state: RunState, event: Event, fact: f.AnyIterationFact) -> RunState:
    return in_stage(state, event, fact, evolve_iteration)


def _attempt_started(state: RunState, event: Event, fact: f.AttemptStarted) -> RunState:
    return _iteration(state if state.has_worked else replace(state, has_worked=True), event, fact)


def _iteration_completed(state: RunState, event: Event, fact: f.IterationCompleted) -> RunState:
    changed = _iteration(state, event, fact)
    return changed if changed.tree == fact.tree else replace(changed, tree=fact.tree)


def _delivery(state: RunState, event: Event, fact: f.AnyDeliverFact) -> RunState:
    if isinstance(fact, f.RepositorySeen):
        # Branches of a block may each have looked: the first of them saw the files before any agent.
        return state if state.base is not None else replace(state, base=fact.base)
    changed = in_stage(state, event, fact, evolve_delivery)
    return replace(changed, delivered=fact.work) if isinstance(fact, f.Delivered) else changed


def _effect(
    state: RunState, event: Event, fact: f.EffectIntended | f.EffectDone | f.EffectReconciled
) -> RunState:
    if fact.kind == "webhook":
        return hooks.evolve_hooks(state, event, fact)
    return in_stage(state, event, fact, evolve_delivery)


def _git_left(state: RunState, event: Event, fact: f.GitLeft) -> RunState:
    # Programs of hooks also run before and after the visit of a stage, which must not begin with this.
    at, stage = event.cursor, state.stage(event.cursor.provider) if event.cursor else None
    if at is None or stage is None or (stage.path, stage.run) != (at.node_path, at.node_run):
        return state
    return _iteration(state, event, fact)


def _check(state: RunState, event: Event, fact: f.AnyCheckFact) -> RunState:
    state = apply_to_run(state, event, fact)
    return state if isinstance(fact, f.Waived) else in_stage(state, event, fact, evolve_checks)


def _of_log(state: RunState, _: Event, fact: f.AnyLogFact) -> RunState:
    if not isinstance(fact, f.DamageAccepted):
        return state
    return replace(state, accepted_damage=(*state.accepted_damage, *fact.lines))


def _stage(state: RunState, event: Event, fact: f.StageFact | f.AnyJudgeFact) -> RunState:
    return in_stage(state, event, fact, evolve_stage)


# Each subject of `model.facts` has a module. The table is by type, because a chain of `isinstance` would cost
# more than what most events change.
_APPLY: Mapping[type[f.AnyFact], Callable[[RunState, Event, Any], RunState]] = {
    kind: apply
    for subject, apply in (
        (f.StageFact, _stage),
        (f.PlaceFact, apply_place),
        (f.AnyIterationFact, _iteration),
        (f.AnyItemFact, evolve_items),
        (f.AnyCheckFact, _check),
        (f.AnyFilesFact, evolve_files),
        (f.AnyJudgeFact, _stage),
        (f.AnyHookOrEffect, hooks.evolve_hooks),
        (f.AnyRequestFact, apply_request),
        (f.AnyDeliverFact, _delivery),
        (f.AnyRunFact, apply_session),
        (f.AnyLogFact, _of_log),
    )
    for kind in get_args(subject)
} | {
    f.TimerFired: _fired,
    f.AttemptStarted: _attempt_started,
    f.IterationCompleted: _iteration_completed,
    f.EffectIntended: _effect,
    f.EffectDone: _effect,
    f.EffectReconciled: _effect,
    f.TreeTaken: lambda state, *_: state,
    f.GitLeft: _git_left,
    f.SpendingWarned: lambda state, *_: replace(state, warned=True),
}
