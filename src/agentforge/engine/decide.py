"""What should happen now. Level-triggered: the answer depends on the state alone, so a crash, a resume
and an ordinary step are the same code path.

The driver records the facts and asks again until there are none; then the work is what should be
running: it starts what is missing and cancels what is no longer wanted.
"""

from msgspec import Struct

from agentforge.engine.decide_block import decide_block, stage_in_block
from agentforge.engine.decide_failure import Question
from agentforge.engine.decide_stage import (
    StageAt,
    Verdict,
    decide_stage,
    execute,
    in_flight,
    judging,
)
from agentforge.engine.fit import fit
from agentforge.model import facts as f
from agentforge.model.event import Cursor, Draft
from agentforge.model.plan import ParallelNode, Plan, Step
from agentforge.model.state import NodeState, RunState
from agentforge.model.status import AttemptStatus, RunStatus
from agentforge.model.work import EndJudge, Spot, Wait, Work

WAITING = frozenset({RunStatus.PAUSED, RunStatus.AWAITING_APPROVAL})


class Decision(Struct, frozen=True):
    facts: tuple[Draft, ...] = ()
    work: tuple[Work, ...] = ()


IDLE = Decision()


def decide(plan: Plan, state: RunState) -> Decision:
    state = fit(plan, state)
    if state.status in WAITING and state.stop is not None and state.stop.cancel:
        return Decision((Draft(f.SessionAborted(state.stop.reason), state.cursor),))
    if state.status is not RunStatus.RUNNING:
        return IDLE
    if state.stop is not None:
        return _stopping(plan, state)
    if state.block is not None:
        return _of_run(plan, state, decide_block(plan, state, state.block), state.block.index)
    if state.node is not None:
        here = _stage_at(plan, state, None, state.node)
        return _of_run(plan, state, decide_stage(here), state.node.index)
    return _between_steps(plan, state)


def _stage_at(plan: Plan, state: RunState, provider: str | None, at: NodeState) -> StageAt:
    if provider is not None and state.block is not None:
        return stage_in_block(plan, state, state.block, provider, at)
    step = plan.steps[at.index]
    spot = Spot(at.index, step.path, at.run)
    return StageAt(plan, state, spot, spot.node(plan), at)


def _of_run(plan: Plan, state: RunState, verdict: Verdict, index: int) -> Decision:
    """What a verdict on the current step means for the run."""
    step = plan.steps[index]
    here = Cursor(step.path, step.run, state.node.completed if state.node else 0)
    if verdict.done is not None:
        at = state.node or state.block
        done = f.NodeCompleted(step.node.id, verdict.done, at.completed if at else 0, step=index)
        return Decision((Draft(done, here),))
    if verdict.failure is not None:
        failed = f.SessionFailed(verdict.failure.kind, verdict.failure.message, step.node.id)
        return Decision((Draft(failed, here),))
    if verdict.question is not None:
        return _ask(state, here, verdict.question)
    return Decision(verdict.facts, verdict.work)


def _stopping(plan: Plan, state: RunState) -> Decision:
    """Nothing new starts; agents finish, or are ended when it is time."""
    stop = state.stop
    assert stop is not None
    facts: list[Draft] = []
    work: list[Work] = []
    for provider, at in state.under_way():
        here = _stage_at(plan, state, provider, at)
        attempt = in_flight(at)
        if attempt is not None and stop.now and attempt.status is AttemptStatus.RUNNING:
            facts += here.record(f.AttemptEnding(attempt.number, stop.reason)).facts
        elif attempt is not None:
            work.append(execute(here, attempt))
        elif judge := judging(here):
            work.append(EndJudge(judge.spot, judge.iteration, judge.attempt) if stop.now else judge)
    if facts:
        return Decision(tuple(facts))
    if not work:
        ended = f.SessionAborted(stop.reason) if stop.cancel else f.SessionPaused(stop.reason)
        return Decision((Draft(ended, state.cursor),))
    if stop.due_at and not stop.now:
        work.append(Wait("stop", stop.due_at))
    return Decision(work=tuple(work))


def _between_steps(plan: Plan, state: RunState) -> Decision:
    if state.next_node >= len(plan.steps):
        reason = state.stages[-1].reason if plan.mode == "loop" and state.stages else "all_loops_complete"
        return Decision((Draft(f.SessionCompleted(reason), state.cursor),))
    step = plan.steps[state.next_node]
    return Decision((Draft(_entered(step, state.next_node), Cursor(step.path, step.run, 0)),))


def _entered(step: Step, index: int) -> f.NodeStarted:
    node = step.node
    if isinstance(node, ParallelNode):
        return f.NodeStarted(
            name=node.id,
            kind="parallel",
            providers=tuple(branch.provider for branch in node.branches),
            stages=tuple(stage.id for stage in node.branches[0].stages),
            step=index,
        )
    return f.NodeStarted(
        name=node.id,
        type=node.stage,
        provider=node.provider.type,
        model=node.provider.model,
        runs=node.runs,
        step=index,
    )


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
