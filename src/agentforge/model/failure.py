"""Why work or an engine failed, as data."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct


class FailureKind(StrEnum):
    PROVIDER_TIMEOUT = "provider_timeout"
    PROVIDER_CRASHED = "provider_crashed"
    PROVIDER_MISSING = "provider_missing"
    RESULT_INVALID = "result_invalid"
    RESULT_MISSING = "result_missing"
    ARTIFACT_INVALID = "artifact_invalid"
    """The artifact is missing, or doesn't match its schema."""
    ARTIFACT_UNUSABLE = "artifact_unusable"
    """An earlier artifact lacks what the stage needs, or was changed since it was accepted."""
    CONTEXT_TOO_LARGE = "context_too_large"
    """What the agent must be given doesn't fit into its budget of tokens."""
    LOCK_CONTENTION = "lock_contention"
    STATE_CORRUPT = "state_corrupt"
    SIGNAL_INTERRUPT = "signal_interrupt"
    ITERATION_TIMEOUT = "iteration_timeout"
    JUDGE_FAILED = "judge_failed"
    PROVIDER_AUTH = "provider_auth"
    """Not logged in, or the key was rejected."""
    PROVIDER_QUOTA = "provider_quota"
    """The quota is used up until `resets_at`."""
    PROVIDER_RATE_LIMITED = "provider_rate_limited"
    PROVIDER_OVERLOADED = "provider_overloaded"
    PROVIDER_UNREACHABLE = "provider_unreachable"
    PERMISSION_DENIED = "permission_denied"
    """The agent was denied tools that it needed."""
    AGENT_LIMIT = "agent_limit"
    """The agent stopped at its own limit, such as turns or a budget."""
    CAP_REACHED = "cap_reached"
    """The agent was stopped, or stopped by itself, at the budget that it was given."""
    AGENT_ERROR = "agent_error"
    """The agent itself reported `decision: error`."""
    EXECUTOR_FAILED = "executor_failed"
    """The Python class that executes the stage raised an exception."""
    PROMPT_UNREADABLE = "prompt_unreadable"
    QUEUE_UNREADABLE = "queue_unreadable"
    PARALLEL_BLOCK_FAILED = "parallel_block_failed"
    OUTPUT_UNREADABLE = "output_unreadable"
    """The agent's output couldn't be interpreted in time."""
    CHECKS_FAILED = "checks_failed"
    """The stage is over, and its checks fail."""
    REJECTED = "rejected"
    """The stage is over with a verdict that no route follows."""
    CHECK_ERROR = "check_error"
    """A check says nothing about the work: it can't be started or read."""
    FILES_UNUSABLE = "files_unusable"
    """Files can't be frozen or restored."""
    HOOK_FAILED = "hook_failed"
    """A hook failed or timed out, and the run is to fail then."""
    DELIVERY_FAILED = "delivery_failed"
    """What the run changed couldn't be delivered."""
    NOT_RECORDED = "not_recorded"
    """The replayed cassette has no matching exchange."""


MAX_MESSAGE_CHARS = 8192
"""What is kept of a message that a provider or an agent gave."""


def short_message(text: str, limit: int = MAX_MESSAGE_CHARS) -> str:
    """The beginning of a text that a provider or an agent chose, as the log can hold it."""
    kept = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return kept.encode("utf-8", "replace").decode()


class Failure(Struct, frozen=True):
    kind: FailureKind
    message: str
    exit_code: int | None = None
    resets_at: datetime | None = None
    """When the quota or rate limit resets, if known."""


TIMEOUTS = frozenset({FailureKind.PROVIDER_TIMEOUT, FailureKind.ITERATION_TIMEOUT})
"""The time limit of a stage ended its last attempt."""

LIMITS = frozenset({FailureKind.PROVIDER_QUOTA, FailureKind.PROVIDER_RATE_LIMITED})
"""Failures that waiting resolves."""


class StopReason(Struct, frozen=True, omit_defaults=True):
    """Why the engine of a run in the background stopped without recording the end of the run."""

    session: str
    at: Annotated[datetime, Meta(tz=True)]
    code: str
    """The code of the error."""
    message: str
    hint: str = ""
