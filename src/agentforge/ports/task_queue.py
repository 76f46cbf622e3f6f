"""The external queue of tasks that a queue stage processes, shared with the agents."""

from typing import Protocol

from agentforge.model.failure import Failure


class TaskQueue(Protocol):
    """The queue of one session."""

    def problem(self) -> Failure | None:
        """Why the queue can't be read on this machine, found without reading it."""

    async def count(self) -> int | Failure:
        """How many tasks are ready. Has no side effects, so it can be repeated after a crash."""

    async def release(self) -> None:
        """Release tasks claimed by agents that no engine runs any more; does nothing without a queue."""
