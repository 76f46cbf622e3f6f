"""Requests of people to a running run: controls in `control/`, answers in `answers/`.

Both are files, so that any process can write them and nothing is lost if no engine is running.
"""

import logging
import os
from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec
from msgspec import Struct

from agentforge.model.errors import StorageFailed
from agentforge.model.layout import RunLayout
from agentforge.model.state import Request
from agentforge.system import files

log = logging.getLogger("agentforge.run")

MAX_ANSWER_BYTES = 64 * 1024


class Control(Struct, frozen=True):
    id: str
    action: Literal["pause", "cancel"]
    reason: str
    now: bool = False


class Answer(Struct, frozen=True):
    request: str
    answer: str
    by: str


def send_control(layout: RunLayout, control: Control) -> None:
    """Write a control for the driver; durable when this returns."""
    files.make_dir(layout.control)
    _place(layout.control, control.id, control)


def pending_controls(layout: RunLayout) -> list[Control]:
    """Controls not yet processed, oldest first (their ids start with the time)."""
    if not os.access(layout.control, os.F_OK):
        # The common case, checked several times in every iteration.
        return []
    controls = []
    for name in sorted(name for name in files.listing(layout.control) if name.endswith(".json")):
        content = files.read_bytes(os.path.join(layout.control, name))
        try:
            controls.append(msgspec.json.decode(content or b"", type=Control))
        except msgspec.DecodeError:
            # Not a control; left in place.
            continue
    return controls


def drop_control(layout: RunLayout, control: Control) -> None:
    """Called once the control's request is durable in the log."""
    files.remove(os.path.join(layout.control, f"{control.id}.json"))


def drop_pauses(layout: RunLayout) -> None:
    """Called on resume: discard pauses that were requested before and not yet processed."""
    for control in pending_controls(layout):
        if control.action == "pause":
            drop_control(layout, control)


def give_answer(layout: RunLayout, given: Answer) -> Answer:
    """Answer a request, once. Returns the first answer, which counts even if another process gave it."""
    files.make_dir(layout.answers)
    if _place(layout.answers, given.request, given):
        return given
    content = files.read_bytes(os.path.join(layout.answers, f"{given.request}.json"))
    return msgspec.json.decode(content or b"", type=Answer)


def answer_request(layout: RunLayout, request: Request, answer: str, by: str) -> Answer:
    """Answer an open request; an invalid earlier answer is moved away first."""
    first = next(given_answers(layout, (request,)), None)
    return first[1] if first else give_answer(layout, Answer(request.id, answer, by))


def given_answers(layout: RunLayout, requests: Iterable[Request]) -> Iterator[tuple[Request, Answer]]:
    """The valid answers to these requests. An invalid one is moved away, so that another can be given."""
    for request in requests:
        path = os.path.join(layout.answers, f"{request.id}.json")
        if not os.path.lexists(path):
            continue
        answer = _read(path)
        if answer is not None and answer.request == request.id and answer.answer in request.options:
            yield request, answer
            continue
        log.warning("the answer to request %r must be one of %s: ignored", request.id, request.options)
        files.move(path, f"{path}.refused")


def _read(path: str) -> Answer | None:
    """The answer, or None if the file is invalid: it must not end the run."""
    try:
        return msgspec.json.decode(files.read_bytes(path, MAX_ANSWER_BYTES) or b"", type=Answer)
    except (msgspec.DecodeError, StorageFailed):
        return None


def _place(folder: str, id: str, value: Struct) -> bool:
    return files.place(os.path.join(folder, f"{id}.json"), files.compact(value))
