"""The tasks that a queue stage works off, kept by somebody else and shared with the agents."""

from typing import Protocol

from agentforge.model.failure import Failure


class TaskQueue(Protocol):
    """Of one session."""

    async def count(self) -> int | Failure:
        """How many tasks are ready. Asking changes nothing, so it may be asked again after a crash."""
        ...

    async def release(self) -> None:
        """Give back what agents had taken and no engine drives any more; nothing to do without a queue."""
        ...
