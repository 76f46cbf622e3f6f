"""Events that people cause or that ask them something: the details in `tail`, the words on a terminal."""

from typing import Any, assert_never

from agentforge.model import facts as f
from agentforge.views.text import one_line

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
            why = [("cause", fact.cause), ("by", one_line(fact.by)), ("reason", _quoted(fact.reason))]
            return [("id", fact.name), *why]
        case f.NoteAdded():
            return [("by", one_line(fact.by)), ("text", _quoted(fact.text))]
        case _:
            assert_never(fact)


def request_words(fact: RequestFact) -> str:
    """What happened, as text; empty if people needn't see it."""
    match fact:
        case f.RequestOpened():
            options = ", ".join(one_line(option, ANSWER_CHARS) for option in fact.options)
            return f"{fact.kind}: {one_line(fact.question, MESSAGE_CHARS)} ({options or 'any text'})"
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


def _quoted(text: str, limit: int = TEXT_CHARS) -> str:
    shown = one_line(text, limit)
    return f'"{shown}"' if shown else ""
