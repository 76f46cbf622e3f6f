"""JSON lines of a program that somebody described: where in them is what."""

from collections.abc import Iterator, Sequence
from typing import Any

from agentforge.adapters.providers.agent_cli import OutputFields
from agentforge.adapters.providers.stream import Complaint, Event, Reading, error_line, one_line
from agentforge.model.result import Usage
from agentforge.ports.provider import Exit


class JsonLinesStream:
    def __init__(self, fields: OutputFields) -> None:
        self._fields = fields

    def is_event(self, event: Event) -> bool:
        return bool(event)

    def read(self, events: Sequence[Event], exit: Exit) -> Reading:
        fields = self._fields
        texts = _texts(events, fields)
        finished = not fields.done or any(_says(event, fields.done) for event in events)
        message = next((found for event in reversed(events) if (found := _error(event, fields.error))), "")
        return Reading(
            finished=finished,
            answer=texts[-1] if texts and finished and not message else "",
            texts=texts,
            complaint=Complaint(message) if message else None,
            usage=_usage(events, fields, exit),
        )

    def progress(self, event: Event) -> str:
        return error_line(_error(event, self._fields.error)) or one_line(_text(event, self._fields.text))


def _texts(events: Sequence[Event], fields: OutputFields) -> list[str]:
    texts: list[str] = []
    group = ""
    for event in events:
        text, now = _text(event, fields.text), _text(event, fields.group)
        if text and now and now == group:
            texts[-1] += text
        elif text:
            texts.append(text)
            group = now
    return texts


def values_at(event: Any, path: str) -> Iterator[Any]:
    """What is at a dotted path, through every element of the lists on its way."""
    if isinstance(event, list):
        for item in event:
            yield from values_at(item, path)
        return
    if not path:
        yield event
        return
    key, _, rest = path.partition(".")
    if isinstance(event, dict) and event.get(key) is not None:
        yield from values_at(event[key], rest)


def _says(event: Event, path: str) -> bool:
    """Whether the line has that value there or, without one, anything but false."""
    where, equals, wanted = path.partition("=")
    found = values_at(event, where)
    return any(str(value) == wanted if equals else bool(value) for value in found)


def _text(event: Event, path: str) -> str:
    if not path:
        return ""
    return "".join(value for value in values_at(event, path) if isinstance(value, str))


def _error(event: Event, path: str) -> str:
    if not path or not _says(event, path):
        return ""
    if "=" not in path:
        return _text(event, path) or "the agent reported an error"
    # The line itself is the error; what it says stands where such lines usually have it.
    said = (_text(event, usual) for usual in ("message", "error.message", "error", "text"))
    return next(filter(None, said), "the agent reported an error")


def _usage(events: Sequence[Event], fields: OutputFields, exit: Exit) -> Usage | None:
    session = _last_text(events, fields.session)
    usage = Usage(
        input_tokens=_count(events, fields.input_tokens),
        output_tokens=_count(events, fields.output_tokens),
        cached_tokens=_count(events, fields.cached_tokens),
        cost_usd=_last_number(events, fields.cost),
        model=_last_text(events, fields.model) or exit.model or None,
        agent_session=session or None,
    )
    return None if usage == Usage(model=usage.model) else usage


def _last_text(events: Sequence[Event], path: str) -> str:
    return next((found for event in reversed(events) if (found := _text(event, path))), "")


def _count(events: Sequence[Event], path: str) -> int | None:
    found = _last_number(events, path)
    return None if found is None else max(0, int(found))


def _last_number(events: Sequence[Event], path: str) -> float | None:
    if not path:
        return None
    for event in reversed(events):
        for value in values_at(event, path):
            if isinstance(value, int | float) and not isinstance(value, bool):
                return value
    return None
