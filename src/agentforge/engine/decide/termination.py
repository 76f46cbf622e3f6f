"""When a stage is done."""

from typing import assert_never

from agentforge.engine.decide.items import end_of_items
from agentforge.engine.decide.stage_at import StageAt
from agentforge.model.plan import Fixed, Items, Judgment, Queue, Termination
from agentforge.model.result import Decision
from agentforge.model.state import StageState

MAX_JUDGE_FAILURES = 3
"""After this many consecutive failures, the judge is skipped."""
MAX_JUDGE_CALLS = 2
"""How often the judge is called for an iteration; lost calls don't count."""
JUDGE_TIMEOUT = 300.0
"""Seconds of one call."""
QUEUE_TIMEOUT = 60.0
"""Seconds of one query."""

MAX_ITERATIONS = "max_iterations"


def end_of(here: StageAt) -> str:
    """Why the stage ends after its completed iterations; empty if it continues."""
    at, termination = here.at, here.node.termination
    match termination:
        case Fixed(max=limit, until_pass=until_pass):
            if at.completed and at.last_decision is Decision.STOP:
                return f"Agent requested stop at iteration {at.completed}"
            if at.counted >= limit:
                return f"Completed {at.counted} iterations (max: {limit})"
            return f"Ended after iteration {at.completed}" if until_pass and at.completed else ""
        case Judgment(required_stops=required):
            # The agent's own decision is evidence for the judge; it doesn't end the stage.
            stops = at.plateaus if here.state.settings.plateau_test else at.stops
            if at.completed >= termination.judged_from and at.completed and stops >= required:
                reason = f"\n  Reason: {at.judge_reason}" if at.judge_reason else ""
                return f"Consensus reached: {required} consecutive agents agree to stop{reason}"
            return MAX_ITERATIONS if at.counted >= termination.max else ""
        case Queue(max=limit):
            if at.queue_checked == at.completed and at.queue_left == 0:
                return "All beads complete"
            if at.completed and at.last_decision is Decision.STOP:
                return f"Agent requested stop at iteration {at.completed}"
            return MAX_ITERATIONS if at.counted >= limit else ""
        case Items():
            return end_of_items(here)
        case _:
            assert_never(termination)


def iterations_left(termination: Termination, at: StageState) -> bool:
    return not isinstance(termination, Items) and at.counted < termination.max


def wants_judge(termination: Termination, at: StageState) -> bool:
    """Whether the latest iteration still has to be judged."""
    if not isinstance(termination, Judgment) or at.completed < max(1, termination.judged_from):
        return False
    if at.judged < at.completed:
        return True
    judge = at.calls.get("judge")
    if judge is None or judge.failure is None:
        return judge is not None  # A call for a retry was lost.
    # A call that failed is repeated; an unreadable answer would be the same again.
    return judge.failure.message == "invoke_failed" and at.judge_tries < MAX_JUDGE_CALLS


def wants_queue(termination: Termination, at: StageState) -> bool:
    """Whether the queue has to be checked first."""
    return (
        isinstance(termination, Queue)
        and at.queue_checked < at.completed
        and (at.completed > 0 or termination.check_before)
    )
