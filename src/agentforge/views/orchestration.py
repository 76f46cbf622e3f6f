"""Why a run failed, was cancelled or needs a person, as one of seven codes: for programs that decide by them.
docs/runs.md lists them."""

from collections.abc import Iterable, Iterator, Mapping

from agentforge.engine.decide.failure import EXHAUSTED
from agentforge.model.failure import TIMEOUTS, FailureKind
from agentforge.model.request import Request
from agentforge.model.status import RunStatus

STAGE_FAILED = "ACODE-ORCH-001"
STAGE_TIMEOUT = "ACODE-ORCH-002"
CYCLE_LIMIT = "ACODE-ORCH-003"
ESCALATED = "ACODE-ORCH-004"
OVER_BUDGET = "ACODE-ORCH-005"
REFUSED = "ACODE-ORCH-006"
CANCELLED = "ACODE-ORCH-007"

MEANINGS: Mapping[str, str] = {
    STAGE_FAILED: "a stage failed",
    STAGE_TIMEOUT: "a stage timed out",
    CYCLE_LIMIT: "reached the maximum number of cycles",
    ESCALATED: "needs an answer (question or other escalation)",
    OVER_BUDGET: "the context of a stage exceeds its token budget",
    REFUSED: "a transition or a write was refused",
    CANCELLED: "cancelled",
}
BY_FAILURE: Mapping[str, str] = {
    **dict.fromkeys(TIMEOUTS, STAGE_TIMEOUT),
    FailureKind.CONTEXT_TOO_LARGE: OVER_BUDGET,
}
"""Of other kinds of failures, it is that the stage failed."""
BY_ERROR: Mapping[str, str] = {
    "illegal_move": REFUSED,
    "log_conflict": REFUSED,
    "storage_failed": REFUSED,
}
"""By the stable code of an AgentForgeError; others have none."""
AS_ASKED = frozenset({"approval", "checkpoint", "pause"})
"""Kinds of requests that the pipeline or the user asked for: they have no code."""
CYCLES = "cycle_limit"
"""The reason of a request at the limit of cycles."""
_FIRST = (STAGE_TIMEOUT, CYCLE_LIMIT, OVER_BUDGET, ESCALATED)


def orchestration_code(status: RunStatus, failure: str | None, requests: Iterable[Request]) -> str | None:
    """None: the run is in progress, completed, or stopped as it was asked to. `failure`: the kind of the
    failure of a failed run; `requests`: the open ones."""
    match status:
        case RunStatus.FAILED:
            return BY_FAILURE.get(failure or "", STAGE_FAILED)
        case RunStatus.ABORTED:
            return CANCELLED
        case RunStatus.PAUSED | RunStatus.AWAITING_APPROVAL:
            return min(_asked(requests), key=_FIRST.index, default=None)
        case _:
            return None


def _asked(requests: Iterable[Request]) -> Iterator[str]:
    for request in requests:
        if request.reason == CYCLES:
            yield CYCLE_LIMIT
        elif request.reason == EXHAUSTED:  # Its subject is the kind of the failure.
            yield BY_FAILURE.get(request.subject, ESCALATED)
        elif request.kind not in AS_ASKED:
            yield ESCALATED
