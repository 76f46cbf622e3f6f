"""What follows a failed attempt: a retry, a wait for a limit, the next provider, a question, an end."""

from datetime import datetime, timedelta

from msgspec import Struct

from agentforge.engine.decide.requests import Question
from agentforge.model import facts as f
from agentforge.model.failure import LIMITS, Failure, FailureKind
from agentforge.model.plan import LimitPolicy, RetryPolicy, StageNode
from agentforge.model.state import AttemptState, IterationState, StageState, Unavailable

DEFAULT_LIMITS = LimitPolicy()
LEAST_DELAY = 1.0
"""Of a limit that is over already, or is met again without a delay: agents aren't started in a tight loop."""

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


FailureRuling = f.RetryScheduled | f.LimitMet | f.ProviderChanged | Question | Failure


class Failed(Struct, frozen=True):
    """An attempt that failed, with all that a decision about it depends on."""

    node: StageNode
    at: StageState
    iteration: IterationState
    attempt: AttemptState
    remaining: float | None = None
    """The seconds that the runtime limit leaves, if there is one."""

    @property
    def failure(self) -> Failure:
        assert self.attempt.failure is not None
        return self.attempt.failure

    @property
    def ended_at(self) -> datetime:
        assert self.attempt.ended_at is not None
        return self.attempt.ended_at

    @property
    def on_limit(self) -> LimitPolicy:
        return self.node.on_limit or DEFAULT_LIMITS

    def another(self) -> int | None:
        """The first provider of the chain that can be asked now, other than this one."""
        resting = {known.choice for known in self.at.unavailable if _is_resting(known.until, self.ended_at)}
        chain = range(len(self.node.chain))
        return next((i for i in chain if i != self.attempt.choice and i not in resting), None)

    def changed(self, to: int, until: datetime | None, due_at: datetime | None = None) -> f.ProviderChanged:
        return f.ProviderChanged(
            attempt=self.attempt.number,
            provider=self.node.chosen(self.attempt.choice).type,
            choice=self.attempt.choice,
            to=self.node.chosen(to).type,
            to_choice=to,
            message=self.failure.message,
            until=until,
            due_at=due_at,
        )


def turn_after(failed: Failed) -> FailureRuling:
    if failed.failure.kind in LIMITS:
        return _at_limit(failed)
    node, iteration = failed.node, failed.iteration
    policy, failures = node.retry or DEFAULT_POLICY, iteration.failures
    if may_retry(policy, failures):
        number = len(failures) + 1
        return f.RetryScheduled(
            attempt=number,
            of=policy.max_attempts,
            due_at=failed.ended_at + backoff(policy, len(failures)),
            message=f"Attempt {number}/{policy.max_attempts} for iteration {iteration.number}",
        )
    if failed.failure.kind not in PROVIDERS_OWN or iteration.gave_way >= len(node.chain):
        return failed.failure
    return _give_way(failed)


def choose(count: int, at: StageState, now: datetime) -> int:
    """Which provider of a chain of so many makes the next attempt: the one that is at it, the first that
    can, or the one that can first."""
    last = at.iteration.attempt if at.iteration else None
    resting = {known.choice: known.until for known in at.unavailable if _is_resting(known.until, now)}
    if last is not None and last.choice < count and last.choice not in resting:
        return last.choice
    if not resting:
        return 0
    free = next((choice for choice in range(count) if choice not in resting), None)
    if free is not None:
        return free
    timed = [(until, choice) for choice, until in resting.items() if until is not None and choice < count]
    return min(timed)[1] if timed else 0


def _at_limit(failed: Failed) -> FailureRuling:
    policy, attempt, failure = failed.on_limit, failed.attempt, failed.failure
    if policy.do == "fail":
        return failure
    # A chain is asked in rounds.
    rounds = failed.iteration.limited // (len(failed.node.chain) if policy.do == "next" else 1)
    until = _end_of_limit(policy, rounds, failure, failed.ended_at)
    limit = Unavailable(attempt.choice, until, failure.message, limited=True)
    other = failed.another() if policy.do == "next" else None
    if other is not None:
        # Nothing is waited for, but providers mustn't hand their limits to each other for ever.
        return _too_long(failed, limit, failed.ended_at) or failed.changed(other, until)
    others = [known.until for known in failed.at.unavailable if known.choice != attempt.choice]
    due_at = min([until, *(end for end in others if end)]) if policy.do == "next" else until
    provider = failed.node.chosen(attempt.choice).type
    met = f.LimitMet(attempt.number, provider, attempt.choice, until, due_at, failure.message)
    return _too_long(failed, limit, due_at) or met


