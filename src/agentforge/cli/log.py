"""A run's log: `log verify` says whether it is whole, `tail` shows its events as they are written."""

import os
import time
from collections import deque
from typing import TYPE_CHECKING

import click
from msgspec.structs import asdict

from agentforge.cli import exit_codes
from agentforge.cli.invocation import Invocation, invocation, looking, to_look_at
from agentforge.cli.output import note, print_json, styled
from agentforge.cli.status import local_zone
from agentforge.views.lines.tail import event_json, event_line
from agentforge.views.text import counted, one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from agentforge.app.runs.lookup import LogReport, Tail
    from agentforge.model.event import Event


SHOWN_LINES = 20
LIMITS = "This finds accidents, not tampering: whoever can write the file can write a chain that fits."
POLL_SECONDS = 0.2
WORDS_CHARS = 400
ABANDONED_SECONDS = 2.0
"""How long nobody may drive a run that hasn't stopped before tail stops waiting for it."""
TONES = {
    **dict.fromkeys(("error", "session_failed"), "bad"),
    **dict.fromkeys(("attempt_lost", "retry_scheduled", "limit_met", "provider_changed"), "warn"),
    **dict.fromkeys(("session_paused", "request_opened"), "warn"),
    **dict.fromkeys(("iteration_complete", "node_complete", "session_complete"), "good"),
    **dict.fromkeys(("session_start", "node_start"), "strong"),
}


@click.group()
def log() -> None:
    """Look at the log of a run, the one file that matters."""


@log.command()
@click.argument("session", required=False)
@looking
def verify(session: str | None) -> int:
    """Check every line of a run's log, its chain, and the data that lies beside it.

    Finds accidents (lost, doubled, swapped or edited lines), not tampering.
    """

    call = invocation()
    name = to_look_at(call, session)
    report = call.runs.verify(name)
    if call.as_json:
        print_json({"session": name, "intact": report.is_intact, **asdict(report)})
    else:
        _print(name, report)
    return exit_codes.COMPLETED if report.is_intact else exit_codes.FAILED


def _print(name: str, report: "LogReport") -> None:
    amount = f"{counted(report.events, 'event')} on {counted(report.lines, 'line')}"
    if report.is_intact:
        click.echo(f"{styled('✓ intact', 'good')}: the log of session '{name}' holds {amount}")
    else:
        lost = counted(len(report.damage), "damaged line")
        click.echo(f"{styled('✗ damaged', 'bad')}: the log of session '{name}' holds {amount}, {lost}")
    for damage in report.damage[:SHOWN_LINES]:
        click.echo(f"  line {damage.line}: {one_line(damage.reason)}")
    if len(report.damage) > SHOWN_LINES:
        click.echo(f"  and {len(report.damage) - SHOWN_LINES} more")
    if report.payloads:
        click.echo(f"  {counted(report.payloads, 'payload')} beside the log")
    if report.torn is not None:
        click.echo(f"  {report.torn.bytes} bytes of a torn last line, which the next run puts aside")
    click.echo(f"  head: event {report.head.seq}, {report.head.hash}")
    click.echo(styled(LIMITS, "dim"))


@click.command()
@click.argument("session", required=False)
@click.argument("count", metavar="[LINES]", type=click.IntRange(min=0), required=False)
@click.option(
    "--lines", type=click.IntRange(min=0), help="How many past events to show first.  [default: 50]"
)
@click.option("--follow/--no-follow", default=True, help="Wait for more until the run stops.  [default: yes]")
@click.option("--words", is_flag=True, help="Also what the agents at work say, while following.")
@looking
def tail(session: str | None, count: int | None, lines: int | None, follow: bool, words: bool) -> None:
    """Follow the events of a run until it stops.

    With --json each event is one line of JSON under the keys that it has in the log.
    """
    from agentforge.app.runs.lookup import Tail

    call = invocation()
    name = to_look_at(call, session)
    place = Tail(call.runs, name)
    shown = next(number for number in (lines, count, _default_lines()) if number is not None)
    show = _printer(as_json=call.as_json)
    try:
        for event in deque(place.news(), maxlen=shown):
            show(event)
        if follow:
            _follow(place, show, name, _listener(call, name) if words and not call.as_json else None)
    except KeyboardInterrupt:
        # The usual way to stop watching.
        return


def _follow(
    place: "Tail", show: "Callable[[Event], None]", name: str, listen: "Callable[[], None] | None"
) -> None:
    left_since: float | None = None
    while not place.is_over:
        if listen:
            listen()
        driven = place.is_driven
        for event in place.news():
            show(event)
            driven = True
        left_since = None if driven else left_since or time.monotonic()
        if left_since and time.monotonic() - left_since > ABANDONED_SECONDS:
            note(f"Nobody drives session '{name}' now: `agentforge recover {name}` recovers it.")
            return
        time.sleep(POLL_SECONDS)


def _listener(call: Invocation, name: str) -> "Callable[[], None]":
    from agentforge.app.agent_output import AgentWords

    heard = AgentWords(call.runs.project, os.environ)

    def listen() -> None:
        info = call.runs.info(name)
        for branch, said in heard.news(info.plan, info.state):
            words = one_line(f"{branch}: {said}" if branch else said, WORDS_CHARS)
            click.echo(styled(f"  │ {words}", "dim"))

    return listen


def _printer(*, as_json: bool) -> "Callable[[Event], None]":
    zone = local_zone()

    def as_line(event: "Event") -> None:
        line = event_line(event, zone)
        tone = TONES.get(line.type, "plain")
        click.echo(f"{styled(f'[{line.time}]', 'dim')} {styled(line.type, tone)} {line.details}".rstrip())

    return (lambda event: click.echo(event_json(event))) if as_json else as_line


def _default_lines() -> int:
    written = os.environ.get("EVENTS_TAIL_LINES", "")
    return int(written) if written.isascii() and written.isdigit() else 50
