"""Output of commands: text for people, JSON for programs, errors in both formats."""

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
"""The mark and its tone, by the status of a run, a stage or a probe."""


def styled(text: str, tone: str) -> str:
    colour = COLOURS[tone]
    return click.style(text, **colour) if colour and not os.environ.get("NO_COLOR") else text


def marked(status: str) -> str:
    return styled(*MARKS[status])


def is_terminal() -> bool:
    return sys.stdout.isatty()


def hanging(text: str, indent: int, tone: str = "plain") -> str:
    """Text with a hanging indent: on a terminal, wrapped lines start at the same column."""
    import shutil
    import textwrap

    from agentforge.views.text import one_line

    line, room = one_line(text), shutil.get_terminal_size().columns - indent
    if not is_terminal() or room < 30:
        return styled(line, tone)
    lines = textwrap.wrap(line, room, break_long_words=False, break_on_hyphens=False)
    return ("\n" + " " * indent).join(styled(line, tone) for line in lines)


def print_json(value: Any) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def show_error(error: "AgentForgeError", *, as_json: bool) -> int:
    """Print the error and its hint. Returns the exit status."""
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
    """A bug in AgentForge: print one line, and the traceback only with AGENTFORGE_DEBUG=1."""
    if os.environ.get("AGENTFORGE_DEBUG") == "1":
        traceback.print_exception(error)
    message = f"unexpected {type(error).__name__}: {error}"
    hint = "set AGENTFORGE_DEBUG=1 to see the traceback; the run's log is not affected"
    _show({"code": "unexpected", "message": message, "hint": hint}, as_json=as_json)
    return exit_codes.FAILED


def _show(about: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json({"error": about})
        return
    _print_labelled("Error", about["message"], "bad")
    if hint := about.get("hint"):
        _print_labelled("hint", hint, "busy", indent="  ")


@contextmanager
def ignore_closed_stdout() -> Iterator[None]:
    """Print, but don't fail if the pipe or terminal has been closed."""
    try:
        yield
    except OSError:
        drop_stdout()


def drop_stdout() -> None:
    """After stdout was closed: buffered output must not fail at the end of the program."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str) -> None:
    """Print a remark to stderr."""
    click.echo(text, err=True)


def _print_labelled(label: str, text: str, tone: str, indent: str = "") -> None:
    from agentforge.views.text import printable

    lines = [printable(line) for line in text.split("\n")]
    click.echo(f"{indent}{styled(label + ':', tone)} " + "\n".join(lines), err=True)
