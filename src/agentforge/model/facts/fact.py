"""The base of all facts."""

from typing import ClassVar, TypeVar

from msgspec import Struct, field

_T = TypeVar("_T")


class Fact(Struct, frozen=True, omit_defaults=True):
    """`TYPE` is the event's type in the log, its fields are the event's data."""

    TYPE: ClassVar[str]


def written(default: _T) -> _T:
    """A default that is written to the log all the same, as readers of the log expect the field."""
    return field(default_factory=lambda: default)
