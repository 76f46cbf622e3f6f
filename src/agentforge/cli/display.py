"""The display of an attached run. It draws in a separate thread: a slow or stalled terminal never blocks
the run, and a closed one ends the display, not the run."""

import logging
import queue
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from typing import Protocol

from agentforge import Engine
from agentforge.cli.invocation import Invocation
from agentforge.cli.output import drop_stdout, echo, is_dumb, marked, styled, wrapped
from agentforge.model.event import Event
from agentforge.model.facts import SessionStarted
from agentforge.views.lines.acode import acode_lines
from agentforge.views.lines.events import header_lines, run_line
from agentforge.views.lines.row import RunLine
from agentforge.views.run_model import RunModel

log = logging.getLogger("agentforge.display")

STOPPING = (
    f"Stopping: running work has up to {Engine.STOP_GRACE:g} s to finish. "
    "Press Ctrl-C again to stop immediately."
)
ENDING = "Stopping immediately."
ACODE_TONES = {"done": "good", "failed": "bad", "wait": "warn", "back": "warn", "warning": "warn"}
"""By the mark of a line."""


class Painter(Protocol):
    """Draws on a terminal or a stream; called from one thread only."""

    tick_seconds: float | None
    """How often `tick` is called between events, or None for never."""

    def event(self, event: Event, run: RunModel) -> None: ...

    def say(self, text: str) -> None: ...

    def tick(self) -> None: ...

    def end(self) -> None: ...


class Display:
    def __init__(self, painter: Painter | None) -> None:
        self._painter = painter
        # Without a bound: a full queue would make the run wait for a terminal that was stopped with Ctrl-S.
        self._items: queue.SimpleQueue[Callable[[Painter], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._draw, name="display", daemon=True)
        self._thread.start()

    def show(self, event: Event, run: RunModel) -> None:
        """`run`: the run after the event."""
        # A copy, because the model keeps changing while the display thread draws.
        after = copy(run)
        self._items.put(lambda painter: painter.event(event, after))

    def say(self, text: str) -> None:
        self._items.put(lambda painter: painter.say(text))

    def stopping(self, at_once: bool) -> None:
        self.say(ENDING if at_once else STOPPING)

    def close(self) -> None:
        """Show all pending items, then stop."""
        self._items.put(None)
        self._thread.join()

    def _draw(self) -> None:
        painter = self._painter
        while True:
            try:
                item = self._items.get(timeout=painter.tick_seconds if painter else None)
                if item is None:
                    break
                if painter is not None:
                    item(painter)
                # Drawn once for all events that are waiting, not once for each of them.
                if painter is not None and self._items.empty():
                    painter.tick()
            except queue.Empty:
                if painter is not None:
                    painter.tick()
            except BrokenPipeError:
                drop_stdout()
                painter = None
            except Exception:
                # A failing display must not stop the run.
                log.debug("the display failed", exc_info=True)
                painter = None
        if painter is not None:
            with suppress(Exception):
                painter.end()


class PlainLines:
    """A line for each event that matters, for pipes, files and terminals that can't draw."""

    tick_seconds: float | None = None

    def __init__(self, *, name_sessions: bool) -> None:
        self._name_sessions = name_sessions

    def event(self, event: Event, run: RunModel) -> None:
        plan = run.plan
        if plan is None:
            return
        if isinstance(event.fact, SessionStarted):
            echo(*header_lines(plan))
        line = run_line(event, plan, run.state)
        if line is not None:
            session = f"{event.session}: " if self._name_sessions else ""
            at = styled(f"[{event.at.astimezone():%H:%M:%S}]", "dim")
            echo(*wrapped(f"{at} {session}{coloured(line)}"))

    def say(self, text: str) -> None:
        echo(text, err=True)

    def tick(self) -> None:
        """Printed lines don't change."""

    def end(self) -> None:
        sys.stdout.flush()


class AcodeDisplay(Display):
    """The lines of `acode`, on a terminal in colour."""

    def __init__(self) -> None:
        super().__init__(PlainLines(name_sessions=False))

    def show(self, event: Event, run: RunModel) -> None:
        # Made here, not while they are drawn: by then, the history of the run may be a later one, with other
        # titles of steps.
        lines: list[str] = []
        for line in acode_lines(event, run):
            subject = f"{styled(f'[{line.subject}]', 'strong')} " if line.subject else ""
            lines += wrapped(f"{subject}{styled(line.text, ACODE_TONES.get(line.mark, 'plain'))}")
        if lines:
            self._items.put(lambda _: echo(*lines))


def display_for(call: Invocation, *, several: bool = False, follows: bool = False) -> Display:
    """The live display on a terminal, plain lines elsewhere, no output with --json. `follows`: another
    process drives the run."""
    if call.as_json:
        return Display(None)
    if call.is_acode:
        return AcodeDisplay()
    if can_draw() and not several:
        from agentforge.cli.live import LivePainter

        return Display(LivePainter(call.root, call.program, follows=follows))
    return Display(PlainLines(name_sessions=several))


def coloured(line: RunLine) -> str:
    text = f"{styled(line.subject, 'strong')} {line.text}" if line.subject else line.text
    return f"{marked(line.mark)} {text}"


def can_draw() -> bool:
    return sys.stdout.isatty() and not is_dumb()
