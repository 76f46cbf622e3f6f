"""The screen of `top`, drawn with Rich: a table of runs, and keys that act on the selected one."""

import logging
import os
import select
import signal
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table

from agentforge import SyncEngine
from agentforge.cli import exit_codes
from agentforge.cli.attached import follow_run
from agentforge.cli.controls import cancel_text, pause_text
from agentforge.cli.invocation import Invocation
from agentforge.cli.live import STYLES, shown
from agentforge.cli.output import echo, note
from agentforge.model.errors import AgentForgeError
from agentforge.views.lines.status import STATUS_TONES
from agentforge.views.text import one_line
from agentforge.views.top import HEADS, TopRow, column_widths, totals

# Terminals send one of two codes for an arrow, depending on the mode of the cursor keys.
_NAMES = {
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1bOB": "down",
    b"\r": "enter",
    b"\n": "enter",
    b"\x1b": "escape",
    b"\x04": "q",
}
_SEQUENCE = 3


class Keyboard:
    """Reads keys, one at a time and without waiting for Enter. Use it as a context: on exit, the terminal is
    as it was."""

    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno()
        self._before: list[Any] = []
        self._pending = b""

    def __enter__(self) -> "Keyboard":
        self._before = termios.tcgetattr(self._descriptor)
        # Keys that were typed before count, too.
        tty.setcbreak(self._descriptor, termios.TCSADRAIN)
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._before)

    def key(self, seconds: float) -> str | None:
        """The next key: `up`, `down`, `enter`, `escape` or a character, or None if no key is pressed in that
        time. Raises EOFError if the terminal is closed."""
        if not self._pending:
            if not select.select([self._descriptor], [], [], seconds)[0]:
                return None
            # Several keys may have been typed, and one key may send a sequence of bytes.
            self._pending = os.read(self._descriptor, 1024)
            if not self._pending:
                raise EOFError
        return self._next()

    def _next(self) -> str:
        for length in (_SEQUENCE, 1):
            head = self._pending[:length]
            if head in _NAMES:
                self._pending = self._pending[length:]
                return _NAMES[head]
        if self._pending.startswith(b"\x1b"):
            # Another key that sends a sequence.
            self._pending = b""
            return "other"
        head, self._pending = self._pending[:1], self._pending[1:]
        return head.decode("ascii", "replace")


TICK_SECONDS = 0.25
REFRESH_SECONDS = 1.0
KEYS = "↑↓ select   a attach   s show   p pause   c cancel   q quit"
AROUND = 6
"""Lines that are not rows of the table."""


