"""Finds the request that a command is about: by its id, by its session, or because it is the only one."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click
from msgspec import Struct

from agentforge.cli.controls import open_engine
from agentforge.cli.invocation import Invocation, note_others, options_of
from agentforge.model.errors import AgentForgeError, InvalidRequest, UnknownRequest
from agentforge.model.facts import RequestOpened
from agentforge.model.request import Request
from agentforge.views.answers import answer_command
from agentforge.views.text import one_line

if TYPE_CHECKING:
    from agentforge import Engine, OpenRequest, RunResult

MAX_NAMED = 5
QUESTION_CHARS = 60

request_options = options_of(
    click.argument("session", metavar="[SESSION|ID]", required=False),
    click.option("--request", metavar="ID", help="Id of the request, if the session has several."),
)


class Target(Struct, frozen=True):
    """What a command answers."""

    session: str
    id: str | None
    """None: the engine reports that the session has no open request."""
    request: Request | None = None
    """None if it isn't open: the engine reports why."""


class TargetAnswer(Struct, frozen=True):
    target: Target
    answer: str
    text: str = ""
    """The feedback of a rejection, or why the answer was given."""

    async def give(self, engine: "Engine", *, drive: bool = True) -> "RunResult | None":
        target = self.target
        return await engine.answer(
            target.session, self.answer, request=target.id, text=self.text, drive=drive
        )


class ClosedRequest(Struct, frozen=True):
    """A request that was closed while a person was asked."""

    session: str
    text: str
    """By whom, and what was answered."""
    seq: int
    """Of the event that closed it, or of the latest one before."""


def read_open_requests(call: Invocation, session: str | None = None) -> "Sequence[OpenRequest]":
    with open_engine(call) as engine:
        return engine.requests(session)


def choose_request(
    call: Invocation, named: str | None, id: str | None = None, kinds: Collection[str] | None = None
) -> Target:
    """The request of the named session, or with the named id, or the only open one of the project. `kinds`:
    those that the command answers; None: all."""
    found, missing = _candidates(call, named, id)
    fitting = [one for one in found if kinds is None or one.request.kind in kinds]
    if len(fitting) == 1:
        one = fitting[0]
        return Target(one.session, one.request.id, one.request)
    if fitting:
        named_ones = [
            f"{one.request.id} of session '{one.session}' ({one_line(one.request.question, QUESTION_CHARS)})"
            for one in fitting[:MAX_NAMED]
        ]
        named_ones += [f"and {len(fitting) - MAX_NAMED} more"] if len(fitting) > MAX_NAMED else []
        raise InvalidRequest(
            f"{len(fitting)} requests are open: {', '.join(named_ones)}",
            hint=f"name one: SESSION, ID or --request ID SESSION; `{call.program} inbox` lists them",
        )
    if found:
        first = found[0]
        command = answer_command(first.session, first.request, call.program, only=len(found) == 1)
        asked = one_line(first.request.question)
        raise InvalidRequest(
            f"session {first.session!r} is not waiting for an approval; it asks: {asked}",
            hint=f"answer it with `{command}`",
        )
    return missing


def _candidates(call: Invocation, named: str | None, id: str | None) -> "tuple[list[OpenRequest], Target]":
    """The open requests, and what to answer if there are none."""
    # Sessions come first: people choose their names, and the engine those of requests.
    if named is not None and named in call.runs.sessions():
        found = [one for one in read_open_requests(call, named) if id in (None, one.request.id)]
        return found, Target(named, id)
    id_or_name = id if named is None else named
    if named is None:
        note_others(call)
    found = [one for one in read_open_requests(call) if id_or_name in (None, one.request.id)]
    return found, Target("", None) if found else _not_open(call, id_or_name)


def _not_open(call: Invocation, id: str | None) -> Target:
    """The run that asked it once."""
    if id is None:
        raise UnknownRequest(
            f"no open request in {call.root}", hint=f"`{call.program} list` shows the runs of the project"
        )
    # Only the logs know requests that are closed; a log that can't be read hides none of the others.
    for session in call.runs.sessions():
        with suppress(AgentForgeError):
            for event in call.runs.events(session):
                if isinstance(event.fact, RequestOpened) and event.fact.id == id:
                    return Target(session, id)
    raise UnknownRequest(
        f"{id!r} is neither a session nor an open request",
        hint=f"`{call.program} inbox` lists the open requests, `{call.program} list` the runs",
    )
