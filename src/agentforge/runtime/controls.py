"""Requests of people to a running run: controls in `control/`, answers in `answers/`.

Both are files, so that any process can write them and nothing is lost if no engine is running. An agent may
write there, too: the name of a file is its id, and what isn't a valid file is refused by the engine.
"""

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from agentforge.model.errors import InvalidRequest, StorageFailed
from agentforge.model.json_text import NOT_JSON
from agentforge.model.layout import RunLayout
from agentforge.model.request import Request
from agentforge.system import files

T = TypeVar("T")

Refuse = Callable[[str, str], None]
"""Given a path and the reason why what is there can't be used."""

MAX_FILE_BYTES = 64 * 1024

_CONTROL_NAME = re.compile(r"([A-Za-z0-9][\w.-]{0,99})\.json", re.ASCII)
_CAN_USE_EFFECTIVE_IDS = os.access in os.supports_effective_ids
_NOT_THE_FILES_FAULT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO})


class ControlFile(Struct, frozen=True):
    """The content of a control; its id is the name of the file."""

    action: Literal["pause", "cancel"]
    reason: str
    now: bool = False


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
    _place(layout.control, control.id, ControlFile(control.action, control.reason, control.now))


def leave(_path: str, _reason: str) -> None:
    """For a process that doesn't own the run: its engine refuses what is invalid."""


def pending_controls(layout: RunLayout, refuse: Refuse = leave) -> list[Control]:
    """Controls not yet processed, oldest first (their ids start with the time)."""
    if not os.path.lexists(layout.control):
        # The common case, checked several times in every iteration.
        return []
    if not _is_folder(layout.control, refuse):
        return []
    found = (_control(layout.control, name, refuse) for name in sorted(files.listing(layout.control)))
    return [control for control in found if control is not None]


def _control(folder: str, name: str, refuse: Refuse) -> Control | None:
    if name.startswith(".") or not name.endswith(".json"):
        return None  # A draft, or a file that was moved aside.
    path, id = os.path.join(folder, name), _CONTROL_NAME.fullmatch(name)
    given = _read(path, ControlFile) if id else None
    if id is None or given is None:
        refuse(path, "it is not a valid control")
        return None
    return Control(id[1], given.action, given.reason, given.now)


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
    path = os.path.join(layout.answers, f"{given.request}.json")
    first = _read(path, Answer)
    if first is None:
        raise InvalidRequest(f"the answer to request {given.request!r} can't be read: {path}", hint="retry")
    return first


def given_answers(
    layout: RunLayout, requests: Iterable[Request], refuse: Refuse = leave
) -> Iterator[tuple[Request, Answer]]:
    """The valid answers to these requests."""
    if not _is_folder(layout.answers, refuse):
        return
    for request in requests:
        path = os.path.join(layout.answers, f"{request.id}.json")
        if not os.path.lexists(path):
            continue
        answer = _read(path, Answer)
        if answer is not None and answer.request == request.id and answer.answer in request.options:
            yield request, answer
            continue
        options = ", ".join(request.options)
        refuse(path, f"it is not a valid answer to request {request.id!r}, which takes one of: {options}")


def has_invalid_answer(layout: RunLayout, request: Request) -> bool:
    found: list[str] = []
    for _ in given_answers(layout, (request,), lambda path, _reason: found.append(path)):
        pass
    return bool(found)


def _is_folder(path: str, refuse: Refuse) -> bool:
    """Whether the folder exists. Anything else in its place, also a link, is refused."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(mode):
        refuse(path, "it is not a folder")
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK, effective_ids=_CAN_USE_EFFECTIVE_IDS):
        refuse(path, "it can't be read and written")
    else:
        return True
    return False


def _read(path: str, type: type[T]) -> T | None:
    """The content of a small regular file, or None if it is invalid: it must not end the run."""
    try:
        about = os.lstat(path)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_FILE_BYTES:
            return None
        return msgspec.json.decode(files.read_bytes(path, MAX_FILE_BYTES) or b"", type=type)
    except (FileNotFoundError, UnicodeDecodeError, *NOT_JSON):
        return None
    except StorageFailed as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _NOT_THE_FILES_FAULT:
            raise
        return None


def _place(folder: str, id: str, value: Struct) -> bool:
    return files.place(os.path.join(folder, f"{id}.json"), files.compact(value))
