"""Decides what should happen now. Level-triggered: the result depends on the state alone, so a crash, a
resume and an ordinary step are the same code path.

The driver records the facts and decides again until there are none; the work is then what should be running:
the driver starts missing tasks and cancels those that are no longer listed.

Decisions come from an ordered table of gates for each status of the run; the first gate that returns a
directive wins. If none does, a running run advances.
"""

from collections.abc import Callable, Mapping
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.decide.block import decide_block
from agentforge.engine.decide.caps import warn
from agentforge.engine.decide.hooks import call_hooks
from agentforge.engine.decide.requests import (
    APPROVALS,
    Question,
    Ruling,
    consequences,
    defaults,
    opened,
    request_waits,
    withdrawn,
)
from agentforge.engine.decide.stage import decide_stage, is_stuck
from agentforge.engine.decide.stage_at import stage_at, stage_started
from agentforge.engine.decide.task_kinds import ended, in_flight
from agentforge.engine.nodes import first_node, next_node
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.event import Draft
from agentforge.model.failure import FailureKind
from agentforge.model.plan import ParallelNode, Plan, Step, visit_dir
from agentforge.model.request import ABORT, APPROVE
from agentforge.model.state import (
    AT_MOST_ONCE,
    NO_VERDICT,
    STUCK,
    Between,
    BlockState,
    RunState,
    StageState,
    Start,
)
from agentforge.model.status import RunStatus
from agentforge.model.task import Wait, Work

# Theory of operation
#
# A gate is a condition and what follows from it, and the first that has something to say wins. So the order
# of the tables is the priority of the rules, and a feature is a function in one row rather than a branch in
# many.
#
# Level-triggered: a gate looks at what is, never at what just happened. It must have nothing to say once
# its own facts are recorded, or the driver would record them for ever. After a crash that cut off some of
# the facts of a decision, it is asked again: so each prefix of them must be a state from which some gate
# continues.
#
# Time comes from the state: the latest event's. A decision that depended on the clock would change between
# two looks at the same log, and a rehearsal couldn't repeat it. What waits is a `Wait` for a recorded time.


class Directive(Struct, frozen=True):
    facts: tuple[Draft, ...] = ()
    work: tuple[Work, ...] = ()


IDLE = Directive()
RunGate = Callable[[Plan, RunState], Directive | None]
NodeGate = Callable[[Plan, RunState, Destination | None], Directive | None]
"""Gets the node that the run is about to enter, or None at its end."""


def decide(plan: Plan, state: RunState) -> Directive:
    for gate in GATES.get(state.status, ()):
        if (decision := gate(plan, state)) is not None:
            return decision
    return _advance(plan, state) if state.status is RunStatus.RUNNING else IDLE


# -- waiting runs


def _cancelled(_: Plan, state: RunState) -> Directive | None:
    if state.stop is None or not state.stop.cancel:
        return None
    return _over(state, f.SessionAborted(state.stop.reason))


def _over(state: RunState, ended: f.SessionCompleted | f.SessionAborted) -> Directive:
    """No request stays open at the end of a run."""
    return Directive((*withdrawn(state.requests), Draft(ended, state.cursor)))


def _overdue(_: Plan, state: RunState) -> Directive | None:
    facts = defaults(state) if state.requests else ()
    return Directive(facts) if facts else None


def _answered(_: Plan, state: RunState) -> Directive | None:
    """A run stopped on its requests continues when one is answered."""
    if not state.waits:
        return None
    answered = tuple(request.id for request in state.requests if not request.is_open)
    return Directive((Draft(f.SessionContinued(answered), state.cursor),)) if answered else None


def _unanswered(_: Plan, state: RunState) -> Directive | None:
    return Directive(work=request_waits(state)) if state.waits and state.stop is None else None


# -- running runs


def _stopping(plan: Plan, state: RunState) -> Directive | None:
    """No new tasks start; tasks in flight finish, or are stopped when the pause is due."""
    stop = state.stop
    if stop is None:
        return None
    tasks = tuple(in_flight(plan, state))
    if stop.now and (facts := [ends for task in tasks if (ends := ended(task, stop.reason))]):
        return Directive(tuple(facts))
    if not tasks:
        if stop.cancel:
            return _over(state, f.SessionAborted(stop.reason))
        return Directive((Draft(f.SessionPaused(stop.reason), state.cursor),))
    due = (Wait("stop", stop.due_at),) if stop.due_at and not stop.now else ()
    return Directive(work=(*tasks, *due))


