"""Decides what follows a failed attempt: retry, wait for a limit, next provider, question, or failure.

Which failures are retried, by another attempt or by another try of the stage, is in the tables at the top.
There are no others.
"""

from datetime import datetime, timedelta

from msgspec import Struct

from agentforge.engine.decide.requests import Question
from agentforge.model import facts as f
from agentforge.model.failure import LIMITS, Failure, FailureKind
from agentforge.model.plan import LimitPolicy, RetryPolicy, StageNode
from agentforge.model.request import CANCEL, RESUME, RETRY
from agentforge.model.state import AttemptState, IterationState, StageState, Unavailable

# Theory of operation
#
# Limits, failures and providers are three things, bounded separately. A limit (quota or rate) isn't a
# failure: waiting resolves it, and if it counted as an attempt, a busy afternoon would use up the retries
# of a run. What bounds it is `max_wait`, then a person. A failure is bounded by the policy and by its
# kind, as few kinds go away by themselves: each attempt costs money. When they are used up, the next
# provider of the chain may not have the failure; providers are bounded by the length of the chain, so
# that two that are down don't pass an iteration to each other.
#
# Each decision is recorded with the time at which it is due, computed from the end of the failed attempt.
# An engine that takes over waits for the same moment; one that computed it from its own start would wait
# twice after each crash.

DEFAULT_POLICY = RetryPolicy()
MAX_CAUSES = 100

# The maximum attempts per kind of failure. Kinds that aren't listed are not transient and never retried by an
# attempt; the policy's `max_attempts` bounds the total.
ATTEMPTS_PER_KIND: dict[FailureKind, int] = {
    FailureKind.PROVIDER_TIMEOUT: 100,
    FailureKind.ITERATION_TIMEOUT: 100,
    FailureKind.JUDGE_FAILED: 100,
    FailureKind.PROVIDER_OVERLOADED: 100,
    FailureKind.PROVIDER_UNREACHABLE: 100,
    FailureKind.EXECUTOR_FAILED: 100,
    FailureKind.PROVIDER_CRASHED: 2,
    FailureKind.RESULT_MISSING: 2,
}

STAGE_FAILURES = frozenset(ATTEMPTS_PER_KIND) | {
    FailureKind.RESULT_INVALID,
    FailureKind.ARTIFACT_INVALID,
    FailureKind.OUTPUT_UNREADABLE,
    FailureKind.AGENT_LIMIT,
    FailureKind.AGENT_ERROR,
    FailureKind.CHECK_ERROR,
}
"""Those that another try of the stage may not have: the agent failed, not what it needs, or something outside
disturbed a check."""

DECIDED = frozenset(
    {
        FailureKind.CHECKS_FAILED,
        FailureKind.REJECTED,
        FailureKind.HOOK_FAILED,
        FailureKind.DELIVERY_FAILED,
    }
)
"""Those that fail the run because a route or a hook says so, or at its delivery: retries have no part in
them."""
EXHAUSTED = "retries_exhausted"

DEFAULT_LIMITS = LimitPolicy()
MIN_LIMIT_DELAY = 1.0
"""Minimum delay for limits without one, so that agents aren't restarted in a tight loop."""

PROVIDER_FAILURES = frozenset(
    {
        FailureKind.PROVIDER_MISSING,
        FailureKind.PROVIDER_AUTH,
        FailureKind.PROVIDER_CRASHED,
        FailureKind.PROVIDER_TIMEOUT,
        FailureKind.PROVIDER_OVERLOADED,
        FailureKind.PROVIDER_UNREACHABLE,
        FailureKind.OUTPUT_UNREADABLE,
    }
)
"""Failures that another provider may not have."""

NEEDS_PERSON = frozenset({FailureKind.PROVIDER_MISSING, FailureKind.PROVIDER_AUTH})
"""Those that waiting doesn't resolve."""


FailureRuling = f.RetryScheduled | f.StageRetried | f.LimitMet | f.ProviderChanged | Question | Failure


class FailedAttempt(Struct, frozen=True):
    """A failed attempt, with everything that the decision depends on."""

    node: StageNode
    at: StageState
    iteration: IterationState
    attempt: AttemptState
    remaining: float | None = None
    """Seconds left under the runtime limit, or None without a limit."""

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

    def next_provider(self) -> int | None:
        """The first other provider of the chain that is available now, or None."""
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


