"""Text of requests: what is asked, who answers, since when; and the rows of their facts."""

from collections.abc import Sequence
from datetime import datetime

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.request import RESUME, SUCCEEDED, Request, granted_unit
from agentforge.views.answers import answer_command
from agentforge.views.lines.row import BRIEF_CHARS, RunLine, message, quoted, row, utc
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
    return ", ".join([*options, *([f"or a number of {request.unit}"] if request.grants else [])])


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


def closed_text(fact: f.RequestAnswered | None) -> str:
    """What became of a request while another person was asked; None: it was not answered."""
    if fact is None:
        return "The request is closed."
    return f"Answered elsewhere by {one_line(fact.by)}: {message(fact.answer)}"


def _asked(fact: f.RequestOpened, _: Event) -> RunLine:
    options = [one_line(option, BRIEF_CHARS) for option in _shown_options(fact.options)]
    options += [f"or a number of {granted_unit(fact.grants)}"] if fact.grants else []
    text = f"{fact.kind}: {message(fact.question)} [{', '.join(options) or 'any text'}]"
    return RunLine(text, "wait", "warn")


def _answered(fact: f.RequestAnswered, _: Event) -> RunLine:
    said = f" ({message(fact.text)})" if fact.text.strip() else ""
    return RunLine(f"{one_line(fact.by)} answered: {message(fact.answer)}{said}")


def _resolved(fact: f.RequestResolved, _: Event) -> RunLine | None:
    """Other effects follow an answer, which has its own line."""
    is_withdrawn = fact.effect == "withdrawn"
    return (
        RunLine(f"withdrawn: the request {one_line(fact.id)} needs no answer any more")
        if is_withdrawn
        else None
    )


ROWS = (
    row(
        f.RequestOpened,
        "branch",
        subject="run",
        details=lambda x: {
            "id": x.id,
            "kind": x.kind,
            "of": "|".join(x.answerers),
            "due": utc(x.due_at) if x.due_at else "",
            "question": quoted(x.question),
        },
        line=_asked,
    ),
    row(
        f.RequestAnswered,
        details=lambda x: {
            "id": x.id,
            "answer": quoted(x.answer, BRIEF_CHARS),
            "by": one_line(x.by),
            "text": quoted(x.text),
        },
        line=_answered,
    ),
    row(
        f.RequestResolved,
        details=lambda x: {"id": x.id, "effect": x.effect, "granted": x.granted or ""},
        line=_resolved,
    ),
    row(
        f.CheckpointCleared,
        details=lambda x: {"name": one_line(x.name), "by": one_line(x.by)},
        line=lambda x, _: RunLine(f"checkpoint {one_line(x.name)} was cleared by {one_line(x.by)}"),
    ),
)
