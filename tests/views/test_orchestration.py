"""The seven codes for why a run stopped."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from agentforge.model import errors
from agentforge.model.failure import FailureKind
from agentforge.model.request import Request, RequestKind
from agentforge.model.status import RunStatus
from agentforge.views.orchestration import BY_ERROR, MEANINGS, orchestration_code
from agentforge.views.results import RunResult

PAGE = Path(__file__).resolve().parents[2] / "docs/runs.md"


def asks(reason: str, kind: RequestKind = "escalation", subject: str = "") -> Request:
    now = datetime(2026, 1, 15, tzinfo=UTC)
    return replace(Request("r-1", kind, reason, reason, "Retry?", ("resume",), now), subject=subject)


@pytest.mark.parametrize(
    ("status", "failure", "requests", "number"),
    [
        (RunStatus.RUNNING, None, (), None),
        (RunStatus.COMPLETED, None, (), None),
        (RunStatus.PAUSED, None, (), None),
        (RunStatus.AWAITING_APPROVAL, None, (asks("approval", "approval"),), None),
        (RunStatus.PAUSED, None, (asks("hook_pause", "pause"),), None),
        (RunStatus.FAILED, "agent_error", (), 1),
        (RunStatus.FAILED, None, (), 1),
        (RunStatus.FAILED, "iteration_timeout", (), 2),
        (RunStatus.FAILED, "context_too_large", (), 5),
        (RunStatus.PAUSED, None, (asks("retries_exhausted", subject="provider_timeout"),), 2),
        (RunStatus.PAUSED, None, (asks("cycle_limit"),), 3),
        (RunStatus.PAUSED, None, (asks("runtime_limit"), asks("cycle_limit")), 3),
        (RunStatus.PAUSED, None, (asks("retries_exhausted", subject="agent_error"),), 4),
        (RunStatus.AWAITING_APPROVAL, None, (asks("question", "question"),), 4),
        (RunStatus.PAUSED, None, (asks("retries_exhausted", subject="context_too_large"),), 5),
        (RunStatus.ABORTED, None, (), 7),
    ],
)
def test_code_of_a_run(
    status: RunStatus, failure: str | None, requests: tuple[Request, ...], number: int | None
) -> None:
    code = f"ACODE-ORCH-{number:03d}" if number else None
    assert orchestration_code(status, failure, requests) == code
    assert RunResult("s", status, "", 1, "/r", None, failure, requests).orchestration_code == code


def test_failures_and_errors_of_the_table_exist() -> None:
    assert {orchestration_code(RunStatus.FAILED, kind, ()) for kind in FailureKind} == {
        f"ACODE-ORCH-{number:03d}" for number in (1, 2, 5)
    }
    assert set(BY_ERROR) <= {kind.code for kind in vars(errors).values() if hasattr(kind, "code")}
    assert set(BY_ERROR.values()) == {"ACODE-ORCH-006"}


def test_the_page_lists_all_codes() -> None:
    rows = dict(re.findall(r"^\| `(ACODE-ORCH-\d+)` \| ([^|]+?) \|", PAGE.read_text(), re.MULTILINE))
    assert rows == MEANINGS
