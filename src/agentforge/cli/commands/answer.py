"""`agentforge answer`: answer a request of a run."""

from typing import TYPE_CHECKING

import click

from agentforge.cli.invocation import (
    OPEN_STATUSES,
    Invocation,
    choose_session,
    engine_options,
    invocation,
)
from agentforge.cli.output import echo, note, print_json, styled
from agentforge.cli.trust import ask_for_trust, trust_option
from agentforge.views.lines.requests import request_lines
from agentforge.views.status import resume_command

if TYPE_CHECKING:
    from agentforge import Engine, RunResult


@click.command()
@click.argument("session", required=False)
@click.argument("answer", required=False)
@click.option("--request", metavar="ID", help="Request to answer, if several are open.")
@trust_option
@engine_options
def answer(session: str | None, answer: str | None, request: str | None, trust: bool) -> int | None:
    """Answer an open request of a run and continue the run.

    ANSWER is one of the options of the request. The first answer counts. Without ANSWER, list the open
    requests of the run. Counters and limits stay as they are; `resume` resets them.
    """
    call = invocation()
    name = choose_session(call, session, OPEN_STATUSES, "with open requests")
    if answer is None:
        _list(call, name)
        return None

    from agentforge.cli.attached import conclude, drive

    trusted = ask_for_trust(call, name, given=trust)

    async def work(engine: "Engine") -> "RunResult | None":
        if trusted:
            engine.trust(name)
        return await engine.answer(name, answer, request=request)

    driven = drive(call, work)
    if driven.outcome is None and driven.signal is None:
        return _print_answered(call, name, answer)
    return conclude(call, driven)


def _list(call: Invocation, session: str) -> None:
    requests = call.runs.info(session).state.open_requests
    if call.as_json:
        print_json({"session": session, "requests": requests})
        return
    if not requests:
        echo(f"Session '{session}' has no open requests.")
    for question, command in request_lines(session, requests, call.program):
        echo(question, f"  {styled(command, 'busy')}")


def _print_answered(call: Invocation, session: str, answer: str) -> int:
    if call.as_json:
        print_json({"session": session, "answer": answer, "continued": False})
    else:
        note(f"Answered session '{session}': {answer}. {_next_step(call, session)}")
    return 0


def _next_step(call: Invocation, session: str) -> str:
    """What happens next if this process didn't continue the run."""
    status = call.runs.info(session).status
    command = resume_command(session, status, call.program)
    if command is None:
        return "The engine that runs it will apply the answer."
    if status == "interrupted":
        return f"It has no active engine; run `{command}`."
    return f"It is {status}; run `{command}` to apply the answer."
