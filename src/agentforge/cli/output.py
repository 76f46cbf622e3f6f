"""Output of commands: text for people, JSON for programs, errors in both formats."""

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any, TextIO

import click

from agentforge.cli import exit_codes

if TYPE_CHECKING:
    from agentforge.model.errors import AgentForgeError, Execution

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
    "skipped": ("–", "dim"),
    "warning": ("!", "warn"),
    "back": ("←", "warn"),
    "onward": ("→", "dim"),
}
"""The mark and its tone, by the status of a run, a stage or a probe."""


MAX_COLUMNS = 4096

PROGRAM = "agentforge"
_COMMAND = re.compile(rf"(?:(?<=`)|(?<=: )|^){PROGRAM}(?= (?P<verb>[a-z-]*))")
"""The program's name where a command begins in a message."""
Called = str | Callable[[str], str]
"""How a program is called; a function if that depends on the command."""

# Marks the tones in a line; random, so that no text that is shown can contain it.
_MARK = chr(0xF0000 + int.from_bytes(os.urandom(2), "big") % 0xFF00)
_TONES = re.compile(f"{_MARK}(\\w*){_MARK}")


def styled(text: str, tone: str) -> str:
    """A part of a line for `echo`."""
    if not COLOURS[tone] or os.environ.get("NO_COLOR") or is_dumb():
        return text
    # Not as escape codes: `echo` makes those harmless that the text quotes, and couldn't tell ours from them.
    return f"{_MARK}{tone}{_MARK}{text}{_MARK}{_MARK}"


def is_dumb() -> bool:
    """Whether the terminal knows no escape codes."""
    return os.environ.get("TERM", "dumb") in ("", "dumb")


def wrapped(line: str, indent: int = 4, *, err: bool = False) -> list[str]:
    """A line, on a terminal broken at words if it is too long; the lines after the first are indented."""
    from agentforge.views.text import width

    stream = sys.stderr if err else sys.stdout
    room = columns(stream)
    if not stream.isatty() or room < 30 or width(_TONES.sub("", line)) <= room:
        return [line]
    lines, current = [], ""
    for number, word in enumerate(line.split(" ")):
        longer = f"{current} {word}" if number else word
        if current.strip() and width(_TONES.sub("", longer)) > room:
            lines.append(current)
            longer = " " * indent + word
        current = longer
    return [*lines, current]


def echo(*lines: str, err: bool = False) -> None:
    """Print lines to the terminal; the only way to do so. Whatever they quote can't control the terminal."""
    click.echo("\n".join(map(_for_terminal, lines)), err=err)


def echo_wrapped(*lines: str, indent: int = 4) -> None:
    """Print lines, on a terminal broken at words."""
    echo(*(part for line in lines for part in wrapped(line, indent)))


def _for_terminal(line: str) -> str:
    from agentforge.views.text import printable

    parts = _TONES.split(line)
    texts, tones = parts[::2], parts[1::2]
    codes = (click.style("", reset=not tone, **COLOURS.get(tone, {})) for tone in tones)
    return "".join(
        part for text, code in zip(texts, [*codes, ""], strict=True) for part in (printable(text), code)
    )


def echo_json(text: str) -> None:
    click.echo(json_for_terminal(text))


def echo_exact(content: bytes) -> None:
    """For a program that reads our output; not for a terminal."""
    click.echo(content, nl=False)


def json_for_terminal(text: str) -> str:
    """The same JSON, with all control characters escaped."""
    if text.isascii() and "\x7f" not in text:
        return text

    def escaped(char: str) -> str:
        # JSON escapes are UTF-16 units: a character beyond 0xFFFF has two.
        units = char.encode("utf-16-be", "surrogatepass").hex()
        return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))

    return "".join(char if char.isprintable() or char == "\n" else escaped(char) for char in text)


def marked(status: str) -> str:
    return styled(*MARKS[status])


def is_terminal() -> bool:
    return sys.stdout.isatty()


def columns(stream: TextIO | None = None) -> int:
    """Of the terminal; elsewhere, lines are not cut."""
    if not (stream or sys.stdout).isatty():
        return MAX_COLUMNS
    import shutil

    return shutil.get_terminal_size().columns


def local_zone() -> tzinfo:
    zone = datetime.now().astimezone().tzinfo
    assert zone is not None
    return zone


def hanging(text: str, indent: int, tone: str = "plain") -> str:
    """Text with a hanging indent: on a terminal, wrapped lines start at the same column."""
    import textwrap

    from agentforge.views.text import one_line

    line, room = one_line(text), columns() - indent
    if not is_terminal() or room < 30:
        return styled(line, tone)
    lines = textwrap.wrap(line, room, break_long_words=False, break_on_hyphens=False)
    return ("\n" + " " * indent).join(styled(line, tone) for line in lines)


def echo_hanging(text: str) -> None:
    """Print what `hanging` returned, which may have several lines."""
    echo(*text.split("\n"))


def echo_row(label: str, value: str, columns: int, *, indent: int = 2, tone: str = "plain") -> None:
    """Print a label, and its value in a column of its own."""
    from agentforge.views.text import padded

    head = f"{' ' * indent}{styled(padded(f'{label}:', columns), 'dim')}"
    echo_hanging(f"{head} {hanging(value, indent + columns + 1, tone)}")


