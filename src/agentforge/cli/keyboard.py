"""Reads keys from a terminal, one at a time and without waiting for Enter."""

import os
import select
import sys
import termios
import tty
from types import TracebackType
from typing import Any

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
    """Use it as a context: on exit, the terminal is as it was."""

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
