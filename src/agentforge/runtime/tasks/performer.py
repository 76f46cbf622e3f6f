"""What the driver asks of whatever performs a kind of task."""

from collections.abc import Callable
from typing import Any, Protocol

from agentforge.model.facts import AnyFact

TaskReport = Callable[[AnyFact], None]
"""Records something that happened before the task's outcome."""


class Immediate(Protocol):
    """Done on the spot: nothing is waited for."""

    def do(self, task: Any) -> AnyFact: ...


class Performer(Protocol):
    async def perform(self, task: Any, *, fresh: bool, report: TaskReport) -> AnyFact:
        """Do the task to its outcome. `fresh`: its intent was recorded by this very engine, so no earlier one
        can have started it; otherwise reattach to what is running, or say that it was lost. A task that is
        `ending` is ended; if it had finished by itself, what it finished counts."""
        ...
