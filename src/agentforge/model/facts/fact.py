"""The base of all facts."""

from typing import ClassVar

from msgspec import Struct


class Fact(Struct, frozen=True, omit_defaults=True):
    """`TYPE` is the event's type in the log, its fields are the event's data."""

    TYPE: ClassVar[str]
