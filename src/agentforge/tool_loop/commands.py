"""The commands that a model may run, and how they are run: those that the allow-list names, without the
options that lead out of the workspace or start other programs.

This guides a careless model. A hostile one can write any code into a test and run it; only a sandbox confines
it.
"""

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from agentforge.system.git import git_argv, git_environment
from agentforge.system.programs import NoExit, Program, ProgramResult, run_async
from agentforge.tool_loop.task import CommandRules, program_argv
from agentforge.tool_loop.workspace import SEARCH_SECONDS, ToolError, WorkspaceFolder

# Three checks, as each misses what the next one finds. The first words of a command must be on the list. Then
# its options must not start programs or lead elsewhere (`_ESCAPES`); for git's reading commands the harmless
# options are listed instead, so that one that a newer git adds is refused. Then no word may be a path outside
# of the workspace, which also a link in it can lead to.
#
# Words that the user's own list names are not checked: who allows `make -C ../other` means it.
#
# A line is split as a shell would, but runs without one. Operators are refused unless the list allows a
# shell: passed on as arguments, they would do something else than the model meant.

GRACE = 2.0
SHELL = ("sh", "-c")
OUTPUT_BYTES = 128 * 1024
_OPERATORS = frozenset({"|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1", "<<", "|&", "&>"})
EVERYTHING: Final = "*"
READING: Final = frozenset({"status", "diff", "log", "show", "ls-files", "blame"})
"""Commands of git that only read; they also start no program that the repository configures."""

_OF_COMMITS: Final = (
    "abbrev abbrev-commit after all ancestry-path author author-date-order before boundary branches cherry "
    "cherry-mark cherry-pick children committer count date date-order decorate decorate-refs "
    "decorate-refs-exclude encoding exclude expand-tabs first-parent follow format full-diff full-history "
    "graph grep all-match invert-grep basic-regexp extended-regexp fixed-strings perl-regexp "
    "regexp-ignore-case glob left-only left-right line-prefix log-size mailmap max-count max-parents merge "
    "merges min-parents no-abbrev no-abbrev-commit no-decorate no-expand-tabs no-mailmap no-max-parents "
    "no-merges no-min-parents no-notes no-walk not notes oneline parents patch-with-stat pretty reflog "
    "relative-date remotes remove-empty reverse right-only show-linear-break simplify-by-decoration "
    "simplify-merges since since-as-filter skip source sparse tags topo-order until walk-reflogs"
)
_OF_DIFFERENCES: Final = (
    "anchored binary break-rewrites cached cc check color color-moved color-moved-ws color-words "
    "combined-all-paths compact-summary cumulative diff-algorithm diff-filter diff-merges dirstat "
    "dirstat-by-file dst-prefix exit-code find-copies find-copies-harder find-object find-renames "
    "full-index function-context histogram ignore-all-space ignore-blank-lines ignore-cr-at-eol "
    "ignore-matching-lines ignore-space-at-eol ignore-space-change ignore-submodules indent-heuristic "
    "inter-hunk-context irreversible-delete ita-invisible-in-index merge-base minimal name-only name-status "
    "no-color no-color-moved no-diff-merges no-ext-diff no-indent-heuristic no-patch no-prefix no-relative "
    "no-rename-empty no-renames no-textconv numstat output-indicator-context output-indicator-new "
    "output-indicator-old patch patch-with-raw patience pickaxe-all pickaxe-regex quiet raw relative "
    "rename-empty shortstat skip-to src-prefix staged stat stat-count stat-graph-width stat-name-width "
    "stat-width submodule summary text unified word-diff word-diff-regex ws-error-highlight"
)
_OF_FILES: Final = (
    "ahead-behind branch column ignored long no-ahead-behind no-column null porcelain renames short "
    "show-stash untracked-files verbose "
    "deduplicate deleted directory eol error-unmatch exclude-standard full-name killed "
    "modified no-empty-directory others recurse-submodules resolve-undo stage unmerged with-tree "
    "incremental line-porcelain root score-debug show-email show-name show-number show-stats progress "
    "no-progress ignore-rev"
)
_PLAIN_OPTIONS: Final = frozenset(f"{_OF_COMMITS} {_OF_DIFFERENCES} {_OF_FILES}".split())
"""Long options of the reading commands, as whole words: none of them names a file outside of the repository,
a program or a place to write to."""
_SHORT_WITH_VALUE: Final = {"blame": "LMC", "ls-files": "x", "status": "uM"}
_SHORT_WITH_FILE: Final = {"blame": "OS", "ls-files": "OX"}
"""Of the reading commands, apart from the options of diff: what follows the letter in the same word is its
value, or the value is a file to read."""

