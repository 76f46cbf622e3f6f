"""What should happen now. Level-triggered: the answer depends on the state alone, so a crash, a resume
and an ordinary step are the same code path.

The driver records the facts and asks again until there are none; then the work is what should be
running: it starts what is missing and cancels what is no longer wanted.
"""

from typing import assert_never

from msgspec import Struct

from agentforge.engine.course import first_node, next_node
from agentforge.engine.decide_block import decide_block
from agentforge.engine.decide_failure import Question
from agentforge.engine.decide_stage import (
    Verdict,
    decide_stage,
    execute,
    in_flight,
    judging,
    stage_at,
)
from agentforge.model import facts as f
from agentforge.model.event import Cursor, Draft
from agentforge.model.failure import FailureKind
from agentforge.model.plan import ParallelNode, Plan, Step, visit_dir
from agentforge.model.state import Between, BlockState, RunState, StageState, Start, StopRequest
from agentforge.model.status import AttemptStatus, RunStatus
from agentforge.model.work import EndJudge, Wait, Work

WAITING = frozenset({RunStatus.PAUSED, RunStatus.AWAITING_APPROVAL})


class Decision(Struct, frozen=True):
    facts: tuple[Draft, ...] = ()
    work: tuple[Work, ...] = ()


IDLE = Decision()


def decide(plan: Plan, state: RunState) -> Decision:
    if state.status in WAITING and state.stop is not None and state.stop.cancel:
        return Decision((Draft(f.SessionAborted(state.stop.reason), state.cursor),))
    if state.status is not RunStatus.RUNNING:
        return IDLE
    if state.stop is not None:
        return _stopping(plan, state, state.stop)
    match state.at:
        case Start():
            return _enter(plan, state, first_node(plan))
        case Between(next=destination):
            return _enter(plan, state, destination)
        case StageState() as at:
            here = stage_at(plan, state, None, at)
            return _unplaced(state, at.path) if here is None else _of_run(plan, state, at, decide_stage(here))
        case BlockState() as block:
            step = plan.places.get(block.path)
            if step is None or not isinstance(step.node, ParallelNode):
                return _unplaced(state, block.path)
            return _of_run(plan, state, block, decide_block(plan, state, step, block))
        case _:
            assert_never(state.at)


def _of_run(plan: Plan, state: RunState, at: StageState | BlockState, verdict: Verdict) -> Decision:
    """What a verdict on the current node means for the run."""
    node = plan.places[at.path].node
    here = Cursor(at.path, at.run, at.completed if isinstance(at, StageState) else 0)
    if verdict.done is not None:
        following = next_node(plan, at.path, state.rounds)
        done = f.NodeCompleted(node.id, verdict.done, at.completed, next=following)
        return Decision((Draft(done, here),))
    if verdict.failure is not None:
        failed = f.SessionFailed(verdict.failure.kind, verdict.failure.message, node.id)
        return Decision((Draft(failed, here),))
    if verdict.question is not None:
        return _ask(state, here, verdict.question)
    return Decision(verdict.facts, verdict.work)


def _stopping(plan: Plan, state: RunState, stop: StopRequest) -> Decision:
    """Nothing new starts; agents finish, or are ended when it is time."""
    facts: list[Draft] = []
    work: list[Work] = []
    for provider, at in state.under_way():
        here = stage_at(plan, state, provider, at)
        if here is None:
            continue
        attempt = in_flight(at)
        if attempt is not None and stop.now and attempt.status is AttemptStatus.RUNNING:
            facts += here.record(f.AttemptEnding(attempt.number, stop.reason)).facts
        elif attempt is not None:
            work.append(execute(here, attempt))
        elif judge := judging(here):
            work.append(
                EndJudge(judge.place, judge.node, judge.iteration, judge.attempt) if stop.now else judge
            )
    if facts:
        return Decision(tuple(facts))
    if not work:
        ended = f.SessionAborted(stop.reason) if stop.cancel else f.SessionPaused(stop.reason)
        return Decision((Draft(ended, state.cursor),))
    if stop.due_at and not stop.now:
        work.append(Wait("stop", stop.due_at))
    return Decision(work=tuple(work))


def _enter(plan: Plan, state: RunState, destination: f.Destination | None) -> Decision:
    if destination is None:
        reason = state.stages[-1].reason if plan.mode == "loop" and state.stages else "all_loops_complete"
        return Decision((Draft(f.SessionCompleted(reason), state.cursor),))
    step = plan.places.get(destination.path)
    if step is None:
        return _unplaced(state, destination.path)
    run = state.visits.get(step.path, 0) + 1
    return Decision((Draft(_entered(step, run, destination.rounds), Cursor(step.path, run, 0)),))


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
    return f.NodeStarted(
        name=node.id,
        path=step.path,
        run=run,
        folder=folder,
        rounds=rounds,
        type=node.stage,
        provider=node.provider.type,
        model=node.provider.model,
        runs=node.runs,
    )


def _unplaced(state: RunState, path: str) -> Decision:
    """A damaged log, or one that isn't of this plan, leads to a node that the plan doesn't have."""
    failed = f.SessionFailed(FailureKind.STATE_CORRUPT, f"the plan has no node at {path!r}", "")
    return Decision((Draft(failed, state.cursor),))


def _ask(state: RunState, here: Cursor, question: Question) -> Decision:
    paused = Draft(f.SessionPaused(question.reason), here)
    if any(request.id.startswith(f"{question.reason}-") for request in state.requests):
        # The engine died between the question and the pause: it isn't asked twice.
        return Decision((paused,))
    opened = f.RequestOpened(
        id=f"{question.reason}-{state.seq + 1}",
        kind="escalation",
        question=question.text,
        options=("resume", "cancel"),
    )
    return Decision((Draft(opened, here), paused))
