"""Samples become a measure: a median, beside the median of its floor and the aim that was set."""

from collections.abc import Sequence
from statistics import median

from msgspec import Struct


class Measure(Struct, frozen=True):
    name: str
    unit: str
    value: float
    floor: str | None = None
    """A description of the floor."""
    floor_value: float | None = None
    ratio: float | None = None
    aim: str | None = None
    met: bool | None = None


UNITS = {"µs": 1e6, "ms": 1e3}


def timed(name: str, unit: str, seconds: Sequence[float]) -> Measure:
    """A cost by itself."""
    return Measure(name, unit, median(seconds) * UNITS[unit])


def beside(
    name: str,
    unit: str,
    seconds: Sequence[float],
    floor: str,
    floor_seconds: Sequence[float],
    *,
    maximum: float | None = None,
    ceiling: float | None = None,
    more: float | None = None,
) -> Measure:
    """A cost beside its floor; the aim, if any, is a multiple of that floor, and a number of units, of all or
    of what is more than the floor."""
    value, least = median(seconds) * UNITS[unit], median(floor_seconds) * UNITS[unit]
    # Of neighbours in time, not of the medians: the noise of a shared machine then meets both.
    ratio = median(one / floor for one, floor in zip(seconds, floor_seconds, strict=True))
    aim = None if maximum is None else f"≤ {maximum:g} × floor"
    met = None if maximum is None else ratio <= maximum
    if ceiling is not None:
        aim, met = f"{aim}, ≤ {ceiling:g} {unit}", met and value <= ceiling
    if more is not None:
        aim, met = f"{f'{aim}, ' if aim else ''}+ {more:g} {unit}", met is not False and value - least <= more
    return Measure(name, unit, value, floor, least, ratio, aim, met)
