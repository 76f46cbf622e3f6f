"""The base of all facts."""

from typing import ClassVar, TypeVar

from msgspec import Struct, field

from agentforge.model.course import CourseStep

_T = TypeVar("_T")


class Fact(Struct, frozen=True, omit_defaults=True):
    """`TYPE` is the event's type in the log, its fields are the event's data."""

    TYPE: ClassVar[str]
    EXTERNAL: ClassVar[bool] = False
    """Whether a person or the host caused it: no plan decides it, and it is not the outcome of a task."""
    FOLLOWS_ERROR: ClassVar[bool] = False
    """Whether it may be a consequence of an error: it does not show that the error is over."""

    def step(self) -> CourseStep | None:
        """The step of the run's course that it is, without its place; None: it isn't part of the course."""
        return None


def written(default: _T) -> _T:
    """A default that is written to the log all the same, as readers of the log expect the field."""
    return field(default_factory=lambda: default)