def decide_after_failure(failed: FailedAttempt) -> FailureRuling:
    if failed.failure.kind in LIMITS:
        return _at_limit(failed)
    node, iteration = failed.node, failed.iteration
    policy, failures = node.retry or DEFAULT_POLICY, iteration.failures
    allowed = attempts_allowed(policy, failures, node.artifact.heal if node.artifact else 0)
    if len(failures) < allowed:
        number = len(failures) + 1
        return f.RetryScheduled(
            attempt=number,
            of=allowed,
            due_at=failed.ended_at + _delay(failed, policy),
            message=f"Attempt {number}/{allowed} for iteration {iteration.number}",
        )
    if failed.failure.kind not in PROVIDER_FAILURES or iteration.gave_way >= len(node.chain):
        return failed.failure
    return _fall_back(failed)


def decide_after_stage_failure(failed: FailedAttempt) -> f.StageRetried | None:
    """Another try of the stage, from the iteration that failed; or None if none is left. The failures of
    attempts still count, so that each try is one more attempt."""
    failures = max(1, len(failed.iteration.failures))
    return stage_retried(failed.node, failed.at, failed.failure, failed.ended_at, failures)


def stage_retried(
    node: StageNode, at: StageState, failure: Failure, ended_at: datetime, failures: int = 0
) -> f.StageRetried | None:
    """`failures`: of attempts; without any, the tries of the stage are what delays grow with."""
    policy, number = node.retry or DEFAULT_POLICY, at.stage_retries + 1
    if number > policy.stage or failure.kind not in STAGE_FAILURES:
        return None
    due_at = ended_at + backoff(policy, failures or number)
    return f.StageRetried(number, policy.stage, due_at, failure.kind, failure.message, failures)


def exhausted(node: StageNode, at: StageState, failure: Failure) -> Question | None:
    """The question that is asked instead of failing the stage, if its retry policy says so."""
    if (node.retry or DEFAULT_POLICY).exhausted == "fail" or failure.kind in DECIDED:
        return None
    iteration = at.iteration
    item = f" at item {iteration.item!r}" if iteration and iteration.item else ""
    tries = f" {len(iteration.failures)} times" if iteration and len(iteration.failures) > 1 else ""
    again = (
        f" ({at.stage_retries} of {node.retry.stage} retries of the stage)"
        if at.stage_retries and node.retry
        else ""
    )
    text = f"stage {node.id!r} failed{tries}{item}{again}: {failure.message.rstrip('. ')}. "
    text += f"Fix the cause and continue with new retries ({RESUME}), try once more ({RETRY}),"
    return Question(EXHAUSTED, f"{text} or cancel the run ({CANCEL})?", subject=failure.kind.value)


def choose_in_chain(count: int, at: StageState, now: datetime) -> int:
    """The provider for the next attempt, from a chain of `count`: the current one, the first available one,
    or the one that becomes available first."""
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


def _at_limit(failed: FailedAttempt) -> FailureRuling:
    policy, attempt, failure = failed.on_limit, failed.attempt, failed.failure
    if policy.do == "fail":
        return failure
    # Each round asks every provider of the chain once.
    rounds = failed.iteration.limited // (len(failed.node.chain) if policy.do == "next" else 1)
    until = _end_of_limit(policy, rounds, failure, failed.ended_at)
    limit = Unavailable(attempt.choice, until, failure.message)
    other = failed.next_provider() if policy.do == "next" else None
    if other is not None:
        # No wait is needed, but providers must not hand over to each other forever.
        return _too_long(failed, limit, failed.ended_at) or failed.changed(other, until)
    others = [known.until for known in failed.at.unavailable if known.choice != attempt.choice]
    due_at = min([until, *(end for end in others if end)]) if policy.do == "next" else until
    provider = failed.node.chosen(attempt.choice).type
    met = f.LimitMet(attempt.number, provider, attempt.choice, until, due_at, failure.message)
    return _too_long(failed, limit, due_at) or met


