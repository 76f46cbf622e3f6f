"""`agentforge attach`: follow a running session with the live display."""

import time
from collections import deque
from typing import TYPE_CHECKING

import click

from agentforge.cli import exit_codes
from agentforge.cli.commands.tail import ABANDONED_SECONDS
from agentforge.cli.invocation import Invocation, choose_session, invocation, project_options
from agentforge.cli.output import note
from agentforge.model.errors import InvalidRequest
from agentforge.model.session_name import session_argument
from agentforge.model.status import status_text
from agentforge.views.lines.status import program_text
from agentforge.views.run_model import RunModel
from agentforge.views.status import needed_hooks

if TYPE_CHECKING:
    from agentforge import Tail
    from agentforge.cli.display import Display

POLL_SECONDS = 0.1
PAST_EVENTS = 12
"""How many past events are shown first."""
HINT = "Ctrl-C detaches; the run continues."


@click.command()
@click.argument("session", required=False)
@project_options
def attach(session: str | None) -> int:
    """Follow a running session with the live display.

    Ctrl-C detaches: the run continues. When the run stops, prints the outcome and exits with
    the run's exit status.
    SESSION can be omitted if only one session is running.
    """
    call = invocation()
    return follow_run(call, choose_session(call, session, {"running"}, "to attach to"))


def follow_run(call: Invocation, session: str) -> int:
    """Show the run until it stops or the user detaches. Returns the exit status."""
    from agentforge import Tail
    from agentforge.cli.attached import DriveResult, conclude
    from agentforge.cli.display import display_for

    info = call.runs.info(session)
    if info.status != "running":
        hint = f"`{call.program} status {session_argument(session)}` shows it"
        raise InvalidRequest(f"session {session!r} is {status_text(info.status)}, not running", hint=hint)
    display = display_for(call, began_at=info.state.started_at)
    try:
        is_over = _follow(Tail(call.runs, session), display)
    except KeyboardInterrupt:
        display.close()
        return _detached(call, session)
    display.close()
    info = call.runs.info(session)
    hooks = needed_hooks(info.plan, info.state)
    if not is_over and info.status == "interrupted":
        command = f"`{call.program} recover {session_argument(session)}`"
        then = program_text(hooks) if hooks else command
        note(f"Session '{session}' has no active engine; run {then}.")
        return exit_codes.FAILED
    return conclude(call, DriveResult(info.result, None), hooks)


def _follow(tail: "Tail", display: "Display") -> bool:
    """Returns whether the run has stopped; False if its engine died."""
    run, past = RunModel(), deque(maxlen=PAST_EVENTS)  # type: ignore[var-annotated]
    for event in tail.news():
        run.apply(event)
        past.append(event)
    for event in past:
        display.show(event, run)
    display.say(HINT)
    driven_at = time.monotonic()
    while not tail.is_over:
        if tail.is_driven:
            driven_at = time.monotonic()
        elif time.monotonic() - driven_at > ABANDONED_SECONDS:
            return False
        time.sleep(POLL_SECONDS)
        for event in tail.news():
            run.apply(event)
            display.show(event, run)
    return True


def _detached(call: Invocation, session: str) -> int:
    name = session_argument(session)
    note(
        f"Detached: session '{session}' continues.\n"
        f"  Attach: {call.program} attach {name}\n"
        f"  Stop:   {call.program} pause {name}"
    )
    return exit_codes.COMPLETED
