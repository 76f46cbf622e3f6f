"""A small terminal: runs a program in it and knows what is on the screen. Enough for our own output."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from types import TracebackType

PATIENCE = 60.0
_SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b[()].|\x1b[=>78]|\x1b\][^\x07]*\x07")
Cell = tuple[str, tuple[str, ...]]
"""A character and the codes of its style."""
BLANK: Cell = (" ", ())


class ScreenState:
    """The characters on the screen."""

    def __init__(self, columns: int, rows: int) -> None:
        self._columns, self._rows = columns, rows
        self._style: tuple[str, ...] = ()
        self._clear()

    def _clear(self) -> None:
        self._cells = [[BLANK] * self._columns for _ in range(self._rows)]
        self._row = self._column = 0

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            if text[at] == "\x1b" and (found := _SEQUENCE.match(text, at)):
                self._control(found[1] or "", found[2] or "")
                at = found.end()
            else:
                self._character(text[at])
                at += 1

    def _character(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._new_line()
        elif character.isprintable():
            if self._column >= self._columns:
                self._column = 0
                self._new_line()
            self._cells[self._row][self._column] = (character, self._style)
            self._column += 1

    def _new_line(self) -> None:
        self._row += 1
        if self._row == self._rows:
            self._cells = [*self._cells[1:], [BLANK] * self._columns]
            self._row -= 1

    def _control(self, parameters: str, kind: str) -> None:
        numbers = [int(number) for number in re.findall(r"\d+", parameters)]
        count = max(1, numbers[0]) if numbers else 1
        match kind:
            case "m":
                self._set_style(parameters)
            case "A" | "B":
                self._row = min(max(0, self._row + (count if kind == "B" else -count)), self._rows - 1)
            case "C" | "D":
                moved = self._column + (count if kind == "C" else -count)
                self._column = min(max(0, moved), self._columns - 1)
            case "G":
                self._column = count - 1
            case "H" | "f":
                row, column, *_ = [*numbers, 1, 1] if len(numbers) < 2 else numbers
                self._row, self._column = min(row, self._rows) - 1, min(column, self._columns) - 1
            case "J" if numbers and numbers[0] >= 2:
                self._cells = [[BLANK] * self._columns for _ in range(self._rows)]
            case "J":
                self._erase_line(0)
                for row in range(self._row + 1, self._rows):
                    self._cells[row] = [BLANK] * self._columns
            case "K":
                self._erase_line(numbers[0] if numbers else 0)
            case "h" if parameters == "?1049":
                self._clear()

    def _erase_line(self, which: int) -> None:
        begin, end = {0: (self._column, self._columns), 1: (0, self._column + 1)}.get(
            which, (0, self._columns)
        )
        for column in range(begin, min(end, self._columns)):
            self._cells[self._row][column] = BLANK

    def _set_style(self, parameters: str) -> None:
        codes = parameters.split(";")
        self._style = () if codes[-1] in ("", "0") else (*(() if codes[0] == "0" else self._style), *codes)

    @property
    def text(self) -> str:
        return "\n".join("".join(character for character, _ in row).rstrip() for row in self._cells)

    def ansi_lines(self) -> list[str]:
        """The lines down to the last one that isn't empty, with codes for their styles."""
        lines = ["".join(_ansi(row)).rstrip() for row in self._cells]
        while lines and not _SEQUENCE.sub("", lines[-1]).strip():
            lines.pop()
        return lines


def _ansi(row: Sequence[Cell]) -> list[str]:
    parts: list[str] = []
    before: tuple[str, ...] = ()
    for character, style in row:
        if style != before:
            parts.append(f"\x1b[0;{';'.join(style)}m" if style else "\x1b[0m")
            before = style
        parts.append(character)
    return [*parts, "\x1b[0m"] if before else parts


class Terminal:
    """A program that runs on a terminal of this size."""

    def __init__(
        self,
        line: Sequence[str],
        folder: str,
        environ: Mapping[str, str],
        columns: int,
        rows: int,
        *,
        spelled: Mapping[str, str],
    ) -> None:
        """`spelled`: texts that are shown in another spelling, such as temporary folders."""
        self._spelled = spelled
        self.screen = ScreenState(columns, rows)
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._process = subprocess.Popen(
            line,
            cwd=folder,
            env={**environ, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(rows)},
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._master)

    def until(self, text: str) -> None:
        """Read until the text is on the screen and nothing more comes for a moment."""
        deadline = time.monotonic() + PATIENCE
        while text not in self.screen.text:
            if time.monotonic() > deadline or not self._read(0.1):
                raise TimeoutError(f"{text!r} never came:\n{self.screen.text}")

    def end(self) -> None:
        """Read until the program ends."""
        while self._read(0.1):
            pass

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def _read(self, seconds: float) -> bool:
        if not select.select([self._master], [], [], seconds)[0]:
            return True
        try:
            found = os.read(self._master, 65536)
        except OSError:
            return False
        text = found.decode("utf-8", "replace")
        for written, shown in self._spelled.items():
            text = text.replace(written, shown)
        self.screen.feed(text)
        return bool(found)
