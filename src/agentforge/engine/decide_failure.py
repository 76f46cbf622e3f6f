"""What follows a failed attempt: a retry, a wait for a limit, the next provider, a question, an end."""

from datetime import datetime, timedelta

from msgspec import Struct

from agentforge.engine.retry import DEFAULT_POLICY, backoff, may_retry
from agentforge.model import facts as f
from agentforge.model.failure import LIMITS, Failure, FailureKind
from agentforge.model.plan import LimitPolicy, StageNode
from agentforge.model.state import AttemptState, IterationState, NodeState

DEFAULT_LIMITS = LimitPolicy()

PROVIDERS_OWN = frozenset(
    {
        FailureKind.PROVIDER_MISSING,
        FailureKind.PROVIDER_AUTH,
        FailureKind.PROVIDER_CRASHED,
        FailureKind.PROVIDER_TIMEOUT,
        FailureKind.PROVIDER_OVERLOADED,
        FailureKind.PROVIDER_UNREACHABLE,
    }
)
"""Failures that another provider may not have."""

FOR_A_PERSON = frozenset({FailureKind.PROVIDER_MISSING, FailureKind.PROVIDER_AUTH})
"""Of these, the ones that no waiting mends."""


class Question(Struct, frozen=True):
    """Why a person is needed before anything more is spent."""

    reason: str
    text: str


Turn = f.RetryScheduled | f.LimitMet | f.ProviderChanged | Question | Failure


def turn_after(node: StageNode, at: NodeState, iteration: IterationState, attempt: AttemptState) -> Turn:
    failure, ended_at = _ended(attempt)
    if failure.kind in LIMITS:
        return _at_limit(node, at, iteration, attempt)
    policy, failures = node.retry or DEFAULT_POLICY, iteration.failures
    if may_retry(policy, failures):
        number = len(failures) + 1
        return f.RetryScheduled(
            attempt=number,
            of=policy.max_attempts,
            due_at=ended_at + backoff(policy, len(failures)),
            message=f"Attempt {number}/{policy.max_attempts} for iteration {iteration.number}",
        )
    other = _another(node, at, attempt.choice, ended_at)
    if failure.kind not in PROVIDERS_OWN or other is None:
        return failure
    rest = timedelta(seconds=(node.on_limit or DEFAULT_LIMITS).max_delay)
    until = None if failure.kind in FOR_A_PERSON else ended_at + rest
    return _changed(node, attempt, other, failure.message, until)


def choose(count: int, at: NodeState, now: datetime) -> int:
    """Which provider of a chain of so many makes the next attempt: the one that is at it, the first that
    can, or the one that can first."""
    resting = {known.choice: known.until for known in at.unavailable if _is_resting(known.until, now)}
    last = at.iteration.attempt if at.iteration else None
    if last is not None and last.choice < count and last.choice not in resting:
        return last.choice
    free = next((choice for choice in range(count) if choice not in resting), None)
    if free is not None:
        return free
    timed = [(until, choice) for choice, until in resting.items() if until is not None and choice < count]
    return min(timed)[1] if timed else 0


def _at_limit(node: StageNode, at: NodeState, iteration: IterationState, attempt: AttemptState) -> Turn:
    failure, ended_at = _ended(attempt)
    policy = node.on_limit or DEFAULT_LIMITS
    if policy.do == "fail":
        return failure
    until = _end_of_limit(policy, iteration.limited, failure, ended_at)
    other = _another(node, at, attempt.choice, ended_at) if policy.do == "next" else None
    if other is not None:
        return _changed(node, attempt, other, failure.message, until)
    others = [known.until for known in at.unavailable if known.until and known.choice != attempt.choice]
    due_at = min([until, *others]) if policy.do == "next" else until
    since = iteration.limited_since or ended_at
    provider = node.chosen(attempt.choice).type
    if (due_at - since).total_seconds() > policy.max_wait:
        return Question(
            "provider_limit",
            f"{provider} is at its limit until {until:%Y-%m-%d %H:%M} UTC ({failure.message}),"
            f" which is longer than the {policy.max_wait:g} s that may be waited. Try again now?",
        )
    return f.LimitMet(attempt.number, provider, attempt.choice, until, due_at, failure.message)


def _ended(attempt: AttemptState) -> tuple[Failure, datetime]:
    assert attempt.failure is not None
    assert attempt.ended_at is not None
    return attempt.failure, attempt.ended_at


def _end_of_limit(policy: LimitPolicy, met: int, failure: Failure, ended_at: datetime) -> datetime:
    """As the provider says, or by a delay that doubles. A time that is over already, or is met again and
    again, is believed less each time."""
    if failure.resets_at is None:
        seconds = min(policy.initial_delay * 2.0 ** min(met, 32), policy.max_delay)
        return ended_at + timedelta(seconds=seconds)
    least = min(2.0 ** min(met, 32), policy.max_delay)
    return max(failure.resets_at, ended_at + timedelta(seconds=least))


def _another(node: StageNode, at: NodeState, choice: int, now: datetime) -> int | None:
    """The first provider of the chain that can be asked now, other than this one."""
    resting = {known.choice for known in at.unavailable if _is_resting(known.until, now)}
    return next((i for i in range(len(node.chain)) if i != choice and i not in resting), None)


def _changed(
    node: StageNode, attempt: AttemptState, to: int, message: str, until: datetime | None
) -> f.ProviderChanged:
    return f.ProviderChanged(
        attempt=attempt.number,
        provider=node.chosen(attempt.choice).type,
        choice=attempt.choice,
        to=node.chain[to].type,
        to_choice=to,
        message=message,
        until=until,
    )


def _is_resting(until: datetime | None, now: datetime) -> bool:
    return until is None or until > now
