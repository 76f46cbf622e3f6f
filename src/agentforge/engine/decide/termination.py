"""When a stage is done."""

from typing import assert_never

from agentforge.model.plan import Fixed, Judgment, Queue, Termination
from agentforge.model.result import Decision
from agentforge.model.state import StageState

MAX_JUDGE_FAILURES = 3
"""After this many consecutive failures, the judge is skipped."""
MAX_JUDGE_CALLS = 2
"""How often the judge is called for an iteration; lost calls don't count."""

MAX_ITERATIONS = "max_iterations"


def end_of(termination: Termination, at: StageState, *, plateau_test: bool = False) -> str:
    """Why the stage ends after its completed iterations; empty if it continues."""
    match termination:
        case Fixed(max=limit):
            if at.completed and at.last_decision is Decision.STOP:
                return f"Agent requested stop at iteration {at.completed}"
            return f"Completed {at.counted} iterations (max: {limit})" if at.counted >= limit else ""
        case Judgment():
            return _judged_end(termination, at, at.plateaus if plateau_test else at.stops)
        case Queue(max=limit):
            if at.queue_checked == at.completed and at.queue_left == 0:
                return "All beads complete"
            if at.completed and at.last_decision is Decision.STOP:
                return f"Agent requested stop at iteration {at.completed}"
            return MAX_ITERATIONS if at.counted >= limit else ""
        case _:
            assert_never(termination)


def _judged_end(termination: Judgment, at: StageState, stops: int) -> str:
    """The agent's own decision is evidence for the judge; it doesn't end the stage."""
    required = termination.required_stops
    if at.completed >= termination.judged_from and at.completed and stops >= required:
        reason = f"\n  Reason: {at.judge_reason}" if at.judge_reason else ""
        return f"Consensus reached: {required} consecutive agents agree to stop{reason}"
    return MAX_ITERATIONS if at.counted >= termination.max else ""


def iterations_left(termination: Termination, at: StageState) -> bool:
    return at.counted < termination.max


def wants_judge(termination: Termination, at: StageState) -> bool:
    """Whether the latest iteration still has to be judged."""
    return (
        isinstance(termination, Judgment)
        and at.completed >= max(1, termination.judged_from)
        and (at.judged < at.completed or _is_judge_due(at))
    )


def _is_judge_due(at: StageState) -> bool:
    """Whether the judge of an iteration is called again: after a failed call, or a retry that was lost. An
    unreadable answer is not retried."""
    judge = at.calls.get("judge")
    failure = judge.failure if judge else None
    if failure is None:
        return judge is not None
    return failure.message == "invoke_failed" and at.judge_tries < MAX_JUDGE_CALLS


def wants_queue(termination: Termination, at: StageState) -> bool:
    """Whether the queue has to be checked first."""
    return (
        isinstance(termination, Queue)
        and at.queue_checked < at.completed
        and (at.completed > 0 or termination.check_before)
    )