def _fall_back(failed: FailedAttempt) -> FailureRuling:
    """Fall back to the next available provider, else to the first whose limit resets."""
    rest = timedelta(seconds=failed.on_limit.max_delay)
    until = None if failed.failure.kind in NEEDS_PERSON else failed.ended_at + rest
    other = failed.next_provider()
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


def _too_long(failed: FailedAttempt, limit: Unavailable, due_at: datetime) -> Question | None:
    """A question if the wait would exceed `max_wait` or the runtime limit, else None."""
    since = failed.iteration.limited_since or failed.ended_at
    max_wait = failed.on_limit.max_wait
    what = (
        f"{failed.node.chosen(limit.choice).type} is at its limit until {limit.until:%Y-%m-%d %H:%M} UTC"
        f" ({limit.message})"
    )
    if (due_at - since).total_seconds() > max_wait:
        return Question(
            "provider_limit",
            f"{what}, which exceeds max_wait ({max_wait:g} s). Retry now?",
        )
    if failed.remaining is not None and (due_at - failed.ended_at).total_seconds() > failed.remaining:
        return Question(
            "runtime_limit",
            f"{what}, which exceeds the remaining runtime. Extend the runtime limit and retry now?",
        )
    return None


def _end_of_limit(policy: LimitPolicy, met: int, failure: Failure, ended_at: datetime) -> datetime:
    """The provider's reset time, or a delay that doubles. The minimum delay doubles, too, in case the
    reported time is wrong."""
    longest = policy.max_delay or MIN_LIMIT_DELAY
    if failure.resets_at is None:
        first = policy.initial_delay or (MIN_LIMIT_DELAY if met else 0.0)
        return ended_at + timedelta(seconds=min(first * 2.0 ** min(met, 32), longest))
    shortest = min(MIN_LIMIT_DELAY * 2.0 ** min(met, 32), longest)
    return max(failure.resets_at, ended_at + timedelta(seconds=shortest))


def _is_resting(until: datetime | None, now: datetime) -> bool:
    return until is None or until > now


# -- how often, and why


def attempts_allowed(policy: RetryPolicy, failures: tuple[FailureKind, ...], heal: int = 0) -> int:
    """How many attempts there are in total, if further ones fail like the last one. `heal`: how many of them
    may correct an artifact. The policy doesn't bound these, as they don't repeat the work; where it is for
    any failure, they are among its attempts."""
    if not failures:
        return policy.max_attempts
    last, count = failures[-1], len(failures)
    if policy.retried == "any" and last in STAGE_FAILURES:
        return max(policy.max_attempts, 1 + heal if last is FailureKind.ARTIFACT_INVALID else 0)
    if last is FailureKind.ARTIFACT_INVALID:
        return count + (failures.count(last) <= heal)
    further = ATTEMPTS_PER_KIND.get(last, 1) - failures.count(last)
    return min(policy.max_attempts, count + max(0, further))


def _delay(failed: FailedAttempt, policy: RetryPolicy) -> timedelta:
    # A wrong artifact is corrected at once: nothing has to recover first.
    if failed.failure.kind is FailureKind.ARTIFACT_INVALID:
        return timedelta()
    return backoff(policy, len(failed.iteration.failures))


def backoff(policy: RetryPolicy, failures: int) -> timedelta:
    """The delay before the attempt that follows this number of failures."""
    seconds = policy.initial_delay * policy.multiplier ** (failures - 1)
    return timedelta(seconds=min(seconds, policy.max_delay))


def kind_of(error: BaseException) -> FailureKind:
    """What kind of failure an exception of a provider is: a transient cause inside it counts."""
    causes = _causes(error)
    if any(isinstance(cause, TimeoutError) for cause in causes):
        return FailureKind.PROVIDER_TIMEOUT
    if any(isinstance(cause, ConnectionError) for cause in causes):
        return FailureKind.PROVIDER_UNREACHABLE
    return FailureKind.PROVIDER_CRASHED


def _causes(error: BaseException) -> list[BaseException]:
    """The exception, and those that it contains or was raised from; they may refer to each other."""
    found = [error]
    for each in found:
        inner = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        hidden = None if each.__suppress_context__ else each.__context__
        for cause in (*inner, each.__cause__, hidden):
            if cause is not None and len(found) < MAX_CAUSES and all(cause is not known for known in found):
                found.append(cause)
    return found
