"""The options that all commands share: project, session, output format, logging."""

import os
import sys
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentforge.cli.output import PROGRAM, echo, note, print_json, with_program
from agentforge.model.errors import InvalidRequest
from agentforge.model.layout import RUNS
from agentforge.model.status import status_text

if TYPE_CHECKING:
    from agentforge import RunRow, Runs


Decorated = TypeVar("Decorated", bound=Callable[..., Any])

LOG_LEVELS = ("debug", "info", "warn", "error")
LOG_FORMATS = ("pretty", "json")
ACODE = "acode"
MAX_CANDIDATES = 50
MAX_OTHERS = 5
OPEN_STATUSES = frozenset({"running", "interrupted", "paused", "awaiting_approval"})
ABANDONED_SECONDS = 2.0
"""How long an unfinished run may be without an engine before a command that follows it stops waiting."""


class Invocation:
    """One call of the program. Options may come before or after the command's name."""

    def __init__(self, name: str = PROGRAM, path: str = "", own: Collection[str] = ()) -> None:
        self.name = name
        """The name that the program was called by."""
        self._path = path
        self.own = frozenset(own)
        """Commands of `agentforge` that the program has, too; empty if it is `agentforge` itself."""
        self.project = os.environ.get("PROJECT_ROOT") or "."
        self.as_json = False
        self.log_level: str | None = None
        self.log_format: str | None = None
        self.word = ""
        """The name of the command as it was typed, or of the stage in its place."""
        self.background: str | None = None
        """The session that this process drives in the background."""

    @property
    def completion_variable(self) -> str:
        """The variable by which the script of a shell asks for names."""
        return f"_{self.name.replace('-', '_').upper()}_COMPLETE"

    @property
    def runs(self) -> "Runs":
        from agentforge.cli.repaired_runs import RepairedRuns

        return RepairedRuns(self.root, os.environ)

    @property
    def latest(self) -> "Sequence[RunRow]":
        """The runs to choose from when none is named, latest first."""
        return [row for row in self.runs.rows(MAX_CANDIDATES) if row.archived_from is None]

    @property
    def root(self) -> str:
        """The project's folder as an absolute path. Raises InvalidRequest if it doesn't exist."""
        return existing_folder(self.project, "with -C DIR")

    @property
    def program(self) -> str:
        """The command that calls `agentforge` for the same project from the current folder."""
        return self.program_of("")

    def program_of(self, verb: str) -> str:
        """The same for a command: of this program, if it has it."""
        import shlex

        name = self.name_of(verb)
        path = self._path if name == self.name else os.path.join(os.path.dirname(self._path), name)
        typed = module_call(sys.orig_argv) if os.path.basename(self._path) == "__main__.py" else ""
        typed = typed or (name if _is_on_path(name, path) else shlex.quote(path))
        return typed if self.root == os.getcwd() else f"{typed} -C {shlex.quote(self.root)}"

    def name_of(self, verb: str) -> str:
        """The name of the program that has the command."""
        return self.name if not self.own or verb in self.own else PROGRAM

    @property
    def is_acode(self) -> bool:
        """Whether runs are shown with the lines of `acode`."""
        return self.name == ACODE

    def named(self, text: str) -> str:
        """The text, with commands that can be typed as they are."""
        return with_program(text, self.program_of)

    def report(self, value: Any, *lines: str) -> None:
        """Print what a command did: as JSON, or as text."""
        if self.as_json:
            print_json(value)
        else:
            echo(*lines)


def _is_on_path(name: str, path: str) -> bool:
    """Whether the name alone calls that program."""
    if os.path.basename(path) != name or os.sep not in path:
        return True
    import shutil

    found = shutil.which(name)
    return found is not None and os.path.realpath(found) == os.path.realpath(path)


def module_call(line: Sequence[str]) -> str:
    """`python -m agentforge`, as it was typed; empty if the line is another."""
    import shlex

    for end, pair in enumerate(pairwise(line), 2):
        if pair == ("-m", "agentforge"):
            return shlex.join(line[:end])
    return ""


class HintedUsageError(click.UsageError):
    """A usage error with a hint of its own, in place of the one that names --help."""

    def __init__(self, message: str, hint: str, context: click.Context | None = None) -> None:
        super().__init__(message, context)
        self.hint = hint


def existing_folder(path: str, option: str) -> str:
    """The project's folder as an absolute path. Raises InvalidRequest if it doesn't exist."""
    try:
        root = os.path.abspath(path)
    except FileNotFoundError:
        raise InvalidRequest(
            "the current folder no longer exists", hint=f"change to another folder, or give one {option}"
        ) from None
    if not os.path.isdir(root):
        raise InvalidRequest(f"project folder not found: {root}", hint=f"give an existing folder {option}")
    return root


