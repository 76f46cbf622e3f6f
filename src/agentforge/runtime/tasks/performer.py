"""The interface between the driver and the performers of tasks."""

from collections.abc import Callable
from typing import Any, Protocol

from agentforge.model.facts import AnyFact

TaskReport = Callable[[AnyFact], None]
"""Records a fact before the task's outcome; it is durable when this returns."""


class Immediate(Protocol):
    """Performed synchronously."""

    def do(self, task: Any) -> AnyFact: ...


class Performer(Protocol):
    async def perform(self, task: Any, *, fresh: bool, report: TaskReport) -> AnyFact:
        """Perform the task and return its outcome. `fresh`: this engine recorded its intent, so no earlier
        one can have started it; otherwise reattach to the running program, or report the task as lost. A task
        that is `ending` is ended; if it has already finished, its result counts."""
        ...
