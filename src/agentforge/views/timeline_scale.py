"""Where the moments of a run are drawn, and the times beside them."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import accumulate
from math import ceil, inf

from msgspec import Struct

from agentforge.views.text import span
from agentforge.views.timeline import TimelineRow

MIN_GAP = 60.0
"""Seconds without any program; a shorter time is never cut."""
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_STEPS = (
    *(0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30),
    *(minutes * _MINUTE for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * _HOUR for hours in (1, 2, 3, 6, 12)),
    *(days * _DAY for days in (1, 2, 7, 14, 30)),
)
_BUSY = ("attempt", "check", "hook")


class Tick(Struct, frozen=True):
    at: float
    text: str
    is_cut: bool = False
    """Whether it stands for a long time without any program, of which only a part is drawn."""


class Scale:
    """From 0 to 1. At most half of that is for long times in which no program ran: the others are cut."""

    def __init__(self, rows: Sequence[TimelineRow]) -> None:
        """`rows`: all of a run."""
        self._began = rows[0].started_at
        pieces = list(self._pieces(rows))
        gaps = [stop - start for start, stop, is_gap in pieces if is_gap]
        room = pieces[-1][1] - sum(gaps)
        most = room / len(gaps) if sum(gaps) > room > 0 else inf
        self._spans = [(start, stop) for start, stop, _ in pieces]
        self._drawn = [min(stop - start, most if is_gap else inf) for start, stop, is_gap in pieces]
        self._places = list(accumulate(self._drawn, initial=0.0))

    def _pieces(self, rows: Sequence[TimelineRow]) -> Iterator[tuple[float, float, bool]]:
        """From one second to another, and whether no program ran."""
        end, begins, here = rows[0].ended_at, 0.0, 0.0
        busy = sorted((row.started_at, row.ended_at) for row in rows if row.type in _BUSY)
        for started, ended in (*busy, (end, end)):
            if (start := self._seconds(started)) - here >= MIN_GAP:
                yield (begins, here, False)
                yield (here, start, True)
                begins = start
            here = max(here, self._seconds(ended))
        yield (begins, here, False)

    def _seconds(self, when: datetime) -> float:
        return (when - self._began).total_seconds()

    def at(self, when: datetime) -> float:
        return self._at(self._seconds(when))

    def _at(self, seconds: float) -> float:
        n = max(0, bisect_right(self._spans, (seconds, inf)) - 1)
        start, stop = self._spans[n]
        share = (seconds - start) / (stop - start) if stop > start else 0.0
        return (self._places[n] + share * self._drawn[n]) / (self._places[-1] or 1.0)

    def ticks(self, most: int) -> Iterator[Tick]:
        """About as many round times, and all times that are cut."""
        step = next((one for one in _STEPS if one * most >= self._places[-1]), self._places[-1] / most)
        for (start, stop), drawn in zip(self._spans, self._drawn, strict=True):
            if drawn < stop - start:
                yield Tick(self._at((start + stop) / 2), span(stop - start), is_cut=True)
                continue
            number = ceil(start / step)
            while number * step < stop:
                yield Tick(self._at(number * step), _clock(number * step))
                number += 1


def _clock(seconds: float) -> str:
    """`0s`, `0.5s`, `90s` as `1m 30s`, `2m`."""
    return span(seconds).removesuffix(" 00s").removesuffix(" 00m").replace(".0s", "s")