_ESCAPES: Final = {
    "git": (
        *("--no-index", "--output", "--output-directory", "--contents", "--ext-diff", "--textconv", "--exec"),
        *("--open-files-in-pager", "--upload-pack", "--receive-pack", "--pathspec-from-file", "--template"),
        *("--config", "--config-env", "--exec-path", "--git-dir", "--work-tree", "--separate-git-dir"),
        "-O",
    ),
    "pytest": ("--basetemp",),
    "make": ("--eval", "-E", "SHELL", ".SHELLFLAGS"),
    "npm": ("--script-shell", "--node-options"),
    "go": ("-exec", "-toolexec", "-vettool", "--exec", "--toolexec", "--vettool"),
    "cargo": ("--config",),
    "mypy": ("--python-executable", "--custom-typeshed-dir"),
    "find": ("-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"),
    "fd": ("--exec", "--exec-batch", "-x", "-X"),
    "rg": ("--pre", "--hostname-bin", "--search-zip", "-z"),
    "sort": ("--compress-program", "--output", "-o"),
    "tar": ("--to-command", "--use-compress-program", "--checkpoint-action", "--info-script", "-I", "-F"),
}
"""Options that start another program, lead elsewhere or write to a file of the model's choice."""
_ABBREVIATING: Final = frozenset({"git", "make", "sort", "tar", "pytest", "mypy"})
"""Programs that accept the beginning of a long option."""


def allowed_words(argv: Sequence[str], allow: Sequence[str]) -> int | None:
    """How many words of the command the user's list names; None: it isn't allowed, 0: `*` allows it."""
    lengths = []
    for entry in allow:
        if entry == EVERYTHING:
            return 0
        prefix = shlex.split(entry)
        if prefix and list(argv[: len(prefix)]) == prefix:
            lengths.append(len(prefix))
    return max(lengths, default=None)


def refuse_escapes(argv: Sequence[str], named: int, root: str) -> None:
    """Raises ToolError; words that the user's list names are not checked."""
    name = _program(argv)
    for word in argv[named:]:
        if is_reading_git(argv) and word.startswith("-"):
            wrong = _reads_elsewhere(argv[1], word)
        else:
            wrong = _escapes(name, word) or _leads_out(word, root)
        # Options before the command of git change its settings, or the repository.
        if wrong or (name == "git" and word == argv[1] and word.startswith("-")):
            raise ToolError(
                f"{word}: not allowed for {name}; commands stay in the workspace and start no other program"
            )


def is_reading_git(argv: Sequence[str]) -> bool:
    return len(argv) > 1 and argv[0] == "git" and argv[1] in READING


def _program(argv: Sequence[str]) -> str:
    """`pytest` of `python -m pytest`."""
    name = os.path.basename(argv[0])
    return argv[2] if name.startswith("python") and len(argv) > 2 and argv[1] == "-m" else name


def _reads_elsewhere(command: str, word: str) -> bool:
    if word.startswith("--"):
        return word.partition("=")[0][2:] not in {"", *_PLAIN_OPTIONS}
    for letter in word[1:]:
        if letter in _SHORT_WITH_FILE.get(command, "O"):
            return True
        if letter in _SHORT_WITH_VALUE.get(command, "SGLIXnUMCBl"):
            return False
    return False


def _escapes(name: str, word: str) -> bool:
    option = word.partition("=")[0]
    for escape in _ESCAPES.get(name, ()):
        if option == escape or (len(escape) == 2 and word.startswith(escape)):
            return True
        if (
            name in _ABBREVIATING
            and len(option) > 3
            and escape.startswith("--")
            and escape.startswith(option)
        ):
            return True
    return False


def _leads_out(word: str, root: str) -> bool:
    """Whether the word, or the value of an option or variable, is a path outside of the workspace, also
    through a link."""
    for value in {word, word.partition("=")[2], word[2:] if word.startswith("-") else ""}:
        path = os.path.realpath(os.path.join(root, value))
        if value != os.devnull and path != root and not path.startswith(root.rstrip("/") + "/"):
            return True
    return False


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
                # The settings of a repository name programs for differences and conversions, which an agent
                # may have written: a command that only reads must not start them.
                differs = argv[1] in ("diff", "log", "show", "blame")
                no_programs = ("--no-ext-diff", "--no-textconv") if differs else ()
                argv = [*git_argv(argv[1], *no_programs), *argv[2:]]
                environ = git_environment(environ)
        limit = min(seconds or self._rules.timeout, self._rules.timeout)
        ran = await run_tool(argv, self._workspace.root, environ, limit, self._rules.output_bytes)
        output = ran.output.rstrip()
        ended = f"timed out after {limit:g} s" if ran.code is None else f"exit status {ran.status}"
        return f"{output}\n[{ended}]" if output else f"[{ended}, no output]"


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
        # A pattern can take for ever, and Python can't interrupt its own matching: a process can be ended.
        query = msgspec.json.encode([self._root, pattern, path, files]).decode()
        argv = program_argv(sys.executable, "search", query)
        ran = await run_tool(argv, self._root, self._environ, SEARCH_SECONDS + 5, OUTPUT_BYTES)
        if ran.code is None:
            raise ToolError("the search timed out: use a simpler pattern or a narrower path")
        if ran.code:
            raise ToolError(ran.output.strip() or "the search failed")
        return ran.output.rstrip("\n")
