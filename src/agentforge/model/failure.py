"""Why work failed, as data."""

from enum import StrEnum

from msgspec import Struct


class FailureKind(StrEnum):
    PROVIDER_TIMEOUT = "provider_timeout"
    PROVIDER_CRASHED = "provider_crashed"
    PROVIDER_MISSING = "provider_missing"
    RESULT_INVALID = "result_invalid"
    RESULT_MISSING = "result_missing"
    LOCK_CONTENTION = "lock_contention"
    STATE_CORRUPT = "state_corrupt"
    SIGNAL_INTERRUPT = "signal_interrupt"
    ITERATION_TIMEOUT = "iteration_timeout"
    JUDGE_FAILED = "judge_failed"
    AGENT_ERROR = "agent_error"
    """The agent itself reported `decision: error`."""
    PROMPT_UNREADABLE = "prompt_unreadable"
    QUEUE_UNREADABLE = "queue_unreadable"
    PARALLEL_BLOCK_FAILED = "parallel_block_failed"


class Failure(Struct, frozen=True):
    kind: FailureKind
    message: str
    exit_code: int | None = None
