"""What people ask of a run while it goes on: controls in `control/`, answers in `answers/`.

Both are files, so that any process can ask and nothing is lost if nobody drives the run right now.
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
    """Leave a control for the driver, durable before this returns."""
    files.make_dir(layout.control)
    _place(layout.control, control.id, control)


def waiting_controls(layout: RunLayout) -> list[Control]:
    """Controls not yet taken in, oldest first (their ids begin with the time)."""
    if not os.access(layout.control, os.F_OK):
        # Nobody ever asked anything, which is looked up several times in every iteration.
        return []
    controls = []
    for name in sorted(name for name in files.listing(layout.control) if name.endswith(".json")):
        content = files.read_bytes(os.path.join(layout.control, name))
        try:
            controls.append(msgspec.json.decode(content or b"", type=Control))
        except msgspec.DecodeError:
            # Somebody else's file; left where it is.
            continue
    return controls


def drop_control(layout: RunLayout, control: Control) -> None:
    """Called once what the control asks for is durable in the log."""
    files.remove(os.path.join(layout.control, f"{control.id}.json"))


def drop_pauses(layout: RunLayout) -> None:
    """A person says go on: what was asked before that and not yet heard no longer counts."""
    for control in waiting_controls(layout):
        if control.action == "pause":
            drop_control(layout, control)


def give_answer(layout: RunLayout, given: Answer) -> Answer:
    """Answer a request, once. The first answer stands: it is returned, whoever gave it."""
    files.make_dir(layout.answers)
    if _place(layout.answers, given.request, given):
        return given
    content = files.read_bytes(os.path.join(layout.answers, f"{given.request}.json"))
    return msgspec.json.decode(content or b"", type=Answer)


def answer_request(layout: RunLayout, request: Request, answer: str, by: str) -> Answer:
    """The same for a request that is known: what lies there already and makes no sense is put aside first."""
    first = next(given_answers(layout, (request,)), None)
    return first[1] if first else give_answer(layout, Answer(request.id, answer, by))


def given_answers(layout: RunLayout, requests: Iterable[Request]) -> Iterator[tuple[Request, Answer]]:
    """The answers to these requests that are there and make sense. One that doesn't is put aside, so that
    another can be given."""
    for request in requests:
        path = os.path.join(layout.answers, f"{request.id}.json")
        if not os.path.lexists(path):
            continue
        answer = _read(path)
        if answer is not None and answer.request == request.id and answer.answer in request.options:
            yield request, answer
            continue
        log.warning("the answer to request %r isn't one of %s: put aside", request.id, request.options)
        files.move(path, f"{path}.refused")


def _read(path: str) -> Answer | None:
    """Nothing where it can't be read as an answer; a run doesn't end because of what somebody left there."""
    try:
        return msgspec.json.decode(files.read_bytes(path, MAX_ANSWER_BYTES) or b"", type=Answer)
    except (msgspec.DecodeError, StorageFailed):
        return None


def _place(folder: str, id: str, value: Struct) -> bool:
    return files.place(os.path.join(folder, f"{id}.json"), files.compact(value))
