"""What should happen now. Level-triggered: the answer depends on the state alone, so a crash, a resume
and an ordinary step are the same code path.

The driver records the facts and asks again until there are none; then the work is what should be
running: it starts what is missing and cancels what is no longer wanted.
"""

from datetime import timedelta

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.evolve import IN_FLIGHT
from agentforge.engine.retry import DEFAULT_POLICY, backoff, may_retry
from agentforge.engine.termination import end_of
from agentforge.model import facts as f
from agentforge.model.event import Cursor, Draft
from agentforge.model.failure import Failure
from agentforge.model.plan import Plan, StageNode
from agentforge.model.state import AttemptState, IterationState, NodeState, RunState
from agentforge.model.status import AttemptStatus, RunStatus
from agentforge.model.work import End, Execute, Prepare, Wait, Work

DEFAULT_DELAY = 3.0
LOST_IN_A_ROW = 3
RECOVERIES_WITHOUT_PROGRESS = 3
WAITING = frozenset({RunStatus.PAUSED, RunStatus.AWAITING_APPROVAL})


class Decision(Struct, frozen=True):
    facts: tuple[Draft, ...] = ()
    work: tuple[Work, ...] = ()


IDLE = Decision()


def decide(plan: Plan, state: RunState) -> Decision:
    if state.node is not None and state.node.index >= len(plan.nodes):
        # Lines that damage left without their place may lead past the last node.
        state = replace(state, node=None)
    if state.status in WAITING and state.stop is not None and state.stop.cancel:
        return Decision((Draft(f.SessionAborted(state.stop.reason), state.cursor),))
    if state.status is not RunStatus.RUNNING:
        return IDLE
    if state.stop is not None:
        return _stopping(plan, state)
    if state.node is None:
        return _between_nodes(plan, state)
    node = plan.nodes[state.node.index]
    if state.node.iteration is None:
        return _between_iterations(plan, state, state.node, node)
    return _within_iteration(plan, state, state.node, state.node.iteration, node)


def _stopping(plan: Plan, state: RunState) -> Decision:
    """Nothing new starts; agents finish, or are ended when it is time."""
    stop, attempt = state.stop, state.attempt
    assert stop is not None
    if attempt is None or attempt.status not in IN_FLIGHT:
        ended = f.SessionAborted(stop.reason) if stop.cancel else f.SessionPaused(stop.reason)
        return Decision((Draft(ended, state.cursor),))
    if attempt.status is AttemptStatus.ENDING:
        return Decision(work=(_end(plan, state, attempt),))
    if stop.now:
        return Decision((Draft(f.AttemptEnding(attempt.number, stop.reason), state.cursor),))
    running: tuple[Work, ...] = (_execute(plan, state, attempt),)
    return Decision(work=(*running, Wait("stop", stop.due_at)) if stop.due_at else running)


def _between_nodes(plan: Plan, state: RunState) -> Decision:
    if state.next_node < len(plan.nodes):
        node = plan.nodes[state.next_node]
        started = f.NodeStarted(
            name=node.id,
            type=node.stage,
            provider=node.provider.type,
            model=node.provider.model,
            runs=node.runs,
        )
        return Decision((Draft(started, Cursor(node.path, 1, 0)),))
    reason = state.stages[-1].reason if plan.mode == "loop" and state.stages else "all_loops_complete"
    return Decision((Draft(f.SessionCompleted(reason), state.cursor),))


def _between_iterations(plan: Plan, state: RunState, at: NodeState, node: StageNode) -> Decision:
    here = Cursor(node.path, at.run, at.completed)
    if at.failure is not None:
        return _fail(at.failure, node, here)
    if reason := end_of(node.termination, at):
        done = f.NodeCompleted(node.id, reason, at.completed)
        return Decision((Draft(done, here),))
    if escalation := _escalation(plan, state, node):
        return _ask(state, here, *escalation)
    if at.delay_due is not None:
        return Decision(work=(Wait("delay", at.delay_due),))
    delay = _delay(state, node)
    if at.completed and delay and not at.delay_over and at.last_completed_at:
        due = at.last_completed_at + timedelta(seconds=delay)
        return Decision((Draft(f.DelayStarted(due), here),))
    return Decision(work=(Prepare(at.index, node.path, at.run, at.completed + 1),))


def _within_iteration(
    plan: Plan, state: RunState, at: NodeState, iteration: IterationState, node: StageNode
) -> Decision:
    here = Cursor(node.path, at.run, iteration.number)
    attempt = iteration.attempt
    if attempt is not None and attempt.status in IN_FLIGHT:
        running = attempt.status is AttemptStatus.RUNNING
        return Decision(work=((_execute if running else _end)(plan, state, attempt),))
    if attempt is not None and attempt.status is AttemptStatus.FAILED:
        return _after_failure(iteration, attempt, node, here)
    if attempt is not None and attempt.status is AttemptStatus.WAITING:
        assert attempt.due_at is not None
        return Decision(work=(Wait("retry", attempt.due_at),))
    if escalation := _escalation(plan, state, node):
        return _ask(state, here, *escalation)
    return Decision((Draft(_next_attempt(plan, state, iteration, node), here),))


