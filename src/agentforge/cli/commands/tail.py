"""`agentforge tail`, `logs` and `attach`: follow a run."""

import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click

from agentforge.cli.controls import continued_by
from agentforge.cli.invocation import (
    ABANDONED_SECONDS,
    Invocation,
    WholeNumber,
    choose_session,
    choose_session_to_show,
    invocation,
    options_of,
    project_options,
)
from agentforge.cli.output import echo, echo_json, local_zone, note, styled, wrapped
from agentforge.model.errors import AgentForgeError
from agentforge.model.facts import PlanFact
from agentforge.views.lines.events import event_json, event_line, output_json
from agentforge.views.status import resume_command_of
from agentforge.views.text import MAX_LINE, counted, shortened

if TYPE_CHECKING:
    from agentforge import AgentAttempt, AgentLine
    from agentforge.model.event import Event
    from agentforge.model.plan import Plan


POLL_SECONDS = 0.2
AFTER_TIME = len("[HH:MM:SS] ")
TONES = {
    **dict.fromkeys(("error", "session_failed"), "bad"),
    **dict.fromkeys(("attempt_lost", "retry_scheduled", "limit_met", "provider_changed"), "warn"),
    **dict.fromkeys(("session_paused", "request_opened"), "warn"),
    **dict.fromkeys(("iteration_complete", "node_complete", "session_complete"), "good"),
    **dict.fromkeys(("session_start", "node_start"), "strong"),
}


_options = options_of(
    click.argument("session", required=False),
    click.argument("count", metavar="[LINES]", type=WholeNumber(min=0), required=False),
    click.option(
        "--lines", type=WholeNumber(min=0), help="Number of past events to show first.  [default: 50]"
    ),
    click.option(
        "--follow/--no-follow",
        default=True,
        help="Wait for new events until the run stops.  [default: follow]",
    ),
)


@click.command()
@_options
@click.option("--output", is_flag=True, help="Also show the agents' output, before the event that ends it.")
@project_options
def tail(session: str | None, count: int | None, lines: int | None, follow: bool, output: bool) -> None:
    """Follow the events of a run until it stops.

    With --json, prints each event as one line of JSON, with the same keys as in the log, and each line of
    output as an object of type `output`.
    """
    _watch(session, lines if lines is not None else count, follow=follow, output=output)


@click.command()
@_options
@project_options
def logs(session: str | None, count: int | None, lines: int | None, follow: bool) -> None:
    """Follow the events of a run and its agents' output.

    The same as `agentforge tail --output`.
    """
    _watch(session, lines if lines is not None else count, follow=follow, output=True)


def _watch(session: str | None, lines: int | None, *, follow: bool, output: bool) -> None:
    call = invocation()
    watch = Watch(call, choose_session_to_show(call, session), output=output)
    try:
        written = os.environ.get("EVENTS_TAIL_LINES", "")
        default = int(written) if written.isascii() and written.isdigit() else 50
        watch.show_past(default if lines is None else lines)
        if follow:
            watch.follow()
    except KeyboardInterrupt:
        # The usual way to stop watching.
        return


class Watch:
    def __init__(self, call: Invocation, session: str, *, output: bool) -> None:
        from agentforge import Tail

        self._session = session
        self._plan: Plan | None = None
        self._tail = Tail(call.runs, session)
        with suppress(AgentForgeError):
            call.runs.info(session)  # Repairs its files; a damaged run is shown as far as it can be read.
        self._output = None
        if output:
            # Imported only here: it imports the providers, whose output it reads.
            from agentforge import OutputTail

            self._output = OutputTail(call.runs.project, os.environ)
        self._as_json = call.as_json
        self._zone = local_zone()

    def show_past(self, count: int) -> None:
        # The whole log is read, since earlier events have the plan and say which output was shown; the last
        # are kept.
        past: deque[tuple[Event, Sequence[AgentAttempt], Plan | None]] = deque(maxlen=count)
        total = 0
        for event, ended in self._news():
            past.append((event, ended, self._plan))
            total += 1
        if left_out := total - len(past):
            note(f"… {counted(left_out, 'earlier event')}; --lines {total} shows all")
        for event, ended, plan in past:
            self._show(event, ended, plan)
        self._show_running()

    def follow(self) -> None:
        abandoned_at: float | None = None
        while not self._tail.is_over:
            driven = self._tail.is_driven
            for event, ended in self._news():
                self._show(event, ended, self._plan)
                driven = True
            self._show_running()
            abandoned_at = None if driven else abandoned_at or time.monotonic()
            if abandoned_at and time.monotonic() - abandoned_at > ABANDONED_SECONDS:
                call = invocation()
                info = call.runs.info(self._session)
                command = resume_command_of(self._session, info.state, info.status, call.program)
                then = continued_by(info, str(command))
                note(f"Session '{self._session}' has no active engine; run {then}.")
                return
            time.sleep(POLL_SECONDS)

    def _news(self) -> "Iterator[tuple[Event, Sequence[AgentAttempt]]]":
        """New events, each with the attempts that it ends."""
        for event in self._tail.news():
            if isinstance(event.fact, PlanFact):
                self._plan = event.fact.plan
            yield event, self._output.apply(event) if self._output else ()

    def _show(self, event: "Event", ended: "Sequence[AgentAttempt]", plan: "Plan | None") -> None:
        for attempt in ended:
            assert self._output is not None
            self._show_output(self._output.rest(attempt, event))
        if self._as_json:
            echo_json(event_json(event).decode())
            return
        line = event_line(event, self._zone, plan)
        tone = TONES.get(line.type, "plain")
        text = f"{styled(f'[{line.time}]', 'dim')} {styled(line.type, tone)} {line.details}"
        echo(*wrapped(text.rstrip(), AFTER_TIME))

    def _show_running(self) -> None:
        if self._output:
            self._show_output(self._output.news())

    def _show_output(self, lines: "Iterator[AgentLine]") -> None:
        for line in lines:
            if self._as_json:
                echo_json(output_json(self._session, line.cursor, line.attempt, line.text).decode())
                continue
            branch = line.cursor.provider
            text = f"{branch}: {line.text}" if branch else line.text
            echo(*wrapped(styled(f"  │ {shortened(text, MAX_LINE)}", "dim")))


@click.command()
@click.argument("session", required=False)
@project_options
def attach(session: str | None) -> int:
    """Follow a running session with the live display.

    Ctrl-C detaches: the run continues. When the run stops, prints the outcome and exits with
    the run's exit status.
    SESSION can be omitted if only one session is running.
    """
    from agentforge.cli.attached import follow_run

    call = invocation()
    return follow_run(call, choose_session(call, session, {"running"}, "to attach to"))
