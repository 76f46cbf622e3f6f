"""What all runs of a user spend in a day."""

from collections.abc import Callable
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from agentforge.model.spending import DailyAnswer

Money = Annotated[float, Meta(ge=0)]
"""In US dollars."""


class Reservation(Struct, frozen=True, tag="reserve"):
    """What an attempt or a judge may spend."""

    run: str
    """The id of the run."""
    key: str
    """Of the attempt or the judge, unique in its run."""
    usd: Money
    folder: str
    """Of the run, where its log is."""


class Ledger(Protocol):
    """Raises StorageFailed if it can't be used: what isn't known is not guessed."""

    def reserve(self, asked: Reservation, least: float, cap_on: Callable[[str], float]) -> DailyAnswer:
        """Reserve, durably, the amount or what is left of it, if that is at least `least` and not nothing. A
        reservation that is open under the same key is replaced, so that asking again is safe. `cap_on`: the
        cap of a day."""

    def settle(self, run: str, key: str, usd: float) -> None:
        """An open reservation was used up to this amount; 0 releases it. Others, and those of an earlier day,
        are ignored."""

    def open(self) -> tuple[Reservation, ...]:
        """The reservations of this day that are not settled."""