def invocation(context: click.Context | None = None) -> Invocation:
    found: Invocation = (context or click.get_current_context()).find_root().obj
    return found


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    # An option may come before or after the name of the command: the place without it must not reset the
    # other.
    if value is None or value is False:
        return
    root = context.find_root()
    if root.obj is None:
        root.obj = Invocation()
    setattr(root.obj, str(parameter.name), value)


def _trust(context: click.Context, parameter: click.Parameter, value: bool) -> None:  # noqa: ARG001 - Click's
    if value:
        from agentforge import refuse_agent

        refuse_agent(os.environ, trust_project=True)
        # Also for an engine in the background.
        os.environ["AGENTFORGE_TRUST_PROJECT"] = "1"


def options_of(*options: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    """Several options as one decorator; --help lists them in this order."""

    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


json_option = click.option(
    "--json", "as_json", is_flag=True, callback=_keep, expose_value=False, help="Print JSON."
)


class WholeNumber(click.IntRange):
    """Click's own messages call this type "integer range"."""

    name = "integer"


project_options = options_of(
    click.option(
        "-C",
        "--project",
        metavar="DIR",
        callback=_keep,
        expose_value=False,
        help="Project folder.  [default: $PROJECT_ROOT or the current folder]",
    ),
    json_option,
)
"""The options of read-only commands."""
trust_option = click.option(
    "--trust-project",
    is_flag=True,
    callback=_trust,
    expose_value=False,
    help="Let the project override built-in providers, and say who is notified.",
)
engine_options = options_of(
    project_options,
    trust_option,
    click.option("--background", hidden=True, metavar="SESSION", callback=_keep, expose_value=False),
    click.option(
        "--log-level",
        type=click.Choice(LOG_LEVELS, case_sensitive=False),
        callback=_keep,
        expose_value=False,
        help="Minimum level to log to stderr; info also logs the run's events.  "
        "[default: $AGENT_PIPELINES_LOG_LEVEL, or warn; with --json, info, unless stderr is a terminal]",
    ),
    click.option(
        "--log-format",
        type=click.Choice(LOG_FORMATS, case_sensitive=False),
        callback=_keep,
        expose_value=False,
        help="Log format.  [default: pretty; with --json, json, unless stderr is a terminal]",
    ),
)
"""The options of commands that drive runs."""


def choose_session(call: Invocation, named: str | None, statuses: Collection[str], purpose: str) -> str:
    """The named session, or the only one with one of the statuses. `purpose`: as in `to resume`."""
    if named is not None:
        return named
    note_others(call)
    rows = call.latest
    matching = [row for row in rows if row.status in statuses]
    if len(matching) == 1:
        return matching[0].session
    if not matching:
        raise InvalidRequest(f"no session {purpose} in {call.root}", hint=_known(rows))
    raise InvalidRequest(f"more than one session {purpose}: {_named(matching)}", hint="specify one of them")


def choose_session_to_show(call: Invocation, named: str | None) -> str:
    """For read-only commands: the named session, else the only unfinished one, else the only one."""
    if named is not None:
        return named
    note_others(call)
    rows = call.latest
    unfinished = [row for row in rows if row.status not in ("completed", "aborted")]
    for matching in (unfinished, rows):
        if len(matching) == 1:
            return matching[0].session
    if not rows:
        raise InvalidRequest(f"no sessions in {call.root} yet", hint=_known(rows))
    raise InvalidRequest(f"more than one session: {_named(unfinished or rows)}", hint="specify one of them")


def note_others(call: Invocation) -> None:
    """Report what is in the folder of the runs and isn't a run, and agents whose run has no readable log."""
    from agentforge.views.text import one_line

    for session, pids in call.runs.lost_agents().items():
        left = " ".join(pids)
        note(
            f"Agents of session '{one_line(session, 40)}', which has no readable log, are still running"
            f" (PID {left}); `kill {left}` ends them."
        )
    others = call.runs.not_runs()
    shown = [f"'{one_line(name, 40)}' ({reason})" for name, reason in list(others.items())[:MAX_OTHERS]]
    more = [f"{len(others) - MAX_OTHERS} more"] if len(others) > MAX_OTHERS else []
    if others:
        note(f"Skipped in {RUNS}, not a run: {', '.join(shown + more)}")


def _named(rows: "Sequence[RunRow]") -> str:
    return ", ".join(f"{row.session} ({status_text(row.status, row.requests)})" for row in rows)


def _known(rows: "Sequence[RunRow]") -> str:
    if not rows:
        return 'start one with `agentforge run "REQUEST"`'
    return f"latest sessions: {_named(rows[:5])}"