class TopScreen:
    def __init__(self, call: Invocation, rows: Callable[[], Sequence[TopRow]]) -> None:
        self._call = call
        self._current = rows
        self._console = Console(highlight=False)
        self._rows: Sequence[TopRow] = ()
        self._selected = ""
        self._message = ""
        self._to_cancel = ""
        """The session that the user is asked about."""
        self._is_suspended = False
        """Whether Ctrl-Z was pressed."""

    def run(self) -> None:
        """Draw until the user quits."""
        # Messages of the engine would be printed across the screen; its errors are shown below the table.
        logging.getLogger("agentforge").addHandler(logging.NullHandler())
        with _on_signal(signal.SIGTERM, _exit):
            leave: Callable[[], object] | None = self._draw()
            while leave is not None:
                leave()
                leave = self._draw()

    def _draw(self) -> Callable[[], object] | None:
        """Draw until a key leaves the screen. Returns what to do instead, or None to quit."""
        read_at = 0.0
        with (
            _on_signal(signal.SIGTSTP, self._suspend),
            Keyboard() as keyboard,
            # A signal while the screen is entered would leave it behind.
            _held(signal.SIGTERM) as release,
            Live(console=self._console, screen=True, auto_refresh=False, redirect_stderr=False) as live,
        ):
            release()
            try:
                while True:
                    if time.monotonic() - read_at > REFRESH_SECONDS:
                        self._rows = self._current()
                        names = [row.session for row in self._rows]
                        # The selection follows the run, not the line: the order changes while runs do.
                        if self._selected not in names:
                            self._selected = names[0] if names else ""
                        read_at = time.monotonic()
                    live.update(self._picture(), refresh=True)
                    key = keyboard.key(TICK_SECONDS)
                    if self._is_suspended:
                        self._is_suspended = False
                        return lambda: os.kill(os.getpid(), signal.SIGTSTP)
                    if key == "q" and not self._to_cancel:
                        return None
                    if key is not None and (leave := self._press(key)):
                        return leave
                    # A key may have changed a run.
                    read_at = read_at if key is None else 0.0
            except (KeyboardInterrupt, EOFError):
                return None

    def _suspend(self, _number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z; the screen is left before the process stops."""
        self._is_suspended = True

    def _press(self, key: str) -> Callable[[], object] | None:
        session, self._message = self._selected, ""
        # While the person is asked to confirm, every key but `y` means no.
        if self._to_cancel:
            asked, self._to_cancel = self._to_cancel, ""
            if key in ("y", "Y"):
                self._act(lambda engine: cancel_text(asked, cancelled=engine.cancel(asked) is not None))
        elif key in ("up", "k", "down", "j"):
            if names := [row.session for row in self._rows]:
                position = names.index(session) + (-1 if key in ("up", "k") else 1)
                self._selected = names[min(max(0, position), len(names) - 1)]
        elif not session:
            return None
        elif key in ("a", "enter"):
            return lambda: self._attach(session)
        elif key == "s":
            return lambda: self._show(session)
        elif key == "p":
            self._act(lambda engine: _pause(engine, session))
        elif key == "c":
            self._to_cancel = session
        return None

    def _act(self, act: Callable[[SyncEngine], str]) -> None:
        try:
            with SyncEngine(self._call.root) as engine:
                self._message = act(engine)
        except AgentForgeError as error:
            self._message = error.message

    def _attach(self, session: str) -> None:
        try:
            follow_run(self._call, session)
        except AgentForgeError as error:
            self._message = error.message
            return
        _wait_for_key()

    def _show(self, session: str) -> None:
        context = click.get_current_context()
        group = context.find_root().command
        assert isinstance(group, click.Group)
        command = group.get_command(context, "show")
        assert command is not None
        try:
            context.invoke(command, session=session)
        except AgentForgeError as error:
            note(error.message)
        _wait_for_key()

    def _picture(self) -> RenderableType:
        head = shown(f"AgentForge  {self._call.root}", "bold")
        if not self._rows:
            return Group(head, shown(""), shown("No runs yet."), shown(""), shown("q quit", "dim"))
        below = shown(KEYS, "dim")
        if self._to_cancel:
            below = shown(f"Cancel session '{self._to_cancel}'? It can't be resumed. [y/N]", "yellow")
        elif self._message:
            below = shown(self._message, "yellow")
        return Group(head, shown(totals(self._rows), "dim"), shown(""), self._table(), shown(""), below)

    def _table(self) -> Table:
        # The rows around the selected one if there are too many to show.
        room = max(1, self._console.height - AROUND)
        names = [row.session for row in self._rows]
        first = min(max(0, names.index(self._selected) - room // 2), max(0, len(names) - room))
        rows = self._rows[first : first + room]
        lines = [HEADS, *(tuple(one_line(cell, 200) for cell in row.cells) for row in rows)]
        table = Table.grid(padding=(0, 1))
        table.add_column(width=1)
        columns = column_widths(lines, self._console.width - 2)
        for width in columns:
            table.add_column(width=width, no_wrap=True, overflow="ellipsis")
        for row, line in zip((None, *rows), lines, strict=True):
            texts = [shown(cell, "bold" if row is None else "") for cell in line[: len(columns)]]
            is_selected = row is not None and row.session == self._selected
            if row is not None:
                texts[1].stylize(STYLES.get(STATUS_TONES.get(row.status, "plain"), ""))
            table.add_row("›" if is_selected else "", *texts, style="reverse" if is_selected else "")
        return table


@contextmanager
def _held(number: signal.Signals) -> Iterator[Callable[[], object]]:
    """Hold back a signal until it is released."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _on_signal(number: signal.Signals, act: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = signal.signal(number, act)
    try:
        yield
    finally:
        signal.signal(number, before)


def _exit(number: int, _frame: FrameType | None) -> None:
    """By an exception, so that the terminal is restored."""
    raise SystemExit(exit_codes.of_signal(signal.Signals(number)))


def _pause(engine: SyncEngine, session: str) -> str:
    engine.pause(session)
    return pause_text(session, driven=engine.runs.info(session).status == "running")


def _wait_for_key() -> None:
    with Keyboard() as keyboard:
        echo("", "Press any key to return to the list.")
        try:
            while keyboard.key(60.0) is None:
                pass
        except (KeyboardInterrupt, EOFError):
            return
