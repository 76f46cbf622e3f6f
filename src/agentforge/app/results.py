"""Runs in lists, open requests and the findings of `doctor`, as the SDK returns them: plain data."""

from datetime import datetime
from typing import Literal, get_args

from msgspec import Struct

from agentforge.model.request import Request
from agentforge.views.results import ShownStatus
from agentforge.views.status import RunningCheck, WaitStatus


class OpenRequest(Struct, frozen=True):
    """A request of a run that is not answered yet."""

    session: str
    status: ShownStatus
    """Of the run."""
    request: Request
    stage: str
    """The stage or block that asked; empty if the whole run did."""
    branch: str | None = None
    """The provider whose branch asked, inside a parallel block."""
    is_own: bool = True
    """Whether the run was started here; others are answered only after they are trusted."""


class RunRow(Struct, frozen=True):
    """A run in a list."""

    session: str
    status: ShownStatus | Literal["unknown"]
    """`unknown`: this version can't read its log."""
    updated_at: datetime
    stage: str
    iterations: int
    pipeline: str
    archived_from: str | None = None
    """The name of this run before it was archived, or None."""
    requests: tuple[Request, ...] = ()
    """The open ones."""
    waiting: tuple[WaitStatus, ...] = ()
    """The stages of a running run that wait for a retry or for a limit to reset."""
    check: RunningCheck | None = None
    """The check that a running run is running."""
    answered: bool = False
    """Whether the run waits although a request was answered, or its time is over: `recover` continues it."""


ProbeLevel = Literal["ok", "note", "warning", "broken"]
Group = Literal[
    "machine",
    "project",
    "tools",
    "agents",
    "environment",
    "models",
    "sandboxes",
    "providers",
    "hooks",
    "settings",
]
"""In the order in which they are shown."""
GROUPS = get_args(Group)


class Probe(Struct, frozen=True):
    """One finding about this machine, project or environment, with the exact fix."""

    group: Group
    name: str
    level: ProbeLevel
    found: str
    fix: str = ""
