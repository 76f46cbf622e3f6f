"""The tool that runs commands: one program with its arguments, if it is among those that may be run."""

import shlex
from collections.abc import Mapping, Sequence

from agentforge.adapters.api.task import CommandRules
from agentforge.adapters.api.workspace import ToolError, Workspace
from agentforge.host.programs import Ended, NoExit, Program, run_async

EVERYTHING = "*"
GRACE = 2.0
SHELL = ("sh", "-c")
_OPERATORS = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1", "<<", "|&", "&>"})


class CommandTool:
    def __init__(self, workspace: Workspace, rules: CommandRules, environ: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._rules = rules
        self._environ = environ

    async def run_command(self, command: str | list[str], seconds: float | None = None) -> str:
        argv = words(command, self._rules.allow)
        if not is_allowed(argv, self._rules.allow):
            raise ToolError(
                f"{shlex.join(argv)}: not allowed here. Allowed are: {', '.join(self._rules.allow) or 'none'}"
            )
        limit = min(seconds or self._rules.timeout, self._rules.timeout)
        ran = await run_tool(argv, self._workspace.root, self._environ, limit, self._rules.output_bytes)
        said = ran.output.rstrip()
        ended = f"ended after {limit:g} s" if ran.code is None else f"exit status {ran.status}"
        return f"{said}\n[{ended}]" if said else f"[{ended}, no output]"


async def run_tool(argv: Sequence[str], cwd: str, env: Mapping[str, str], seconds: float, most: int) -> Ended:
    """Run a model's program, of whose output at most so many bytes are kept; raises ToolError if it can't be
    started."""
    tool = Program(tuple(argv), seconds, cwd, env, merged=True, max_output=most, grace=GRACE, contained=True)
    ran = await run_async(tool)
    if ran.reason not in (None, NoExit.TIMED_OUT):
        raise ToolError(f"{argv[0]}: {ran.problem.lower()}")
    return ran


def words(command: str | Sequence[str], allow: Sequence[str]) -> list[str]:
    """A line taken apart as a shell would; what only a shell can do needs one that is allowed."""
    if not isinstance(command, str):
        return _checked([str(word) for word in command])
    try:
        split = shlex.split(command)
    except ValueError as error:
        raise ToolError(f"the command can't be taken apart: {error}") from error
    if not any(word in _OPERATORS for word in split):
        return _checked(split)
    by_shell = [*SHELL, command]
    if is_allowed(by_shell, allow):
        return _checked(by_shell)
    raise ToolError(
        "there is no shell here: give one program with its arguments, and run several commands one by one"
    )


def is_allowed(argv: Sequence[str], allow: Sequence[str]) -> bool:
    for entry in allow:
        beginning = shlex.split(entry)
        if entry == EVERYTHING or (beginning and list(argv[: len(beginning)]) == beginning):
            return True
    return False


def _checked(argv: list[str]) -> list[str]:
    if not argv or not argv[0]:
        raise ToolError("the command is empty")
    if any("\0" in word for word in argv):
        raise ToolError("a command can't contain a null character")
    return argv
