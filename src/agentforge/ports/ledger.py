"""What all runs of a user spend in a day, known beyond one run."""

from collections.abc import Mapping
from typing import Annotated, Protocol

from msgspec import Meta, Struct

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


class DailyAnswer(Struct, frozen=True):
    granted: bool
    day: str
    """`2026-10-31`: the day for which it counts."""
    spent_usd: float
    """By all runs on this day."""
    reserved_usd: float
    """By all runs, without what was asked for."""
    cap_usd: float
    """With what was granted for this day."""


class Ledger(Protocol):
    """Raises StorageFailed if it can't be used: what isn't known is not guessed."""

    def reserve(self, asked: Reservation, cap_usd: float, granted: Mapping[str, float] = {}) -> DailyAnswer:
        """Reserve the amount, durably, if it fits into the cap of the day. A reservation that is open under
        the same key is replaced, so that asking again is safe. `granted`: further amounts, by day."""

    def settle(self, run: str, key: str, usd: float) -> None:
        """An open reservation was used up to this amount, of which 0 releases it. Others are ignored, as is
        the day after."""

    def open(self) -> tuple[Reservation, ...]:
        """The reservations of this day that are not settled."""
