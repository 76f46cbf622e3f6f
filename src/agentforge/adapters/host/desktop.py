"""Desktop notifications, where available. Nothing depends on them, so errors are ignored."""

import json
from collections.abc import Mapping

from agentforge.system.programs import Program, run
from agentforge.system.tools import find_tool, tool_environment

SECONDS = 2.0
# Without one of these there is no desktop to notify, and notify-send may wait long for a bus.
SESSIONS = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS")


def notify(title: str, text: str, environ: Mapping[str, str], project: str = "") -> None:
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
