"""What a command prints: text for people, JSON for programs, errors in both forms."""

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from agentforge.cli import exit_codes

if TYPE_CHECKING:
    from agentforge.model.errors import AgentForgeError

COLOURS: dict[str, dict[str, Any]] = {
    "plain": {},
    "good": {"fg": "green"},
    "busy": {"fg": "cyan"},
    "warn": {"fg": "yellow"},
    "bad": {"fg": "red"},
    "dim": {"dim": True},
    "strong": {"bold": True},
}
MARKS = {
    **dict.fromkeys(("begin", "current"), ("▸", "busy")),
    **dict.fromkeys(("done", "ok"), ("✓", "good")),
    **dict.fromkeys(("failed", "broken"), ("✗", "bad")),
    **dict.fromkeys(("wait", "stopped"), ("‖", "warn")),
    **dict.fromkeys(("note", "waiting"), ("·", "dim")),
    "warning": ("!", "warn"),
}
"""By what became of a run, a stage or something that was probed: the mark, and its tone."""


def styled(text: str, tone: str) -> str:
    colour = COLOURS[tone]
    return click.style(text, **colour) if colour and not os.environ.get("NO_COLOR") else text


def marked(what: str) -> str:
    return styled(*MARKS[what])


def is_terminal() -> bool:
    return sys.stdout.isatty()


def hanging(text: str, indent: int, tone: str = "plain") -> str:
    """Text that begins at a column and, on a terminal, goes on there in its next line."""
    import shutil
    import textwrap

    from agentforge.views.text import one_line

    words, room = one_line(text), shutil.get_terminal_size().columns - indent
    if not is_terminal() or room < 30:
        return styled(words, tone)
    lines = textwrap.wrap(words, room, break_long_words=False, break_on_hyphens=False)
    return ("\n" + " " * indent).join(styled(line, tone) for line in lines)


def print_json(value: Any) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def show_error(error: "AgentForgeError", *, as_json: bool) -> int:
    """Say what is wrong and what to do next; the exit status that goes with it."""
    about: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.hint:
        about["hint"] = error.hint
    if diagnostics := getattr(error, "diagnostics", ()):
        about["diagnostics"] = diagnostics
    if diagnostics and not as_json:
        from agentforge.model.diagnostic import render

        click.echo(render(diagnostics), err=True)
        click.echo(err=True)
    _show(about, as_json=as_json)
    return exit_codes.BY_ERROR.get(error.code, exit_codes.FAILED)


def show_usage_error(error: click.ClickException, *, as_json: bool) -> int:
    context = getattr(error, "ctx", None)
    hint = getattr(error, "hint", "") or (f"{context.command_path} --help" if context else "")
    _show({"code": "usage", "message": error.format_message(), "hint": hint}, as_json=as_json)
    return exit_codes.USAGE


def show_unexpected(error: BaseException, *, as_json: bool) -> int:
    """A defect of ours: one line, never a page of code, unless asked for."""
    if os.environ.get("AGENTFORGE_DEBUG") == "1":
        traceback.print_exception(error)
    message = f"unexpected {type(error).__name__}: {error}"
    hint = "set AGENTFORGE_DEBUG=1 to see the details; the run's log is safe"
    _show({"code": "unexpected", "message": message, "hint": hint}, as_json=as_json)
    return exit_codes.FAILED


def _show(about: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json({"error": about})
        return
    _say("Error", about["message"], "bad")
    if hint := about.get("hint"):
        _say("hint", hint, "busy", indent="  ")


@contextmanager
def while_read() -> Iterator[None]:
    """Print as long as somebody reads it; a closed pipe or terminal is no failure of what is being done."""
    try:
        yield
    except OSError:
        drop_stdout()


def drop_stdout() -> None:
    """Nobody reads stdout any more: what is still buffered must not fail at the end of the program."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str) -> None:
    """A remark beside the output proper."""
    click.echo(text, err=True)


def _say(label: str, text: str, tone: str, indent: str = "") -> None:
    from agentforge.views.text import printable

    lines = [printable(line) for line in text.split("\n")]
    click.echo(f"{indent}{styled(label + ':', tone)} " + "\n".join(lines), err=True)
