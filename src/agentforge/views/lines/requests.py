"""Text of requests: what is asked, who answers, since when; and of their events, in `tail` and live."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, assert_never

from agentforge.model import facts as f
from agentforge.model.request import RESUME, SUCCEEDED, Request
from agentforge.views.request_commands import answer_command
from agentforge.views.text import age, one_line, span

QUESTION_CHARS = 400
OPTION_CHARS = 60


def request_lines(session: str, requests: Sequence[Request], program: str) -> list[tuple[str, str]]:
    """Each question with its options, and the command that answers it."""
    only = len(requests) == 1
    return [
        (question_text(request), answer_command(session, request, program, only=only)) for request in requests
    ]


def question_text(request: Request) -> str:
    return f"{one_line(request.question, QUESTION_CHARS)} [{options_text(request)}]"


def _shown_options(options: Sequence[str]) -> list[str]:
    """Where an attempt can be marked as done, `resume` means the same as `retry`."""
    return [option for option in options if option != RESUME or SUCCEEDED not in options]


def options_text(request: Request) -> str:
    if request.takes_text:
        return "any text"
    options = [one_line(option, OPTION_CHARS) for option in _shown_options(request.options)]
    return ", ".join([*options, *([f"or a number of {request.grants}"] if request.grants else [])])


def answerers_text(request: Request) -> str:
    return " or ".join(f"{'an' if who == 'agent' else 'a'} {who}" for who in request.answerers)


def waits_text(request: Request, now: datetime) -> str:
    """`a person; asked 5m ago; due in 2h 05m, then approve`"""
    asked = f"{answerers_text(request)}; asked {age((now - request.opened_at).total_seconds())}"
    return f"{asked}; {_due(request, request.due_at, now)}" if request.due_at else asked


def _due(request: Request, due_at: datetime, now: datetime) -> str:
    left = (due_at - now).total_seconds()
    when = f"due in {span(left)}" if left > 0 else f"due {age(-left)}"
    if request.default is None:
        return when
    answer = one_line(request.default, OPTION_CHARS)
    return f"{when}, then {answer}" if left > 0 else f"{when}: {answer} when it continues"


ANSWER_CHARS = 80
TEXT_CHARS = 160
MESSAGE_CHARS = 400

RequestFact = (
    f.RequestOpened
    | f.RequestAnswered
    | f.RequestResolved
    | f.CheckpointCleared
    | f.RestartRequested
    | f.NodeRestarted
    | f.NoteAdded
)


def request_details(fact: RequestFact) -> list[tuple[str, Any]]:
    """The fields of a line of `tail`; those that are empty are left out."""
    match fact:
        case f.RequestOpened():
            due = f"{fact.due_at:%Y-%m-%dT%H:%M:%SZ}" if fact.due_at else ""
            asked = [("id", fact.id), ("kind", fact.kind), ("of", "|".join(fact.answerers)), ("due", due)]
            return [*asked, ("question", _quoted(fact.question))]
        case f.RequestAnswered():
            said = [
                ("id", fact.id),
                ("answer", _quoted(fact.answer, ANSWER_CHARS)),
                ("by", one_line(fact.by)),
            ]
            return [*said, ("text", _quoted(fact.text))]
        case f.RequestResolved():
            return [("id", fact.id), ("effect", fact.effect), ("granted", fact.granted or "")]
        case f.CheckpointCleared():
            return [("name", one_line(fact.name)), ("by", one_line(fact.by))]
        case f.RestartRequested():
            who = [("provider", fact.provider or ""), ("by", one_line(fact.by))]
            return [*who, ("reason", _quoted(fact.reason))]
        case f.NodeRestarted():
            return [("cause", fact.cause), ("by", one_line(fact.by)), ("reason", _quoted(fact.reason))]
        case f.NoteAdded():
            return [("by", one_line(fact.by)), ("text", _quoted(fact.text))]
        case _:
            assert_never(fact)


def request_words(fact: RequestFact) -> str:
    """What happened, as text; empty if people needn't see it."""
    match fact:
        case f.RequestOpened():
            options = ", ".join(one_line(option, ANSWER_CHARS) for option in _shown_options(fact.options))
            return f"{fact.kind}: {one_line(fact.question, MESSAGE_CHARS)} [{options or 'any text'}]"
        case f.RequestAnswered():
            said = f" ({one_line(fact.text, MESSAGE_CHARS)})" if fact.text.strip() else ""
            return f"{one_line(fact.by)} answered: {one_line(fact.answer, MESSAGE_CHARS)}{said}"
        case f.RequestResolved():
            return ""
        case f.CheckpointCleared():
            return f"checkpoint {one_line(fact.name)} was cleared by {one_line(fact.by)}"
        case f.RestartRequested():
            return f"restart of the stage requested: {one_line(fact.reason, MESSAGE_CHARS)}"
        case f.NodeRestarted():
            what = "was rejected" if fact.cause == "rejected" else "is restarted"
            return f"{what} by {one_line(fact.by)}, and runs again: {one_line(fact.reason, MESSAGE_CHARS)}"
        case f.NoteAdded():
            return f"{one_line(fact.by)} added a note: {one_line(fact.text, MESSAGE_CHARS)}"
        case _:
            assert_never(fact)


def closed_text(fact: f.RequestAnswered | None) -> str:
    """What became of a request while another person was asked; None: it was not answered."""
    if fact is None:
        return "The request is closed."
    return f"Answered elsewhere by {one_line(fact.by)}: {one_line(fact.answer, MESSAGE_CHARS)}"


def _quoted(text: str, limit: int = TEXT_CHARS) -> str:
    shown = one_line(text, limit)
    return f'"{shown}"' if shown else ""
