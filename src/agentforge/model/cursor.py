"""Positions in a plan."""

from msgspec import Struct


class Cursor(Struct, frozen=True, omit_defaults=True):
    """Where in the plan something happened."""

    node_path: str
    node_run: int
    iteration: int
    provider: str | None = None


class Destination(Struct, frozen=True):
    """The node to enter next."""

    path: str
    rounds: tuple[int, ...] = (1,)
    """The current round of each enclosing pipeline, outermost first."""