def _after_failure(
    iteration: IterationState, attempt: AttemptState, node: StageNode, here: Cursor
) -> Decision:
    assert attempt.failure is not None
    assert attempt.ended_at is not None
    policy = node.retry or DEFAULT_POLICY
    failures = iteration.failures
    if not may_retry(policy, failures):
        return _fail(attempt.failure, node, here)
    number = len(failures) + 1
    retry = f.RetryScheduled(
        attempt=number,
        of=policy.max_attempts,
        due_at=attempt.ended_at + backoff(policy, len(failures)),
        message=f"Attempt {number}/{policy.max_attempts} for iteration {iteration.number}",
    )
    return Decision((Draft(retry, here),))


def _next_attempt(
    plan: Plan, state: RunState, iteration: IterationState, node: StageNode
) -> f.AttemptStarted:
    policy = node.retry or DEFAULT_POLICY
    remaining = remaining_seconds(plan, state, node)
    timeout = min((limit for limit in (node.timeout, remaining) if limit is not None), default=None)
    return f.AttemptStarted(
        attempt=iteration.attempts + 1,
        of=policy.max_attempts,
        provider=node.provider.type,
        model=node.provider.model,
        timeout=timeout,
        idle_timeout=node.idle_timeout,
    )


def _execute(plan: Plan, state: RunState, attempt: AttemptState) -> Execute:
    at = state.node
    assert at is not None
    assert at.iteration is not None
    return Execute(
        node=at.index,
        node_path=plan.nodes[at.index].path,
        node_run=at.run,
        iteration=at.iteration.number,
        attempt=attempt.number,
        timeout=attempt.timeout,
        idle_timeout=attempt.idle_timeout,
    )


def _end(plan: Plan, state: RunState, attempt: AttemptState) -> End:
    """A kill that was recorded as intended is carried out, whoever drives the run by now."""
    execute = _execute(plan, state, attempt)
    return End(execute.node, execute.node_path, execute.node_run, execute.iteration, execute.attempt)


def _fail(failure: Failure, node: StageNode, here: Cursor) -> Decision:
    return Decision((Draft(f.SessionFailed(failure.kind, failure.message, node.id), here),))


def _delay(state: RunState, node: StageNode) -> float:
    if state.settings.delay is not None:
        return state.settings.delay
    return DEFAULT_DELAY if node.delay is None else node.delay


def max_runtime(plan: Plan, node: StageNode) -> float | None:
    """The tightest of the limits that the run and the stage set."""
    limits = [rails.max_runtime_seconds for rails in (plan.pipeline.guardrails, node.guardrails) if rails]
    return min((limit for limit in limits if limit is not None), default=None)


def remaining_seconds(plan: Plan, state: RunState, node: StageNode) -> float | None:
    """What is left of the runtime limit as of the latest event; nothing if there is no limit."""
    limit = max_runtime(plan, node)
    if limit is None:
        return None
    return max(0.0, limit - (state.updated_at - state.clock_from).total_seconds())


def _escalation(plan: Plan, state: RunState, node: StageNode) -> tuple[str, str] | None:
    """Why a person is needed before anything more is spent: a reason and a question."""
    iteration = state.iteration
    if iteration is not None and iteration.lost >= LOST_IN_A_ROW:
        return "attempts_lost", (
            f"{iteration.lost} attempts at iteration {iteration.number} of stage {node.id!r} were lost"
            " in a row because the engine or the machine died. Go on?"
        )
    if state.recoveries >= RECOVERIES_WITHOUT_PROGRESS:
        return "recoveries_without_progress", (
            f"the run was taken up {state.recoveries} times without completing an iteration. Go on?"
        )
    if remaining_seconds(plan, state, node) == 0.0:
        return "runtime_limit", (
            f"the runtime limit of {max_runtime(plan, node):g} s is used up. Grant the same again?"
        )
    return None


def _ask(state: RunState, here: Cursor, reason: str, question: str) -> Decision:
    paused = Draft(f.SessionPaused(reason), here)
    if any(request.id.startswith(f"{reason}-") for request in state.requests):
        # The engine died between the question and the pause: it isn't asked twice.
        return Decision((paused,))
    opened = f.RequestOpened(
        id=f"{reason}-{state.seq + 1}", kind="escalation", question=question, options=("resume", "cancel")
    )
    return Decision((Draft(opened, here), paused))
