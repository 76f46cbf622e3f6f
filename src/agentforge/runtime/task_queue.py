"""The queue of tasks as facts: asked for now, or as a cassette has it for a replay."""

from collections.abc import Callable

from agentforge.engine.node_keys import recorded_key
from agentforge.model import facts as f
from agentforge.model.cassette import Asked, Cassette
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.plan import Plan
from agentforge.model.work import CheckQueue
from agentforge.ports.task_queue import TaskQueue


async def check_queue(queue: TaskQueue, stage: str) -> f.AnyFact:
    found = await queue.count()
    if isinstance(found, Failure):
        return f.ErrorOccurred(found.kind, found.message, stage, 0)
    return f.QueueChecked(found)


class PlayedQueue:
    def __init__(self, plan: Plan, load: Callable[[], Cassette]) -> None:
        self._plan = plan
        self._load = load

    def check(self, work: CheckQueue) -> f.AnyFact:
        stage = work.node.id
        node = recorded_key(self._plan, work.place.path, work.place.run)
        asked = Asked(stage, work.iteration, 1, "queue", node, work.place.branch or "")
        found = self._load().find(asked)
        if found is None or found.remaining is None:
            message = f"nothing was recorded of the queue after iteration {work.iteration} of stage {stage!r}"
            return f.ErrorOccurred(FailureKind.NOT_RECORDED, message, stage, 0)
        return f.QueueChecked(found.remaining)