def print_json(value: Any) -> None:
    import msgspec

    echo_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def show_error(error: "AgentForgeError", *, as_json: bool, program: Called = PROGRAM) -> int:
    """Print the error and its hint, with commands that can be typed as they are. Returns the exit status."""
    about = _about(error, program)
    if error.others:
        about["others"] = [_about(other, program) for other in error.others]
    if diagnostics := getattr(error, "diagnostics", ()):
        about["diagnostics"] = diagnostics
    if diagnostics and not as_json:
        from agentforge.model.diagnostic import ARGUMENTS, render

        only = diagnostics[0]
        if len(diagnostics) == 1 and only.place.file == ARGUMENTS:
            # The line of an excerpt would only repeat the argument.
            about |= {"message": only.message, "hint": only.hint}
        else:
            note(f"{render(diagnostics)}\n")
    if executes := getattr(error, "executes", ()):
        about["executes"] = executes
        if not as_json:
            show_executions(executes)
    _show(about, as_json=as_json)
    return exit_codes.BY_ERROR.get(error.code, exit_codes.FAILED)


def with_program(text: str, program: Called) -> str:
    """The text, with the program as it was called in the commands that it names."""
    return _COMMAND.sub(lambda found: program if isinstance(program, str) else program(found["verb"]), text)


def _about(error: "AgentForgeError", program: Called) -> dict[str, Any]:
    from agentforge.views.orchestration import BY_ERROR

    hint = {"hint": with_program(error.hint, program)} if error.hint else {}
    code = {"orchestration_code": BY_ERROR[error.code]} if error.code in BY_ERROR else {}
    return {"code": error.code, "message": error.message, **hint, **code}


def show_executions(executes: "Sequence[Execution]") -> None:
    """Print what a run would execute to stderr."""
    from agentforge.views.execution import execution_lines

    note("It would execute:")
    for line in execution_lines(executes):
        note(f"  {line}")


def show_usage_error(
    error: click.ClickException, *, as_json: bool, program: Called = PROGRAM, word: str = ""
) -> int:
    """`word`: the command, or the name of a stage that was given instead of `loop`."""
    context = getattr(error, "ctx", None)
    # An option without its value has no context.
    path = context.command_path.removesuffix(" loop") if context else PROGRAM
    typed = path if f" {word} " in f"{path} " else f"{path} {word}".rstrip()
    hint = getattr(error, "hint", "") or f"see `{typed} --help`"
    message = error.format_message()
    if isinstance(error, click.NoSuchOption) and re.fullmatch(r"-\d", error.option_name):
        message = f"a number must be at least 1, got one that begins with '{error.option_name}'"
    message, hint = with_program(message, program), with_program(hint, program)
    _show({"code": "usage", "message": message, "hint": hint}, as_json=as_json)
    return exit_codes.USAGE


def show_unexpected(error: BaseException, *, as_json: bool) -> int:
    """A bug in AgentForge: print one line, and the traceback only with AGENTFORGE_DEBUG=1."""
    if os.environ.get("AGENTFORGE_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    message = f"unexpected {type(error).__name__}: {error}"
    hint = "set AGENTFORGE_DEBUG=1 to see the traceback; the run's log is not affected"
    _show({"code": "unexpected", "message": message, "hint": hint}, as_json=as_json)
    return exit_codes.FAILED


def _show(about: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json({"error": about})
        return
    for one in (about, *about.get("others", ())):
        _print_labelled("Error", one["message"], "bad")
        if hint := one.get("hint"):
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
    # Python flushes stdout when it exits, and would end with status 120 if that fails.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def note(text: str) -> None:
    """Print a remark to stderr."""
    echo(*_wrapped_text(text), err=True)


def _wrapped_text(text: str) -> list[str]:
    """Lines of text for stderr; excerpts of files stay as they are."""
    return [
        part
        for line in text.split("\n")
        for part in ([line] if line.lstrip().startswith("|") else wrapped(line, err=True))
    ]


def _print_labelled(label: str, text: str, tone: str, indent: str = "") -> None:
    echo(*_wrapped_text(f"{indent}{styled(label + ':', tone)} {text}"), err=True)


PATCH_TONES: tuple[tuple[str, str], ...] = (
    *((header, "strong") for header in ("diff --git ", "index ", "old mode", "new mode", "+++", "---")),
    *((header, "strong") for header in ("new file", "deleted file", "similarity", "rename ")),
    *(("+", "good"), ("-", "bad"), ("@@", "busy")),
)
TAB = 8


def echo_patch(patch: bytes) -> None:
    """Print a change: coloured and harmless on a terminal, exact for programs such as `git apply`."""
    if not is_terminal():
        echo_exact(patch)
        return
    for line in patch.decode("utf-8", "replace").removesuffix("\n").split("\n"):
        tone = next((tone for prefix, tone in PATCH_TONES if line.startswith(prefix)), "plain")
        echo(styled(line.expandtabs(TAB), tone))
