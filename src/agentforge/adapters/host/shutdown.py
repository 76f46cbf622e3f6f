"""Whether the machine is shutting down, so that a signal comes from the system and not from a person."""

from collections.abc import Callable, Mapping

from agentforge.system.programs import Program, run
from agentforge.system.tools import ToolName, find_tool, tool_environment

SECONDS = 2.0


def _is_level_of_shutdown(text: str) -> bool:
    """`runlevel` prints the level before and the current one; 0 halts the machine, 6 reboots it."""
    return text.split()[-1:] in (["0"], ["6"])


QUESTIONS: tuple[tuple[ToolName, tuple[str, ...], Callable[[str], bool]], ...] = (
    ("systemctl", ("is-system-running",), lambda text: text.strip() == "stopping"),
    ("runlevel", (), _is_level_of_shutdown),
)


def is_shutting_down(environ: Mapping[str, str], project: str) -> bool:
    """Asks systemd, or another init by its runlevel. False if neither can tell, as in a container."""
    env = tool_environment(environ, project)
    for name, arguments, says_so in QUESTIONS:
        program = find_tool(name, environ, project)
        if program and says_so(run(Program((program, *arguments), SECONDS, env=env)).output):
            return True
    return False
