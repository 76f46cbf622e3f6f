"""What a terminal offers as answers, and what was typed."""

from typing import Any

import pytest
from tests.views.samples import NOON

from agentforge.model.request import Request, RequestKind
from agentforge.views.answers import choices, chosen


def asked(kind: RequestKind, *options: str, **more: Any) -> Request:
    return Request("r-1", kind, "k", "r", "Which?", options, NOON, **more)


APPROVAL = asked("approval", "approve", "reject", "abort")
ESCALATION = asked("escalation", "resume", "retry", "cancel")
LIMIT = asked("escalation", "resume", "retry", "cancel", grants="rounds")
DATABASE = asked("question", "postgres", "2", "a \x1b[2J")


@pytest.mark.parametrize(
    ("request_", "offered"),
    [
        (APPROVAL, ["a approve", "r reject", "x abort"]),
        (asked("checkpoint", "approve", "abort"), ["a approve", "x abort"]),
        (ESCALATION, ["1 resume", "2 retry", "3 cancel"]),
        (asked("pause", "continue", "abort"), ["c continue", "x abort"]),
        (asked("pause", "continue", "retry", "abort"), ["c continue", "t retry", "x abort"]),
        (LIMIT, ["a resume", "b retry", "c cancel"]),
        (DATABASE, ["1 postgres", "2 2", "3 a \ufffd[2J"]),
        (asked("question"), []),
    ],
)
def test_every_option_has_its_own_key(request_: Request, offered: list[str]) -> None:
    assert [f"{choice.key} {choice.text.partition(':')[0]}" for choice in choices(request_)] == offered


@pytest.mark.parametrize(
    ("request_", "typed", "answer"),
    [
        (APPROVAL, "a", "approve"),
        (APPROVAL, " Approve ".lower(), "approve"),
        (APPROVAL, "X", "abort"),
        (APPROVAL, "", None),
        (ESCALATION, "2", "retry"),
        (LIMIT, "2", "2"),
        (LIMIT, "b", "retry"),
        (LIMIT, "0", None),
        (DATABASE, "1", "postgres"),
        (DATABASE, "2", "2"),
        (DATABASE, "mysql", None),
        (asked("question"), " with a queue ", "with a queue"),
        (asked("question"), " ", None),
    ],
)
def test_typed_text_chooses_an_answer(request_: Request, typed: str, answer: str | None) -> None:
    assert chosen(request_, typed) == answer


def test_answers_to_a_verdict_say_what_follows() -> None:
    options = ("retry", "accept", "resume", "cancel")
    limit = Request("r-1", "escalation", "k", "cycle_limit", "Go back?", options, NOON, grants="cycles")
    assert [choice.text for choice in choices(limit)] == [
        "retry: go back once more",
        "accept: continue despite the verdict, for a reason that is recorded",
        "resume: run the checks again; the cycle counter is reset",
        "cancel: end the run; it can't be resumed",
    ]
    verdict = Request("r-1", "escalation", "k", "verdict", "Accept?", ("accept", "retry", "cancel"), NOON)
    assert "retry: run the stage again" in [choice.text for choice in choices(verdict)]