def _give_way(failed: Failed) -> FailureRuling:
    """To the next that can work, or else to the first whose limit ends."""
    rest = timedelta(seconds=failed.on_limit.max_delay)
    until = None if failed.failure.kind in FOR_A_PERSON else failed.ended_at + rest
    other = failed.another()
    if other is not None:
        return failed.changed(other, until)
    limits = [
        (known.until, known.choice, known)
        for known in failed.at.unavailable
        if known.limited and known.until and known.choice != failed.attempt.choice
    ]
    if not limits:
        return failed.failure
    due_at, choice, first = min(limits, key=lambda limit: limit[:2])
    return _too_long(failed, first, due_at) or failed.changed(choice, until, due_at)


def _too_long(failed: Failed, limit: Unavailable, due_at: datetime) -> Question | None:
    """A question, if so long mustn't be waited for the limit."""
    since = failed.iteration.limited_since or failed.ended_at
    most = failed.on_limit.max_wait
    what = (
        f"{failed.node.chosen(limit.choice).type} is at its limit until {limit.until:%Y-%m-%d %H:%M} UTC"
        f" ({limit.message})"
    )
    if (due_at - since).total_seconds() > most:
        return Question(
            "provider_limit",
            f"{what}, which exceeds max_wait ({most:g} s). Retry now?",
        )
    if failed.remaining is not None and (due_at - failed.ended_at).total_seconds() > failed.remaining:
        return Question(
            "runtime_limit",
            f"{what}, which exceeds what the runtime limit leaves. Grant the same again and retry now?",
        )
    return None


def _end_of_limit(policy: LimitPolicy, met: int, failure: Failure, ended_at: datetime) -> datetime:
    """As the provider says, or by a delay that doubles. A time that is over already, or is met again and
    again, is believed less each time."""
    most = policy.max_delay or LEAST_DELAY
    if failure.resets_at is None:
        first = policy.initial_delay or (LEAST_DELAY if met else 0.0)
        return ended_at + timedelta(seconds=min(first * 2.0 ** min(met, 32), most))
    least = min(LEAST_DELAY * 2.0 ** min(met, 32), most)
    return max(failure.resets_at, ended_at + timedelta(seconds=least))


def _is_resting(until: datetime | None, now: datetime) -> bool:
    return until is None or until > now


DEFAULT_POLICY = RetryPolicy()

# How many attempts a kind of failure is worth. What isn't listed is final at once; the policy's
# own maximum bounds the sum over all kinds.
ATTEMPTS_PER_KIND: dict[FailureKind, int] = {
    FailureKind.PROVIDER_TIMEOUT: 100,
    FailureKind.ITERATION_TIMEOUT: 100,
    FailureKind.JUDGE_FAILED: 100,
    FailureKind.PROVIDER_OVERLOADED: 100,
    FailureKind.PROVIDER_UNREACHABLE: 100,
    FailureKind.PROVIDER_CRASHED: 2,
    FailureKind.RESULT_MISSING: 2,
}


def may_retry(policy: RetryPolicy, failures: tuple[FailureKind, ...]) -> bool:
    """Whether another attempt is allowed after these failures, the last one included."""
    if not failures:
        return True
    last = failures[-1]
    return len(failures) < policy.max_attempts and failures.count(last) < ATTEMPTS_PER_KIND.get(last, 1)


def backoff(policy: RetryPolicy, failures: int) -> timedelta:
    """How long to wait before the attempt that follows so many failures."""
    seconds = policy.initial_delay * policy.multiplier ** (failures - 1)
    return timedelta(seconds=min(seconds, policy.max_delay))
