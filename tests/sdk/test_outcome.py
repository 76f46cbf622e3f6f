"""What `RunResult.outcome` says to people, beside `reason`, which is what the log has."""

from datetime import UTC, datetime

import pytest

from agentforge import RunResult
from agentforge.model.request import Request
from agentforge.model.status import RunStatus

ASKED = Request("r-1", "question", "k", "question", "Which\none?", (), datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("status", "reason", "outcome"),
    [
        ("completed", "all_loops_complete", "completed: reached the end of the pipeline"),
        ("completed", "Completed 3 iterations (max: 3)", "completed 3 iterations (max: 3)"),
        ("paused", "provider_limit", "paused: a provider's limit resets too late"),
        ("aborted", "requested", "cancelled: on request"),
        ("awaiting_approval", "awaiting_approval", "waiting for an answer"),
    ],
)
def test_outcome_is_text_for_people(status: str, reason: str, outcome: str) -> None:
    assert RunResult("auth", RunStatus(status), reason, 3, "/run").outcome == outcome


def test_outcome_has_the_error_or_the_question() -> None:
    failed = RunResult("auth", RunStatus.FAILED, "boom", 0, "/run", "boom", "provider_crashed")
    assert failed.outcome == "failed: provider_crashed: boom"
    waits = RunResult("auth", RunStatus.AWAITING_APPROVAL, "awaiting_approval", 1, "/run", requests=(ASKED,))
    assert waits.outcome == "waiting for an answer: Which one?"
