"""Checks the task queue: queries it, or reads the recorded count in a replay."""

from typing import TYPE_CHECKING

from agentforge.engine.nodes import recorded_key
from agentforge.model import facts as f
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.task import QueueTask
from agentforge.ports.host import Clock
from agentforge.ports.task_queue import TaskQueue
from agentforge.runtime.tasks.call import TaskContext, TaskReport
from agentforge.system import files

if TYPE_CHECKING:
    from agentforge.model.cassette import Cassette


class QueuePerformer:
    """A query has no side effects, so it can be repeated after a crash."""

    def __init__(self, context: TaskContext, queue: TaskQueue, clock: Clock) -> None:
        self._context = context
        self._queue = queue
        self._clock = clock

    async def perform(self, task: QueueTask, *, fresh: bool, report: TaskReport) -> f.AnyFact:  # noqa: ARG002
        cassette = self._context.cassette
        fact = self._played(task, cassette()) if cassette else await self._checked(task)
        # Before the first iteration, its folder is used.
        here = self._context.layout.iteration(task.place.folder, max(task.iteration, 1))
        if isinstance(fact, f.ErrorOccurred):
            files.make_dir(here.root)
            # With the same keys as the error of an attempt; there is none.
            details = {
                "type": fact.kind.value,
                "message": fact.message,
                "exit_code": None,
                "stage": task.name,
                "iteration": task.iteration,
                "attempt": None,
                "provider": None,
                "timestamp": self._clock.now(),
                "output_path": None,
            }
            files.replace(here.error, files.pretty(details))
        else:
            files.remove(here.error)  # Of an earlier check: the iteration itself has succeeded.
        return fact

    async def _checked(self, task: QueueTask) -> f.QueueChecked | f.ErrorOccurred:
        found = await self._queue.count()
        if isinstance(found, Failure):
            return f.ErrorOccurred(found.kind, found.message, task.name, 0)
        if self._context.recorder:
            self._context.recorder.queue(task, found)
        return f.QueueChecked(found)

    def _played(self, task: QueueTask, cassette: "Cassette") -> f.QueueChecked | f.ErrorOccurred:
        from agentforge.model.cassette import ExchangeQuery  # Few runs are replays.

        node = recorded_key(self._context.plan, task.place.path, task.place.run)
        asked = ExchangeQuery(task.name, task.iteration, 1, "queue", node, task.place.branch or "")
        found = cassette.find(asked)
        if found is None or found.remaining is None:
            where = f"after iteration {task.iteration} of stage {task.name!r}"
            message = f"the cassette has no queue check {where}"
            return f.ErrorOccurred(FailureKind.NOT_RECORDED, message, task.name, 0)
        return f.QueueChecked(found.remaining)