def _consequences(plan: Plan, state: RunState) -> Directive | None:
    """Handle one answer at a time: its consequences may affect the next."""
    for request in state.requests:
        if not request.is_open:
            return Directive(consequences(plan, state, request))
    return None


def _outdated(_: Plan, state: RunState) -> Directive | None:
    """Withdraw the question whether a run without progress continues, once there is progress: it is about the
    whole run, where other branches may still work."""
    if is_stuck(state) or not state.requests:
        return None
    asked = [request for request in state.requests if request.reason == STUCK]
    return Directive(withdrawn(asked)) if asked else None


def _warned(plan: Plan, state: RunState) -> Directive | None:
    notice = warn(plan, state)
    return Directive((Draft(notice, state.cursor),)) if notice else None


def _resumed(plan: Plan, state: RunState) -> Directive | None:
    """The hooks that are called after a person resumed the run."""
    if state.resumption is None:
        return None
    ruling = call_hooks(plan, state, "resume", None, str(state.resumption.seq))
    if ruling is None:
        return None
    decision = _of_run(state, ruling)
    return decision if decision.facts else _with_flights(plan, state, decision.work)


def _advance(plan: Plan, state: RunState) -> Directive:
    """The work of the current node; a run with only open requests left waits for people."""
    if not state.requests:
        return _resumed(plan, state) or _at_position(plan, state)
    asked = _request_hooks(plan, state)
    if asked.facts:
        return asked
    if any(request.kind == "pause" for request in state.requests):
        # A hook paused the run: what is running finishes, and nothing new starts.
        decision = _with_flights(plan, state, ())
    else:
        decision = _resumed(plan, state) or _at_position(plan, state)
    if decision.facts:
        return decision
    # All of them are open: an answered one has its consequences first.
    waiting, work = state.open_requests, _once(*decision.work, *asked.work)
    if work:
        return Directive(work=(*work, *request_waits(state)))
    ids = tuple(request.id for request in waiting)
    if any(request.kind in APPROVALS for request in waiting):
        return Directive((Draft(f.AwaitingApproval(ids), state.cursor),))
    reasons = [request.reason for request in waiting]
    reason = AT_MOST_ONCE if AT_MOST_ONCE in reasons else reasons[0]
    return Directive((Draft(f.SessionPaused(reason, ids), state.cursor),))


def _with_flights(plan: Plan, state: RunState, work: tuple[Work, ...]) -> Directive:
    return Directive(work=_once(*work, *in_flight(plan, state)))


def _once(*work: Work) -> tuple[Work, ...]:
    return tuple({each.id: each for each in work}.values())


def _request_hooks(plan: Plan, state: RunState) -> Directive:
    """The hooks that may answer open requests, each request separately."""
    facts: list[Draft] = []
    work: list[Work] = []
    for request in state.open_requests:
        ruling = call_hooks(plan, state, "request", request.at, request.id)
        if ruling is not None:
            facts += ruling.facts
            work += ruling.work
    return Directive(tuple(facts), tuple(work))


def _at_position(plan: Plan, state: RunState) -> Directive:
    match state.at:
        case StageState() as at:
            here = stage_at(plan, state, None, at)
            return (
                _missing_node(state, at.path)
                if here is None
                else _run_directive(plan, state, at, decide_stage(here))
            )
        case Start():
            return _between_nodes(plan, state, first_node(plan))
        case Between(next=destination):
            return _between_nodes(plan, state, destination)
        case BlockState() as block:
            step = plan.places.get(block.path)
            if step is None or not isinstance(step.node, ParallelNode):
                return _missing_node(state, block.path)
            return _run_directive(plan, state, block, decide_block(plan, state, step, block))
        case _:
            assert_never(state.at)


def _of_run(state: RunState, ruling: Ruling) -> Directive:
    """Translate a ruling on the hooks of the run as a whole."""
    if ruling.failure is not None:
        failed = f.SessionFailed(ruling.failure.kind, ruling.failure.message, "")
        return Directive((Draft(failed, state.cursor),))
    if ruling.question is not None:
        return Directive(opened(state, ruling.question))
    return Directive(ruling.facts, ruling.work)


