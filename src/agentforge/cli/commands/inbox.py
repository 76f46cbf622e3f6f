"""`agentforge inbox`: what the runs of a project ask."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from agentforge.cli.commands.answer import answer
from agentforge.cli.controls import continued_by
from agentforge.cli.invocation import Invocation, engine_options, invocation, note_others
from agentforge.cli.output import echo, note, print_json, styled
from agentforge.cli.request_choice import TargetAnswer, choose_request, read_open_requests, request_options
from agentforge.cli.request_output import (
    RequestSubject,
    listed_json,
    request_json,
    request_list,
    show_request,
)
from agentforge.cli.start import answer_and_continue
from agentforge.model.errors import UnknownRequest
from agentforge.model.names import session_argument
from agentforge.views.answers import labelled_commands
from agentforge.views.status import recover_command
from agentforge.views.text import counted

if TYPE_CHECKING:
    from agentforge import OpenRequest
    from agentforge.cli.ask import RequestWatch
    from agentforge.cli.request_choice import Target


@click.group(invoke_without_command=True)
@engine_options
@click.pass_context
def inbox(context: click.Context) -> int | None:
    """List and answer the open requests of the project's runs.

    On a terminal, asks which request to answer. Without a terminal, prints the list. Default answers of
    requests that timed out are recorded first.
    """
    if context.invoked_subcommand is not None:
        return None
    call = invocation()
    note_others(call)
    found = read_open_requests(call)
    if call.as_json:
        print_json([listed_json(call, one, found) for one in found])
        return 0
    _note_answered(call)
    if not found:
        echo("No open requests.")
        return 0
    from agentforge.cli.ask import can_ask

    if can_ask(call):
        return _pick(call, found)
    echo(*request_list(call, found), "", f"Details: {call.program} inbox show SESSION")
    return 0


def _note_answered(call: Invocation) -> None:
    """Runs that have an answer, or whose time is over, and that no process has continued."""
    for session in call.runs.recoverable():
        info = call.runs.info(session)
        if info.state.waits:
            then = continued_by(info, recover_command(session, call.program))
            note(f"Session '{session}' was answered but has no active engine; run {then}.")


def _pick(call: Invocation, found: "Sequence[OpenRequest]") -> int:
    """Let the person choose a request, and answer it."""
    from agentforge.cli.ask import Closed, RequestWatch, ask
    from agentforge.cli.attached import show_closed

    watches = [RequestWatch(call, one) for one in found]
    echo(f"{counted(len(found), 'open request')}:", "", *request_list(call, found, numbered=True), "")
    try:
        one = _picked(found, watches)
    except Closed:
        echo("")
        closed = [watch.closed() for watch in watches]
        if len(closed) == 1:
            return show_closed(call, closed[0])
        echo(*(f"{one.session}: {one.text}" for one in closed))
        _note_answered(call)
        return 0
    reply = ask(call, one) if one else None
    if isinstance(reply, TargetAnswer):
        return answer_and_continue(call, reply, is_detached=False, trust=False)
    return show_closed(call, reply) if reply else 0


def _picked(found: "Sequence[OpenRequest]", watches: "Sequence[RequestWatch]") -> "OpenRequest | None":
    from agentforge.cli.ask import read_line

    question = f"Which request do you want to answer? [1-{len(found)}, Enter to skip]: "
    while typed := read_line(question, *watches):
        if typed.isdigit() and 1 <= int(typed) <= len(found):
            return found[int(typed) - 1]
        echo("Enter a number from the list.")
    return None


@inbox.command()
@request_options
@click.option("-v", "--verbose", is_flag=True, help="Print the full change.")
@engine_options
def show(session: str | None, request: str | None, verbose: bool) -> None:
    """Show what a request is about.

    Prints the result and the output of its stage, and how the files changed since the stage began. SESSION
    can be omitted if only one request is open.
    """
    call = invocation()
    target = choose_request(call, session, request)
    found = read_open_requests(call, target.session)
    one = _opened(call, target, found)
    subject = RequestSubject(call, one)
    if call.as_json:
        print_json(request_json(call, subject, found, verbose=verbose))
        return
    show_request(call, subject, verbose=verbose)
    echo("")
    for label, command in labelled_commands(one.session, one.request, call.program, only=len(found) == 1):
        echo(f"  {label}: {styled(command, 'busy')}")


inbox.add_command(answer)


def _opened(call: Invocation, target: "Target", found: "Sequence[OpenRequest]") -> "OpenRequest":
    """Raises UnknownRequest if it isn't open."""
    for one in found:
        if one.request.id == target.id:
            return one
    what = f"request {target.id!r} of session {target.session!r} is not open"
    raise UnknownRequest(
        what if target.id else f"session {target.session!r} has no open requests",
        hint=f"`{call.program} status {session_argument(target.session)}` shows the run",
    )
