"""How tasks are performed: what the driver calls, and the skeleton of those that call a provider."""

from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, TypeVar

from msgspec.structs import replace

from agentforge.engine.decide.task_kinds import KINDS
from agentforge.model.facts import AnyFact, Fact
from agentforge.model.failure import Failure
from agentforge.model.task import StartedTask
from agentforge.ports.provider import ExecuteRequest
from agentforge.runtime.tasks.call import (
    CallRefused,
    Calls,
    Ended,
    Finished,
    Lost,
    ProviderCall,
    TaskContext,
    TaskReport,
)


class Immediate(Protocol):
    """Performed synchronously."""

    def do(self, task: Any) -> AnyFact: ...


class Performer(Protocol):
    async def perform(self, task: Any, *, fresh: bool, report: TaskReport) -> AnyFact:
        """Perform the task and return its outcome. `fresh`: this engine recorded its intent, so no earlier
        one can have started it; otherwise reattach to the running program, or report the task as lost. A task
        that is `ending` is ended; if it has already finished, its result counts."""
        ...


TaskT = TypeVar("TaskT", bound=StartedTask)


class CallPerformer(ABC, Generic[TaskT]):
    """Ends the task, starts it, or reattaches to it. A kind says what is called, and what its end means."""

    def __init__(self, context: TaskContext, calls: Calls) -> None:
        self._context = context
        self._calls = calls

    async def perform(self, task: TaskT, *, fresh: bool, report: TaskReport) -> AnyFact:
        # What an earlier engine may have started isn't prepared again: its program may be using the files.
        if fresh and not task.ending:
            prepared = await self._prepared(task, report)
            if isinstance(prepared, Fact):
                return prepared
            task = prepared
        call = replace(self._call(task), report=report)
        ended: Ended
        if task.ending:
            ended = await self._calls.end(call)
        elif fresh:
            ended = await self._calls.make(call, lambda: self._request(task))
        else:
            ended = await self._calls.reattach(call, lambda pid: self._reattached(task, pid, report))
        match ended:
            case Lost():
                fact = self._lost(task, ended)
            case CallRefused(failure=failure):
                fact = await self._not_started(task, failure)
            case Finished():
                fact = await self._finished(task, ended)
        self._record(task, ended, fact)
        return fact

    async def _prepared(self, task: TaskT, report: TaskReport) -> TaskT | AnyFact:  # noqa: ARG002
        """Before it starts: the task with what this engine knows of it, or why it can't start. What a later
        engine must know is reported."""
        return task

    @abstractmethod
    def _call(self, task: TaskT) -> ProviderCall: ...

    @abstractmethod
    def _request(self, task: TaskT) -> ExecuteRequest: ...

    @abstractmethod
    async def _finished(self, task: TaskT, ended: Finished) -> AnyFact: ...

    @abstractmethod
    async def _not_started(self, task: TaskT, failure: Failure) -> AnyFact: ...

    def _lost(self, task: TaskT, lost: Lost) -> AnyFact:  # noqa: ARG002
        stopped = KINDS[task.KIND].stopped
        assert stopped is not None
        return stopped(**task.names)

    def _reattached(self, task: TaskT, pid: int, report: TaskReport) -> None:
        """Its program is still running."""

    def _record(self, task: TaskT, ended: Ended, fact: AnyFact) -> None:  # noqa: ARG002
        if self._context.recorder:
            self._context.recorder.ended(task, fact)
