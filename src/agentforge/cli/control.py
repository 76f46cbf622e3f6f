"""What people tell a run while it goes on: `pause`, `cancel`, and `answer` to what it asks."""

from typing import TYPE_CHECKING

import click

from agentforge.cli.invocation import Invocation, chosen, driving, invocation
from agentforge.cli.output import note, print_json, styled
from agentforge.views.lines.requests import request_lines
from agentforge.views.status import resume_command

if TYPE_CHECKING:
    from agentforge.app.results import RunResult
    from agentforge.sdk.engine import Engine
    from agentforge.sdk.sync import SyncEngine


OPEN = {"running", "interrupted", "paused", "awaiting_approval"}
"""The statuses of runs that aren't over."""


@click.command()
@click.argument("session", required=False)
@click.option("--now", is_flag=True, help="End the agent instead of letting it finish its iteration.")
@click.option("--reason", default="requested", show_default=True, help="What to record as the reason.")
@driving
def pause(session: str | None, now: bool, reason: str) -> None:
    """Pause a run after its current iteration.

    `agentforge resume` goes on with it.
    """
    call = invocation()
    name = chosen(call, session, {"running", "interrupted"}, "to pause")
    with _engine(call) as engine:
        engine.pause(name, reason, now=now)
    driven = call.runs.info(name).status == "running"
    if call.as_json:
        print_json({"session": name, "asked": "pause", "now": now, "driven": driven})
    elif not driven:
        click.echo(f"Session '{name}' will pause as soon as it is recovered; nobody drives it now.")
    else:
        when = "now" if now else "when its current iteration is done"
        click.echo(f"Asked session '{name}' to pause {when}.")


@click.command()
@click.argument("session", required=False)
@click.option("--reason", default="requested", show_default=True, help="What to record as the reason.")
@driving
def cancel(session: str | None, reason: str) -> None:
    """End a run for good.

    Its agent is ended, and the run can't be resumed.
    """
    call = invocation()
    name = chosen(call, session, OPEN, "to cancel")
    with _engine(call) as engine:
        result = engine.cancel(name, reason)
    if call.as_json:
        print_json({"session": name, "asked": "cancel", "cancelled": result is not None})
    elif result is not None:
        click.echo(f"Cancelled session '{name}'.")
    else:
        click.echo(f"Asked session '{name}' to end; its driver ends the agent now.")


def _engine(call: Invocation) -> "SyncEngine":
    from agentforge.cli.log_output import set_up_logs
    from agentforge.sdk.sync import SyncEngine

    set_up_logs(call)
    return SyncEngine(call.root)


@click.command()
@click.argument("session", required=False)
@click.argument("answer", required=False)
@click.option("--request", metavar="ID", help="Which request, if the run has several open.")
@driving
def answer(session: str | None, answer: str | None, request: str | None) -> int | None:
    """Answer a question that a run asks, and continue the run.

    ANSWER is one of the options of the request. The first answer counts. Without ANSWER, list the open
    requests of the run. Counters and limits stay as they are; `resume` resets them.
    """
    call = invocation()
    name = chosen(call, session, OPEN, "with open requests")
    if answer is None:
        _list(call, name)
        return None

    from agentforge.cli.attached import conclude, drive

    async def work(engine: "Engine") -> "RunResult | None":
        return await engine.answer(name, answer, request=request)

    driven = drive(call, work)
    if driven.outcome is None and driven.signal is None:
        return _said(call, name, answer)
    return conclude(call, driven)


def _list(call: Invocation, session: str) -> None:
    requests = call.runs.info(session).state.open_requests
    if call.as_json:
        print_json({"session": session, "requests": requests})
        return
    if not requests:
        click.echo(f"Session '{session}' has no open requests.")
    for question, command in request_lines(session, requests, call.program):
        click.echo(f"{question}\n  {styled(command, 'busy')}")


def _said(call: Invocation, session: str, answer: str) -> int:
    if call.as_json:
        print_json({"session": session, "answer": answer, "continued": False})
    else:
        note(f"Answered session '{session}': {answer}. {_how_it_goes_on(call, session)}")
    return 0


def _how_it_goes_on(call: Invocation, session: str) -> str:
    """Where the answer alone didn't continue it here."""
    status = call.runs.info(session).status
    again = resume_command(session, status, call.program)
    if again is None:
        return "The engine that owns it takes the answer."
    why = "No engine runs it" if status == "interrupted" else f"It is {status}, and counts the answer then"
    return f"{why}: `{again}`."
