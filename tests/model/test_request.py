"""What a request accepts, and what a resume of its run answers."""

from datetime import UTC, datetime, timedelta

import pytest

from agentforge.model.request import Request, RequestKind

NOON = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("kind", "options", "answer"),
    [
        ("escalation", ("resume", "retry", "cancel"), "resume"),
        ("escalation", ("retry", "cancel"), None),
        ("pause", ("continue", "retry", "abort"), "continue"),
        ("pause", ("retry", "abort"), None),
        ("approval", ("approve", "reject", "abort"), None),
        ("question", ("resume", "continue"), None),
    ],
)
def test_resume_answers_what_only_stops_the_run(
    kind: RequestKind, options: tuple[str, ...], answer: str | None
) -> None:
    assert Request("r-1", kind, "k", "r", "Which?", options, NOON).resumes_with == answer


def test_resume_leaves_a_request_to_its_default_if_its_time_is_over() -> None:
    late = Request("r-1", "pause", "k", "r", "?", ("continue", "abort"), NOON, default="abort", overdue=True)
    assert late.resumes_with is None


@pytest.mark.parametrize(
    ("default", "due_at", "overdue", "is_due"),
    [
        ("abort", NOON, False, True),
        ("abort", NOON + timedelta(seconds=1), False, False),
        ("abort", None, False, False),
        ("abort", None, True, True),
        (None, NOON, False, False),
    ],
)
def test_a_default_is_the_answer_when_the_time_is_over(
    default: str | None, due_at: datetime | None, overdue: bool, is_due: bool
) -> None:
    request = Request(
        "r-1", "question", "k", "r", "?", ("abort",), NOON, due_at=due_at, default=default, overdue=overdue
    )
    assert request.is_due(NOON) == is_due
