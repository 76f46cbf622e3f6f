"""The exit statuses of all commands: one table."""

from collections.abc import Iterable, Mapping
from signal import Signals
from typing import TYPE_CHECKING

from agentforge.views import orchestration

if TYPE_CHECKING:
    from agentforge import RunResult

COMPLETED = 0
FAILED = 1
USAGE = 2
STAGE_TIMEOUT = 20
CYCLE_LIMIT = 21
PERSON_NEEDED = 22
CANCELLED = 23
SIGNAL = 128
"""Added to the signal's number."""

MEANINGS: Mapping[int, str] = {
    COMPLETED: "completed, or waiting as configured or requested",
    FAILED: "failed",
    USAGE: "usage or definition error",
    STAGE_TIMEOUT: "stopped by a stage timeout",
    CYCLE_LIMIT: "stopped at a cycle limit; needs an answer",
    PERSON_NEEDED: "needs an answer (question or other escalation)",
    CANCELLED: "cancelled",
    SIGNAL + Signals.SIGHUP: "stopped because the terminal was closed; can be resumed",
    SIGNAL + Signals.SIGINT: "stopped by Ctrl-C; can be resumed",
    SIGNAL + Signals.SIGTERM: "stopped by SIGTERM; can be resumed",
}

BY_ERROR: Mapping[str, int] = {
    "error": FAILED,
    "invalid_session": USAGE,
    "invalid_request": USAGE,
    "definition": USAGE,
    "unknown_run": USAGE,
    "unknown_provider": USAGE,
    "invalid_settings": USAGE,
    "unknown_request": USAGE,
    "foreign_request": USAGE,
    "invalid_answer": USAGE,
    "request_closed": FAILED,
    "already_answered": FAILED,
    "not_permitted": FAILED,
    "run_exists": FAILED,
    "untrusted_run": FAILED,
    "hook_missing": FAILED,
    "executor_missing": FAILED,
    "lock_contention": FAILED,
    "illegal_move": FAILED,
    "state_corrupt": FAILED,
    "log_conflict": FAILED,
    "log_too_new": FAILED,
    "log_too_old": FAILED,
    "storage_failed": FAILED,
    "unusable_file": FAILED,
    "provider_unusable": FAILED,
    "missing_key": FAILED,
}
"""Exit status by the stable code of every AgentForgeError."""

BY_CODE: Mapping[str, int] = {
    orchestration.STAGE_TIMEOUT: STAGE_TIMEOUT,
    orchestration.CYCLE_LIMIT: CYCLE_LIMIT,
    orchestration.CANCELLED: CANCELLED,
}
"""Of other orchestration codes, it depends on whether the run failed."""


def of_signal(signal: Signals) -> int:
    return SIGNAL + signal


def of_result(result: "RunResult", signal: Signals | None = None) -> int:
    """The exit status of a run that was driven here. `signal` is the signal that stopped it, or None."""
    if code := result.orchestration_code:
        # What a person has to do comes before how the run was stopped.
        return BY_CODE.get(code, FAILED if result.status.value == "failed" else PERSON_NEEDED)
    return COMPLETED if result.completed or signal is None else of_signal(signal)


def worst(codes: Iterable[int]) -> int:
    """The exit status for several runs: a signal outranks a failure, a failure everything else."""
    order = (143, 130, 129, FAILED, USAGE, STAGE_TIMEOUT, CYCLE_LIMIT, PERSON_NEEDED, CANCELLED, COMPLETED)
    return min(codes, key=order.index, default=COMPLETED)
