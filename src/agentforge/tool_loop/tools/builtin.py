"""The tools of a model: workspace files, allowed commands, and search."""

import shlex
import sys
from collections.abc import Mapping, Sequence

import msgspec

from agentforge.system.confined import FolderEntry
from agentforge.system.git import git_argv, git_environment
from agentforge.system.programs import NoExit, Program, ProgramResult, run_async
from agentforge.tool_loop.task import CommandRules, program_argv
from agentforge.tool_loop.tools.command_rules import allowed_words, is_reading_git, refuse_escapes
from agentforge.tool_loop.tools.search import SECONDS
from agentforge.tool_loop.workspace import ToolError, WorkspaceFolder

READ_BYTES = 256 * 1024
EDIT_BYTES = 4 * 1024 * 1024
MAX_ENTRIES = 1000
GRACE = 2.0
SHELL = ("sh", "-c")
_OPERATORS = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1", "<<", "|&", "&>"})
OUTPUT_BYTES = 128 * 1024


class FileTools:
    def __init__(self, workspace: WorkspaceFolder) -> None:
        self._workspace = workspace
        self.touched: list[str] = []
        """Written files, in the order of their first write."""

    def read_file(self, path: str, first_line: int = 1, lines: int | None = None) -> str:
        content, size = self._workspace.read(path, EDIT_BYTES)
        rest = _text(path, content).splitlines(keepends=True)[max(first_line, 1) - 1 :]
        chosen = "".join(rest if lines is None else rest[: max(lines, 0)])
        encoded = chosen.encode()
        if len(encoded) <= READ_BYTES and size <= EDIT_BYTES:
            return chosen
        kept = encoded[:READ_BYTES].decode("utf-8", "ignore")
        return f"{kept}\n[truncated: the file has {size} bytes; continue with first_line and lines]"

    def write_file(self, path: str, content: str) -> str:
        data = content.encode("utf-8", "replace")
        self._note(self._workspace.write(path, data))
        return f"wrote {path} ({len(data)} bytes)"

    def edit_file(self, path: str, old: str, new: str) -> str:
        if not old:
            raise ToolError("`old` is empty; give the text to replace, or use write_file")
        content, size = self._workspace.read(path, EDIT_BYTES)
        if size > EDIT_BYTES:
            raise ToolError(f"{path}: too large to edit ({size} bytes)")
        text = _text(path, content)
        found = text.count(old)
        if found != 1:
            raise ToolError(
                f"{path}: `old` occurs {found} times and must occur exactly once; "
                + ("read the file and copy the text exactly" if not found else "add lines around it")
            )
        self._note(self._workspace.write(path, text.replace(old, new).encode("utf-8", "replace")))
        return f"edited {path}"

    def list_directory(self, path: str = ".") -> str:
        entries = self._workspace.entries(path)
        shown = [_line(entry) for entry in entries[:MAX_ENTRIES]]
        if len(entries) > MAX_ENTRIES:
            shown.append(f"[{len(entries) - MAX_ENTRIES} more]")
        return "\n".join(shown) or "(empty)"

    def _note(self, path: str) -> None:
        if path not in self.touched:
            self.touched.append(path)


def _text(path: str, content: bytes) -> str:
    if b"\0" in content[:8192]:
        raise ToolError(f"{path}: is a binary file")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.end >= len(content) - 1 and len(content) >= EDIT_BYTES:
            return content.decode("utf-8", "ignore")
        raise ToolError(f"{path}: is not UTF-8 text") from error


def _line(entry: FolderEntry) -> str:
    match entry.kind:
        case "folder":
            return f"{entry.name}/"
        case "file":
            return f"{entry.name} ({entry.size} bytes)"
        case kind:
            return f"{entry.name} ({kind})"


class CommandTool:
    def __init__(self, workspace: WorkspaceFolder, rules: CommandRules, environ: Mapping[str, str]) -> None:
        self._workspace = workspace
        self._rules = rules
        self._environ = environ

    async def run_command(self, command: str | list[str], seconds: float | None = None) -> str:
        argv = split_command(command, self._rules.allow)
        named = allowed_words(argv, self._rules.allow)
        if named is None:
            raise ToolError(
                f"{shlex.join(argv)}: not allowed. Allowed commands: {', '.join(self._rules.allow) or 'none'}"
            )
        environ = self._environ
        if named:
            refuse_escapes(argv, named, self._workspace.root)
            if is_reading_git(argv):
                argv, environ = _isolated_git(argv), git_environment(environ)
        limit = min(seconds or self._rules.timeout, self._rules.timeout)
        ran = await run_tool(argv, self._workspace.root, environ, limit, self._rules.output_bytes)
        output = ran.output.rstrip()
        ended = f"timed out after {limit:g} s" if ran.code is None else f"exit status {ran.status}"
        return f"{output}\n[{ended}]" if output else f"[{ended}, no output]"


def _isolated_git(argv: Sequence[str]) -> list[str]:
    """A reading command without the repository's own programs."""
    no_programs = ("--no-ext-diff", "--no-textconv") if argv[1] in ("diff", "log", "show", "blame") else ()
    return [*git_argv(argv[1], *no_programs), *argv[2:]]


async def run_tool(
    argv: Sequence[str], cwd: str, env: Mapping[str, str], seconds: float, max_output: int
) -> ProgramResult:
    """Run a model's program, keeping at most `max_output` bytes of output; raises ToolError if it can't be
    started."""
    tool = Program(
        tuple(argv), seconds, cwd, env, merged=True, max_output=max_output, grace=GRACE, contained=True
    )
    ran = await run_async(tool)
    if ran.reason not in (None, NoExit.TIMED_OUT):
        raise ToolError(f"{argv[0]}: {ran.problem.lower()}")
    return ran


def split_command(command: str | Sequence[str], allow: Sequence[str]) -> list[str]:
    """Split a line as a shell would; shell operators require that a shell is allowed."""
    if not isinstance(command, str):
        return _checked([str(word) for word in command])
    try:
        split = shlex.split(command)
    except ValueError as error:
        raise ToolError(f"can't parse the command: {error}") from error
    if not any(word in _OPERATORS for word in split):
        return _checked(split)
    by_shell = [*SHELL, command]
    if allowed_words(by_shell, allow) is not None:
        return _checked(by_shell)
    raise ToolError(
        "no shell is available: pass one program with its arguments, and run several commands one by one"
    )


def _checked(argv: list[str]) -> list[str]:
    if not argv or not argv[0]:
        raise ToolError("the command is empty")
    if any("\0" in word for word in argv):
        raise ToolError("a command can't contain a null character")
    return argv


class SearchTool:
    def __init__(self, workspace: WorkspaceFolder, environ: Mapping[str, str]) -> None:
        self._root = workspace.root
        self._environ = environ

    async def search_code(self, pattern: str, path: str = ".", files: str = "*") -> str:
        query = msgspec.json.encode([self._root, pattern, path, files]).decode()
        argv = program_argv(sys.executable, "search", query)
        ran = await run_tool(argv, self._root, self._environ, SECONDS + 5, OUTPUT_BYTES)
        if ran.code is None:
            raise ToolError("the search timed out: use a simpler pattern or a narrower path")
        if ran.code:
            raise ToolError(ran.output.strip() or "the search failed")
        return ran.output.rstrip("\n")
