"""What is asked, who answers, since when, and the commands that answer."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.views.samples import NOON

from agentforge.model.request import Request, RequestKind
from agentforge.model.spending import SPENDING_CAP
from agentforge.views.answers import answer_commands, inspect_command, labelled_commands
from agentforge.views.lines.requests import question_text, request_lines, waits_text

OPTIONS: dict[RequestKind, tuple[str, ...]] = {
    "approval": ("approve", "reject", "abort"),
    "checkpoint": ("approve", "abort"),
    "escalation": ("resume", "retry", "cancel"),
    "pause": ("continue", "abort"),
}


def request(kind: RequestKind, **more: Any) -> Request:
    options = more.pop("options", OPTIONS.get(kind, ()))
    return Request(f"{kind}-7", kind, "k", kind, "Ship\nit?", options, NOON, **more)


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (request("approval"), "Ship it? [approve, reject, abort]"),
        (request("question"), "Ship it? [any text]"),
        (request("question", options=("a \x1b[2J", "b")), "Ship it? [a \ufffd[2J, b]"),
        (request("escalation", grants="rounds"), "Ship it? [resume, retry, cancel, or a number of rounds]"),
        (request("escalation", options=("retry", "succeeded", "resume")), "Ship it? [retry, succeeded]"),
    ],
)
def test_question_names_the_answers_that_are_accepted(asked: Request, text: str) -> None:
    assert question_text(asked) == text


@pytest.mark.parametrize(
    ("asked", "commands"),
    [
        (request("approval"), ["forge approve auth", "forge reject auth -f TEXT"]),
        (request("checkpoint"), ["forge approve auth", "forge reject auth --abort"]),
        (request("escalation"), ["forge answer auth resume"]),
        (request("pause"), ["forge approve auth", "forge reject auth --abort"]),
        (
            request("pause", options=("continue", "retry", "abort")),
            ["forge approve auth", "forge answer auth retry", "forge reject auth --abort"],
        ),
        (
            request("escalation", options=("accept", "retry", "cancel")),
            ["forge answer auth retry", "forge answer --reason TEXT auth accept"],
        ),
        (request("question", options=("accept", "refuse")), ["forge answer auth accept"]),
        (request("question"), ["forge answer auth TEXT"]),
        (request("question", options=("it's $HOME",)), ["forge answer auth 'it'\"'\"'s $HOME'"]),
    ],
)
def test_command_of_each_kind_can_be_pasted(asked: Request, commands: list[str]) -> None:
    assert answer_commands("auth", [asked], "forge") == commands
    assert request_lines("auth", [asked], "forge") == [(question_text(asked), commands[0])]


def test_run_at_its_cap_is_allowed_more_or_its_agent_tries_once_more() -> None:
    asked = replace(
        request("escalation", options=("resume", "cancel"), grants="cost_usd"), reason=SPENDING_CAP
    )
    assert question_text(asked) == "Ship it? [resume, cancel, or a number of US dollars]"
    assert answer_commands("auth", [asked], "forge") == ["forge answer auth AMOUNT"]
    again = replace(asked, options=("retry", "resume", "cancel"))
    assert answer_commands("auth", [again], "forge") == ["forge answer auth retry"]


@pytest.mark.parametrize(
    ("asked", "labels"),
    [
        (request("approval"), ["Approve", "Reject"]),
        (request("checkpoint"), ["Approve", "Abort"]),
        (request("pause", options=("continue", "retry", "abort")), ["Continue", "Retry", "Abort"]),
        (request("escalation"), ["Answer"]),
        (request("question"), ["Answer"]),
    ],
)
def test_commands_are_labelled_with_what_they_do(asked: Request, labels: list[str]) -> None:
    assert [label for label, _ in labelled_commands("auth", asked, "forge", only=True)] == labels


def test_commands_name_the_request_if_several_are_open() -> None:
    assert answer_commands("auth", [request("approval"), request("question")], "forge") == [
        "forge approve --request approval-7 auth",
        "forge reject --request approval-7 auth -f TEXT",
        "forge answer --request question-7 auth TEXT",
    ]


def test_session_that_begins_with_a_dash_is_not_an_option() -> None:
    assert answer_commands("-x", [request("approval")], "forge") == [
        "forge approve -- -x",
        "forge reject -f TEXT -- -x",
    ]
    assert inspect_command("-x", [request("approval")], "forge") == "forge inbox show -- -x"
    assert inspect_command("auth", [], "forge") is None


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (request("approval"), "a person; asked 5m ago"),
        (request("approval", answerers=("person", "agent")), "a person or an agent; asked 5m ago"),
        (request("approval", due_at=NOON + timedelta(hours=2)), "a person; asked 5m ago; due in 1h 55m"),
        (
            request("approval", due_at=NOON + timedelta(hours=2), default="approve"),
            "a person; asked 5m ago; due in 1h 55m, then approve",
        ),
        (
            request("approval", due_at=NOON + timedelta(minutes=1), default="abort"),
            "a person; asked 5m ago; due 4m ago: abort when it continues",
        ),
    ],
)
def test_text_says_who_answers_since_when_and_until_when(asked: Request, text: str) -> None:
    assert waits_text(asked, NOON + timedelta(minutes=5)) == text
