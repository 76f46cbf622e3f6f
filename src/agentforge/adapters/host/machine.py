"""Facilities of the machine: its clock, notifications on the desktop, and whether it is shutting down."""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from agentforge.system.programs import Program, run
from agentforge.system.tools import ToolName, find_tool, tool_environment

# The time of day may jump ahead (the machine slept, the time was set): a sleep returns at least this often.
MAX_SLEEP_SECONDS = 30.0
SECONDS = 2.0
# Without one of these there is no desktop to notify, and notify-send may wait long for a bus.
SESSIONS = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(min(seconds, MAX_SLEEP_SECONDS))


def notify(title: str, text: str, environ: Mapping[str, str], project: str = "") -> None:
    """Shows it where that is possible. Nothing depends on it, so errors are ignored."""
    argv = _command(title, text, environ, project)
    if argv is not None:
        run(Program(argv, SECONDS, env=tool_environment(environ, project)))


def _command(title: str, text: str, environ: Mapping[str, str], project: str) -> tuple[str, ...] | None:
    if program := find_tool("osascript", environ, project):
        # JSON's quoting is AppleScript's, too.
        words = (json.dumps(word, ensure_ascii=False) for word in (text, title))
        return (program, "-e", "display notification {} with title {}".format(*words))
    program = find_tool("notify-send", environ, project)
    if program is None or not any(environ.get(name) for name in SESSIONS):
        return None
    return (program, "--", title, text)


QUESTIONS: tuple[tuple[ToolName, tuple[str, ...], Callable[[str], bool]], ...] = (
    ("systemctl", ("is-system-running",), lambda text: text.strip() == "stopping"),
    # It prints the level before and the current one; 0 halts the machine, 6 reboots it.
    ("runlevel", (), lambda text: text.split()[-1:] in (["0"], ["6"])),
)


def is_shutting_down(environ: Mapping[str, str], project: str) -> bool:
    """Whether a signal comes from the system and not from a person. Asks systemd, or another init by its
    runlevel; False if neither can tell, as in a container."""
    env = tool_environment(environ, project)
    for name, arguments, says_so in QUESTIONS:
        program = find_tool(name, environ, project)
        if program and says_so(run(Program((program, *arguments), SECONDS, env=env)).output):
            return True
    return False
