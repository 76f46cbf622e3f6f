"""`agentforge tail`: follow the events of a run."""

import os
import time
from collections import deque
from typing import TYPE_CHECKING

import click

from agentforge.cli.commands.status import local_zone
from agentforge.cli.invocation import Invocation, choose_session_to_show, invocation, project_options
from agentforge.cli.output import echo, echo_json, note, styled
from agentforge.views.lines.tail import event_json, event_line
from agentforge.views.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentforge import Tail
    from agentforge.model.event import Event


POLL_SECONDS = 0.2
MAX_OUTPUT_CHARS = 400
ABANDONED_SECONDS = 2.0
"""How long an unfinished run may be without an engine before tail stops waiting for it."""
TONES = {
    **dict.fromkeys(("error", "session_failed"), "bad"),
    **dict.fromkeys(("attempt_lost", "retry_scheduled", "limit_met", "provider_changed"), "warn"),
    **dict.fromkeys(("session_paused", "request_opened"), "warn"),
    **dict.fromkeys(("iteration_complete", "node_complete", "session_complete"), "good"),
    **dict.fromkeys(("session_start", "node_start"), "strong"),
}


@click.command()
@click.argument("session", required=False)
@click.argument("count", metavar="[LINES]", type=click.IntRange(min=0), required=False)
@click.option(
    "--lines", type=click.IntRange(min=0), help="Number of past events to show first.  [default: 50]"
)
@click.option(
    "--follow/--no-follow", default=True, help="Wait for new events until the run stops.  [default: follow]"
)
@click.option("--output", is_flag=True, help="Also stream the agents' output while following.")
@project_options
def tail(session: str | None, count: int | None, lines: int | None, follow: bool, output: bool) -> None:
    """Follow the events of a run until it stops.

    With --json, prints each event as one line of JSON, with the same keys as in the log.
    """
    from agentforge import Tail

    call = invocation()
    name = choose_session_to_show(call, session)
    place = Tail(call.runs, name)
    shown = next(number for number in (lines, count, _default_lines()) if number is not None)
    show = _printer(as_json=call.as_json)
    try:
        for event in deque(place.news(), maxlen=shown):
            show(event)
        if follow:
            _follow(place, show, name, _output_printer(call, name) if output and not call.as_json else None)
    except KeyboardInterrupt:
        # The usual way to stop watching.
        return


def _follow(
    place: "Tail", show: "Callable[[Event], None]", name: str, show_output: "Callable[[], None] | None"
) -> None:
    abandoned_at: float | None = None
    while not place.is_over:
        if show_output:
            show_output()
        driven = place.is_driven
        for event in place.news():
            show(event)
            driven = True
        abandoned_at = None if driven else abandoned_at or time.monotonic()
        if abandoned_at and time.monotonic() - abandoned_at > ABANDONED_SECONDS:
            note(f"Session '{name}' has no active engine; run `agentforge recover {name}`.")
            return
        time.sleep(POLL_SECONDS)


def _output_printer(call: Invocation, name: str) -> "Callable[[], None]":
    from agentforge import AgentOutput

    output = AgentOutput(call.runs.project, os.environ)

    def show() -> None:
        info = call.runs.info(name)
        for branch, text in output.news(info.plan, info.state):
            line = one_line(f"{branch}: {text}" if branch else text, MAX_OUTPUT_CHARS)
            echo(styled(f"  │ {line}", "dim"))

    return show


def _printer(*, as_json: bool) -> "Callable[[Event], None]":
    zone = local_zone()

    def as_line(event: "Event") -> None:
        line = event_line(event, zone)
        tone = TONES.get(line.type, "plain")
        echo(f"{styled(f'[{line.time}]', 'dim')} {styled(line.type, tone)} {line.details}".rstrip())

    return (lambda event: echo_json(event_json(event).decode())) if as_json else as_line


def _default_lines() -> int:
    written = os.environ.get("EVENTS_TAIL_LINES", "")
    return int(written) if written.isascii() and written.isdigit() else 50
