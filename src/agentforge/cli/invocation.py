"""What every command is told: which project, which session, in which form to print, how to log."""

import os
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from agentforge.model.errors import InvalidRequest

if TYPE_CHECKING:
    from agentforge import RunRow, Runs


Decorated = TypeVar("Decorated", bound=Callable[..., Any])

LOG_LEVELS = ("debug", "info", "warn", "error")
LOG_FORMATS = ("pretty", "json")
MAX_CANDIDATES = 50
OPEN_STATUSES = frozenset({"running", "interrupted", "paused", "awaiting_approval"})


class Invocation:
    """One call of the program. Options may stand before or after the command's name."""

    def __init__(self, name: str = "agentforge") -> None:
        self.name = name
        """What the program was called as."""
        self.project = os.environ.get("PROJECT_ROOT") or "."
        self.as_json = False
        self.log_level: str | None = None
        self.log_format: str | None = None

    @property
    def runs(self) -> "Runs":
        from agentforge import Runs

        return Runs(self.root, os.environ)

    @property
    def latest(self) -> "Sequence[RunRow]":
        """The runs that are considered when none is named, the latest first."""
        return [row for row in self.runs.rows(MAX_CANDIDATES) if row.kept_from is None]

    @property
    def root(self) -> str:
        """The project's folder, absolute; refused if there is none."""
        root = os.path.abspath(self.project)
        if not os.path.isdir(root):
            raise InvalidRequest(f"there is no folder {root}", hint="give the project with -C DIR")
        return root

    @property
    def program(self) -> str:
        """How to call this program for the same project from where the caller is."""
        if self.root == os.getcwd():
            return self.name
        import shlex

        return f"{self.name} -C {shlex.quote(self.root)}"


def invocation(context: click.Context | None = None) -> Invocation:
    found: Invocation = (context or click.get_current_context()).find_root().obj
    return found


def _keep(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is None or value is False:
        return
    root = context.find_root()
    if root.obj is None:
        root.obj = Invocation()
    setattr(root.obj, str(parameter.name), value)


def options_of(*options: Callable[[Decorated], Decorated]) -> Callable[[Decorated], Decorated]:
    """Several options as one decorator; help lists them in this order."""

    def decorate(command: Decorated) -> Decorated:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


record_option = click.option(
    "--record", is_flag=True, help="Keep what the agents do as a cassette, for `replay`."
)
json_option = click.option(
    "--json", "as_json", is_flag=True, callback=_keep, expose_value=False, help="Print JSON for programs."
)
project_options = options_of(
    click.option(
        "-C",
        "--project",
        metavar="DIR",
        callback=_keep,
        expose_value=False,
        help="The project's folder.  [default: $PROJECT_ROOT or the current folder]",
    ),
    json_option,
)
"""The options of commands that look at runs."""
engine_options = options_of(
    project_options,
    click.option(
        "--log-level",
        type=click.Choice(LOG_LEVELS, case_sensitive=False),
        callback=_keep,
        expose_value=False,
        help="What is logged to stderr.  [default: $AGENT_PIPELINES_LOG_LEVEL; "
        "else warn on a terminal, info otherwise]",
    ),
    click.option(
        "--log-format",
        type=click.Choice(LOG_FORMATS, case_sensitive=False),
        callback=_keep,
        expose_value=False,
        help="[default: pretty on a terminal, json otherwise]",
    ),
)
"""The options of commands that drive runs."""


def choose_session(call: Invocation, named: str | None, fitting: Collection[str], doing: str) -> str:
    """`fitting`: the statuses that make sense for what is being done, as in `to resume`."""
    if named is not None:
        return named
    rows = call.latest
    fit = [row for row in rows if row.status in fitting]
    if len(fit) == 1:
        return fit[0].session
    if not fit:
        raise InvalidRequest(f"there is no session {doing} in {call.root}", hint=_known(rows))
    raise InvalidRequest(
        f"several sessions are there {doing}: {_named(fit)}", hint="name one of them, as in the list"
    )


def choose_session_to_show(call: Invocation, named: str | None) -> str:
    """For commands that only look: the only run that isn't over, else the only one at all."""
    if named is not None:
        return named
    rows = call.latest
    going_on = [row for row in rows if row.status not in ("completed", "aborted")]
    for fit in (going_on, rows):
        if len(fit) == 1:
            return fit[0].session
    if not rows:
        raise InvalidRequest(f"there are no sessions in {call.root} yet", hint=_known(rows))
    raise InvalidRequest(f"which session? {_named(going_on or rows)}", hint="name one of them")


def _named(rows: "Sequence[RunRow]") -> str:
    return ", ".join(f"{row.session} ({row.status})" for row in rows)


def _known(rows: "Sequence[RunRow]") -> str:
    if not rows:
        return "begin one with `agentforge run -p FILE`"
    return f"the latest: {_named(rows[:5])}"
