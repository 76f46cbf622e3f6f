"""Which failures are retried: by another attempt, or by another try of the stage. The only such table."""

from datetime import timedelta

from agentforge.model.failure import FailureKind
from agentforge.model.plan import RetryPolicy

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
    FailureKind.PROVIDER_CRASHED: 2,
    FailureKind.RESULT_MISSING: 2,
}

STAGE_FAILURES = frozenset(ATTEMPTS_PER_KIND) | {
    FailureKind.RESULT_INVALID,
    FailureKind.OUTPUT_UNREADABLE,
    FailureKind.AGENT_LIMIT,
    FailureKind.AGENT_ERROR,
}
"""Those that another try of the stage may not have: the agent failed, not what it needs."""


def attempts_allowed(policy: RetryPolicy, failures: tuple[FailureKind, ...]) -> int:
    """How many attempts there are in total, if further ones fail like the last one."""
    if not failures:
        return policy.max_attempts
    last = failures[-1]
    further = ATTEMPTS_PER_KIND.get(last, 1) - failures.count(last)
    return min(policy.max_attempts, len(failures) + max(0, further))


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
