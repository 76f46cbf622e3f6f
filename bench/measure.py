"""Converts samples to a measure: the median, the median of its floor, and the target."""

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
    """A cost without a floor."""
    return Measure(name, unit, median(seconds) * UNITS[unit])


def beside(
    name: str,
    unit: str,
    seconds: Sequence[float],
    floor: str,
    floor_seconds: Sequence[float],
    *,
    max_ratio: float | None = None,
) -> Measure:
    """A cost compared with its floor; the target, if any, is a multiple of the floor."""
    value, least = median(seconds) * UNITS[unit], median(floor_seconds) * UNITS[unit]
    # The ratio of neighbours in time, not of the medians: noise then affects both equally.
    ratio = median(one / floor for one, floor in zip(seconds, floor_seconds, strict=True))
    aim = None if max_ratio is None else f"≤ {max_ratio:g} × floor"
    met = None if max_ratio is None else ratio <= max_ratio
    return Measure(name, unit, value, floor, least, ratio, aim, met)
