"""Positions in a plan."""

from msgspec import Struct


class Cursor(Struct, frozen=True, omit_defaults=True):
    """Where in the plan something happened."""

    node_path: str
    node_run: int
    iteration: int
    provider: str | None = None


class Destination(Struct, frozen=True):
    """A node that is to be entered."""

    path: str
    rounds: tuple[int, ...] = (1,)
    """Which time round each pipeline is that it is in, the outermost first."""
