"""Performs the steps of a delivery, and looks at the files and the repository before the first agent.

A step that an earlier engine may have begun is first looked for, and performed again only if it isn't done.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from agentforge.model import facts as f
from agentforge.model.delivery import DeliveryBase
from agentforge.model.errors import UnusableFile
from agentforge.model.failure import short_message
from agentforge.model.plan_limits import is_plain_name
from agentforge.model.result import JSONObject
from agentforge.model.task import MARK, DeliverTask, RepositoryTask
from agentforge.ports.host import Processes
from agentforge.ports.repository import Change, Done, NotDelivered, Outcome, Repository
from agentforge.runtime.artifacts import StoredArtifacts
from agentforge.runtime.commit_message import CommitFacts, commit_message, summary
from agentforge.runtime.tasks.call import TaskContext, TaskReport
from agentforge.views.artifacts import earlier_stages
from agentforge.views.history import History

_T = TypeVar("_T")


class RepositoryPerformer:
    """It changes nothing, so it can be repeated after a crash."""

    def __init__(self, context: TaskContext, repository: Repository) -> None:
        self._context = context
        self._repository = repository

    async def perform(self, task: RepositoryTask, *, fresh: bool, report: TaskReport) -> f.AnyFact:  # noqa: ARG002
        base = await asyncio.to_thread(self._repository.look)
        problem = short_message(self._context.redactor.text(base.problem))
        return f.RepositorySeen(base if problem == base.problem else DeliveryBase(problem=problem))


class DeliverPerformer:
    def __init__(
        self,
        context: TaskContext,
        repository: Repository,
        processes: Processes,
        *,
        stored: StoredArtifacts,
        history: History,
        passed_tests: Callable[[], int],
    ) -> None:
        """`passed_tests`: of the latest check that counts them."""
        self._processes = processes
        self._context = context
        self._repository = repository
        self._stored = stored
        self._history = history
        self._passed_tests = passed_tests

    async def perform(self, task: DeliverTask, *, fresh: bool, report: TaskReport) -> f.AnyFact:  # noqa: ARG002
        if task.step == "prepare":
            if task.ending:
                return f.DeliverLost(**task.names)
            return await self._prepared(task)
        if task.ending or not fresh:
            # What a killed engine left must not act beside another one.
            await self._processes.end_marked(f"{MARK}={task.mark(self._context.run_id)}")
            is_done = await self._finished(lambda: self._is_done(task))
            if not is_done:
                return f.DeliverLost(**task.names)
        return self._outcome(task, await self._finished(lambda: self._performed(task)))

    async def _prepared(self, task: DeliverTask) -> f.DeliverCompleted | f.DeliverFailed:
        change = await self._finished(lambda: self._change(task))
        prepared = await self._finished(lambda: self._repository.prepare(change))
        if isinstance(prepared, NotDelivered):
            return self._failed(task, prepared)
        return f.DeliverCompleted(**task.names, prepared=prepared)

    def _is_done(self, task: DeliverTask) -> bool:
        """Of an effect that an earlier engine may have had."""
        assert task.prepared is not None
        match task.step:
            case "commit":
                return self._repository.is_committed(task.prepared)
            case "push":
                return self._repository.is_pushed(task.prepared, self._mark(task))
            case "pull_request":
                return self._repository.has_request(task.prepared, self._mark(task))
            case _:
                return False  # It is compared when it is written.

    def _mark(self, task: DeliverTask) -> dict[str, str]:
        return {MARK: task.mark(self._context.run_id)}

    def _performed(self, task: DeliverTask) -> Outcome:
        assert task.prepared is not None
        match task.step:
            case "commit":
                return self._repository.commit(task.prepared, task.accepted)
            case "patch":
                return self._repository.patch(task.prepared)
            case "push":
                return self._repository.push(task.prepared, self._mark(task))
            case "pull_request" | "prepare":
                return self._repository.open_request(task.prepared, self._body(task), self._mark(task))

    def _outcome(self, task: DeliverTask, outcome: Outcome) -> f.DeliverCompleted | f.DeliverFailed:
        match outcome:
            case Done(url=url, found=found):
                return f.DeliverCompleted(**task.names, url=url, found=found)
            case NotDelivered():
                return self._failed(task, outcome)

    def _failed(self, task: DeliverTask, why: NotDelivered) -> f.DeliverFailed:
        message = short_message(self._context.redactor.text(why.reason))
        return f.DeliverFailed(**task.names, message=message, outdated=why.outdated)

    async def _finished(self, work: Callable[[], _T]) -> _T:
        """In a thread, which can't be stopped: a cancellation waits for it, so that no engine looks at the
        repository while it is still being changed."""
        running = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.wait([running])
            raise

    # -- what is said about the change

    def _change(self, task: DeliverTask) -> Change:
        about = self._facts(task)

        def message(paths: Sequence[str], tree: str) -> str:
            return commit_message(about, paths, tree)

        spec = about.text("spec_id")
        name = spec if is_plain_name(spec) else self._context.plan.session.name
        return Change(task.rule, task.base, task.tree, message, task.date, name)

    def _facts(self, task: DeliverTask) -> CommitFacts:
        redact = self._context.redactor.text
        return CommitFacts(
            self._context.run_id,
            redact(task.user_request.text) if task.user_request else "",
            task.rule.message,
            self._artifact(task),
            self._passed_tests(),
        )

    def _body(self, task: DeliverTask) -> str:
        """Of the pull request."""
        assert task.prepared is not None
        return summary(self._facts(task), task.prepared.paths, task.prepared.count)

    def _artifact(self, task: DeliverTask) -> JSONObject:
        """What the stages before have left, by the keys at the top; without what can't be read any more."""
        merged: JSONObject = {}
        for path, branch, stage in earlier_stages(self._context.plan, task.place.path):
            known = self._history.artifacts_of(path, branch)
            if known.latest is not None and not known.over_items:
                with suppress(UnusableFile):
                    merged |= self._stored.value(known.latest)
                    merged |= self._stored.keys.filled(stage.artifact, stage.id, branch)
        return merged
