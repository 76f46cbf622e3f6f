"""The retry policy: which failures are tried again, how often, and when."""

from datetime import timedelta

from agentforge.model.failure import FailureKind
from agentforge.model.plan import RetryPolicy

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
