"""Small terms that facts, events and the state share."""

from typing import Literal

from msgspec import Struct

RequestKind = Literal["approval", "checkpoint", "question", "escalation", "pause"]
RequestScope = Literal["run", "branch"]
Answerer = Literal["person", "agent"]


class Settings(Struct, frozen=True, omit_defaults=True):
    """What the environment decided for this run when it began, so that a resume decides the same."""

    mock: bool = False
    delay: float | None = None
    """Replaces every stage's delay, as mock mode does."""
    plateau_test: bool = False
    """No judge: the workers' own suspicion of a plateau counts as its word."""
    record: bool = False
    """What agents do is kept as a cassette."""
    replay: float | None = None
    """A cassette is played at this speed instead of asking anybody."""


class Destination(Struct, frozen=True):
    """A node that is to be entered."""

    path: str
    rounds: tuple[int, ...] = (1,)
    """Which time round each pipeline is that it is in, the outermost first."""


class Cursor(Struct, frozen=True, omit_defaults=True):
    """Where in the plan something happened."""

    node_path: str
    node_run: int
    iteration: int
    provider: str | None = None
