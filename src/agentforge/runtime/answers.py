"""Answers to a run's requests: how they are given, which count, and how the owner of the run records them.

They are write-once files in `answers/`: the first one counts. Its engine decides what follows.
"""

import os
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from agentforge.engine.decide.requests import defaults, request_waits
from agentforge.model import facts as f
from agentforge.model.errors import InvalidRequest
from agentforge.model.layout import RunLayout
from agentforge.model.request import Request, most_granted
from agentforge.model.secrets import SecretReferences
from agentforge.model.state import RunState
from agentforge.runtime.journal import Journal
from agentforge.runtime.left_files import Refusals, Refuse, is_folder, leave, leave_file, read_left
from agentforge.system import files

MAX_TEXT_BYTES = 32 * 1024
"""Of an answer with its text and its author."""


class Answer(Struct, frozen=True, omit_defaults=True):
    request: str
    answer: str
    by: str
    run: str
    """The id of the run: a file that was copied from another run doesn't count."""
    at: Annotated[datetime, Meta(tz=True)]
    text: str = ""
    """What is said with it: the feedback of a rejection, or a remark."""
    secrets: dict[str, str] = {}
    """Of the variables whose values were in it: that its writer had them."""

    @property
    def signed(self) -> str:
        """What the proofs in `secrets` are about."""
        return "\0".join((self.run, self.request, self.answer, self.text))

    @property
    def size(self) -> int:
        return len(f"{self.by}{self.answer}{self.text}".encode("utf-8", "replace"))


def hidden(given: Answer, secrets: SecretReferences) -> Answer:
    """The answer as it is handed over: with references instead of secrets."""
    said, text = secrets.hide(given.answer), secrets.hide(given.text)
    found = replace(given, answer=said.text, text=text.text)
    return replace(found, secrets=secrets.proofs({*said.secrets, *text.secrets}, found.signed))


def give_answer(layout: RunLayout, given: Answer) -> Answer | None:
    """Answer a request, once. Returns the answer that was first, if it isn't this one."""
    # A complete file is placed, and never replaced: of two people who answer at once, exactly one is first.
    if leave_file(layout.answers, given.request, given):
        return None
    path = _path(layout, given.request)
    first = read_left(path, Answer)
    if first is None:
        raise InvalidRequest(f"the answer to request {given.request!r} can't be read: {path}", hint="retry")
    return first


def given_answers(
    layout: RunLayout, run_id: str, requests: Iterable[Request], refuse: Refuse = leave
) -> Iterator[tuple[Request, Answer]]:
    """The valid answers to these requests of the run."""
    if not is_folder(layout.answers, refuse):
        return
    for request in requests:
        path = _path(layout, request.id)
        if not os.path.lexists(path):
            continue
        answer = read_left(path, Answer)
        problem = "it is not an answer" if answer is None else _problem(answer, run_id, request)
        if answer is None or problem:
            refuse(path, problem)
        else:
            yield request, answer


def _strays(layout: RunLayout, state: RunState) -> Iterator[tuple[str, str]]:
    """Files that answer nothing, with the reason: the run never asked, or its time to answer is over."""
    if not is_folder(layout.answers, leave):
        return
    asked = {request.id: request for request in state.requests}
    for name in sorted(files.listing(layout.answers)):
        id, _, ending = name.rpartition(".")
        if ending != "json":
            continue
        if id in asked and asked[id].is_overdue:
            yield _path(layout, id), f"request {id!r} has timed out"
        # The state has only requests that aren't resolved. An answer to an earlier one stays where it is.
        elif id not in asked and not _can_be_request(id, state.seq):
            yield _path(layout, id), "the run has no such request"


def _can_be_request(id: str, seq: int) -> bool:
    """Ids end with the number of the event that opened the request."""
    number = id.rpartition("-")[2]
    return number.isascii() and number.isdigit() and len(number) <= len(str(seq)) and int(number) <= seq


def has_invalid_answer(layout: RunLayout, run_id: str, request: Request) -> bool:
    found: list[str] = []
    for _ in given_answers(layout, run_id, (request,), lambda path, _reason: found.append(path)):
        pass
    return bool(found)