def _run_directive(plan: Plan, state: RunState, at: StageState | BlockState, ruling: Ruling) -> Directive:
    """Translate a ruling on the current node into a directive for the run."""
    if ruling.facts or ruling.work:
        return Directive(ruling.facts, ruling.work)
    node = plan.places[at.path].node
    here = Cursor(at.path, at.run, at.completed if isinstance(at, StageState) else 0)
    if ruling.done is not None:
        stage = at if isinstance(at, StageState) else None
        routed, verdict = stage.transition if stage else None, (stage and stage.verdict) or NO_VERDICT
        done = f.NodeCompleted(
            node.id,
            ruling.done,
            at.completed,
            next=routed.next if routed else next_node(plan, at.path, state.rounds),
            verdict=verdict.word,
            overridden_by=verdict.accepted_by,
            override_reason=verdict.accept_reason,
        )
        return Directive((Draft(done, here),))
    if ruling.failure is not None:
        failed = f.SessionFailed(ruling.failure.kind, ruling.failure.message, node.id)
        return Directive((Draft(failed, here),))
    return Directive(opened(state, ruling.question)) if ruling.question else IDLE


# -- between two nodes


def _between_nodes(plan: Plan, state: RunState, to: Destination | None) -> Directive:
    for gate in BETWEEN_NODES:
        if (directive := gate(plan, state, to)) is not None:
            return directive
    if to is None:
        reason = state.stages[-1].reason if plan.mode == "loop" and state.stages else "all_loops_complete"
        return _over(state, f.SessionCompleted(reason))
    step = plan.places.get(to.path)
    if step is None:
        return _missing_node(state, to.path)
    here = _next_visit(state, step)
    entered = _entered(step, here.node_run, to.rounds)
    is_skipped = state.waiver_of(step.node.id) is not None
    return Directive((Draft(replace(entered, skipped=True) if is_skipped else entered, here),))


def _session_start(plan: Plan, state: RunState, _: Destination | None) -> Directive | None:
    hooks = call_hooks(plan, state, "session_start") if isinstance(state.at, Start) else None
    return _of_run(state, hooks) if hooks else None


def _session_end(plan: Plan, state: RunState, to: Destination | None) -> Directive | None:
    hooks = call_hooks(plan, state, "session_end") if to is None else None
    return _of_run(state, hooks) if hooks else None


def _other_checkpoint(plan: Plan, state: RunState, to: Destination | None) -> Directive | None:
    """Withdraw the question of a checkpoint that isn't here any more, because the run was recompiled."""
    name = _checkpoint_before(plan, state, to)
    outdated = withdrawn(r for r in state.requests if r.kind == "checkpoint" and r.subject != name)
    return Directive(outdated) if outdated else None


def _checkpoint_before(plan: Plan, state: RunState, to: Destination | None) -> str | None:
    names = plan.checkpoints(to.path) if to and to.path in plan.places else ()
    return next((name for name in names if name not in state.cleared), None)


def _checkpoint(plan: Plan, state: RunState, to: Destination | None) -> Directive | None:
    step, name = plan.places.get(to.path) if to else None, _checkpoint_before(plan, state, to)
    if name is None or step is None:
        return None
    question = Question(
        "checkpoint",
        f"Checkpoint {name!r}: continue with {step.node.id!r}?",
        (APPROVE, ABORT),
        scope="run",
        at=_next_visit(state, step),
        kind="checkpoint",
        subject=name,
    )
    return Directive(opened(state, question))


def _next_visit(state: RunState, step: Step) -> Cursor:
    return Cursor(step.path, state.visits.get(step.path, 0) + 1, 0)


def _entered(step: Step, run: int, rounds: tuple[int, ...]) -> f.NodeStarted:
    node, folder = step.node, visit_dir(step.dir, run)
    if isinstance(node, ParallelNode):
        return f.NodeStarted(
            name=node.id,
            path=step.path,
            run=run,
            folder=folder,
            rounds=rounds,
            kind="parallel",
            providers=tuple(branch.provider for branch in node.branches),
            stages=tuple(stage.id for stage in node.branches[0].stages),
        )
    return stage_started(node, step.path, run, folder, rounds)


def _missing_node(state: RunState, path: str) -> Directive:
    """A damaged log, or one of another plan, refers to a node that the plan doesn't have."""
    failed = f.SessionFailed(FailureKind.STATE_CORRUPT, f"the plan has no node at {path!r}", "")
    return Directive((Draft(failed, state.cursor),))


BETWEEN_NODES: tuple[NodeGate, ...] = (_other_checkpoint, _session_start, _session_end, _checkpoint)
_WAITING_GATES: tuple[RunGate, ...] = (_cancelled, _overdue, _answered, _unanswered)
GATES: Mapping[RunStatus, tuple[RunGate, ...]] = {
    RunStatus.RUNNING: (_overdue, _stopping, _consequences, _outdated, _warned),
    RunStatus.PAUSED: _WAITING_GATES,
    RunStatus.AWAITING_APPROVAL: _WAITING_GATES,
}
"""A run of another status is over."""