def offered(request: Request) -> str:
    """What the request accepts, for people."""
    if request.takes_text:
        return "any text"
    options = ", ".join(request.options)
    if not request.grants:
        return options
    such = "0.50" if request.grants == "cost_usd" else "5"
    most = f"{most_granted(request.grants):,}"
    return f"{options}, or a number of {request.unit} such as {such}, at most {most}"


def _problem(given: Answer, run_id: str, request: Request) -> str:
    """Why the answer doesn't count, or an empty string."""
    if given.run != run_id:
        return "it answers a request of another run"
    if given.request != request.id:
        return f"it answers request {given.request!r}, not {request.id!r}"
    if given.at < request.opened_at:
        return f"it was given before request {request.id!r} was asked"
    if given.size > MAX_TEXT_BYTES:
        return f"its text is longer than {MAX_TEXT_BYTES} bytes"
    if not given.answer.strip():
        return "it is empty"
    if not request.accepts(given.answer):
        return f"it is not an answer to request {request.id!r}, which accepts: {offered(request)}"
    if request.needs_reason(given.answer) and not given.text.strip():
        return f"{given.answer!r} requires a reason in `text`"
    return ""


def _path(layout: RunLayout, request: str) -> str:
    return os.path.join(layout.answers, f"{request}.json")


def resolution_answers(layout: RunLayout, state: RunState, now: datetime) -> Iterator[Answer]:
    """The answers in resolution files of open requests."""
    # Reads YAML, which few runs need.
    from agentforge.runtime.escalations import resolutions

    for request, answer, text, by in resolutions(layout, state):
        at = max(now, request.opened_at)
        given = Answer(request.id, answer, by, state.run_id, at, text)
        if given.size <= MAX_TEXT_BYTES:
            yield given


def place_resolutions(layout: RunLayout, state: RunState, now: datetime, secrets: SecretReferences) -> None:
    """Give the answers in resolution files, without secrets; earlier answers count."""
    for answer in resolution_answers(layout, state, now):
        give_answer(layout, hidden(answer, secrets))


def take_answers(
    journal: Journal, layout: RunLayout, requests: Iterable[Request]
) -> list[tuple[Request, Answer]]:
    """The valid answers to these requests; an invalid one is refused, so that another can be given."""
    refusals = Refusals(journal, layout)
    answered = list(given_answers(layout, journal.state.run_id, requests, refusals.add))
    for path, reason in _strays(layout, journal.state):
        refusals.add(path, reason)
    refusals.settle()
    return answered


def record_answers(journal: Journal, layout: RunLayout, secrets: SecretReferences) -> bool:
    """Record the answers to the open requests, without secrets. Returns whether there were any."""
    if journal.plan.pipeline.has_escalations:
        if _cancelled(journal, layout):
            return True
        place_resolutions(layout, journal.state, journal.now(), secrets)
    # An answer after the timeout is too late: the order in the log decides.
    in_time = [request for request in journal.state.open_requests if not request.is_overdue]
    answered = take_answers(journal, layout, in_time)
    for request, answer in answered:
        said, text = secrets.hide(answer.answer), secrets.hide(answer.text)
        known = {*said.secrets, *text.secrets, *secrets.proven(answer.secrets, answer.signed)}
        fact = f.RequestAnswered(request.id, said.text, answer.by, text.text, tuple(sorted(known)))
        journal.record(fact, request.at)
    return bool(answered)


def _cancelled(journal: Journal, layout: RunLayout) -> bool:
    """Record that a resolution ends the run, if one does."""
    from agentforge.runtime.escalations import cancellations

    for request, by in cancellations(layout, journal.state):
        journal.record(f.CancelRequested(f"aborted by {by}"), request.at)
        return True
    return False


def record_due(journal: Journal, layout: RunLayout, secrets: SecretReferences) -> None:
    """Record the answers, then the default answers of the requests whose time is over."""
    record_answers(journal, layout, secrets)
    now = journal.now()
    for wait in request_waits(journal.state):
        if wait.due_at <= now:
            journal.record(f.TimerFired(wait.timer), journal.state.cursor)
    for draft in defaults(journal.state):
        journal.record(draft.fact, draft.cursor)
