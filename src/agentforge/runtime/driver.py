"""Drives one run: decides what should happen, records it, performs it, and records the outcome.

One loop, one writer. After a crash at any point, running the same loop again recovers the run.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Protocol

from msgspec import Struct

from agentforge.engine.decide.run import decide
from agentforge.engine.legal import refuse_restart
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.errors import IllegalMove
from agentforge.model.layout import RunLayout
from agentforge.model.request import Request
from agentforge.model.secrets import NO_SECRETS, SecretReferences
from agentforge.model.state import RunState
from agentforge.model.status import FINAL, RunStatus
from agentforge.model.task import Task, TaskKind, Wait, Work
from agentforge.runtime.answers import record_answers
from agentforge.runtime.controls import Control, control_path, drop_control, pending_controls, visit_name
from agentforge.runtime.journal import Journal
from agentforge.runtime.left_files import Refusals
from agentforge.runtime.state_folder import HeadKeeper
from agentforge.runtime.tasks.performer import Immediate, Performer
from agentforge.runtime.view_files import StateWriter

log = logging.getLogger("agentforge.run")

TICK_SECONDS = 0.25

PlayedAnswers = Callable[[Request], tuple[f.AnyFact, ...]]
"""The recorded answer to a request of a replay, after the checks that were skipped with it. Empty without an
answer."""


# Theory of operation
#
# The loop compares what should be running, as `decide` says, with what is, and starts or cancels the
# difference. It remembers nothing of the run: all it has besides the journal is its asyncio tasks and their
# outcomes. So an engine that takes over a run does what one does that began it, and no case of recovery is
# written twice.
#
# One writer. Only this loop, and the performers that it awaits in the same thread, record facts. The order
# of the log is the order in which things were decided, and no lock guards it.
#
# Intent, sync, act. A task starts only when its intent is on the disk: an agent that isn't in the log would
# survive a crash unknown, and be started and billed again. Outcomes needn't be durable at once, as their
# repetition is safe: performers read the same exit record once more. So an outcome shares the fsync of the
# intent that follows from it, and an iteration costs one.
#
# Await nothing between looking and starting. `_reconcile` once saw what was missing, synced, and started
# it; a task that ended during the sync was then started twice. Whatever awaits must decide again
# afterwards.
#
# A failure of ours isn't one of the run. An exception of a performer ends the loop and leaves the log as it
# is: the run is interrupted, and recovery continues it. Agents that fail are facts, and `decide` answers
# them.


class Performers(Struct, frozen=True):
    """By kind of task: performed synchronously, or awaited."""

    immediate: Mapping[TaskKind, Immediate]
    waited_for: Mapping[TaskKind, Performer]


class RunView(Protocol):
    """Files outside of the run's folder that show it."""

    @property
    def is_due(self) -> bool: ...

    def write(self) -> None:
        """Called when the events are durable. What can't be written is reported, and doesn't stop the run."""


class Driver:
    def __init__(
        self,
        journal: Journal,
        layout: RunLayout,
        performers: Performers,
        *,
        keeper: HeadKeeper,
        secrets: SecretReferences = NO_SECRETS,
        played: PlayedAnswers | None = None,
        views: Sequence[RunView] = (),
    ) -> None:
        self._journal = journal
        self._views = views
        self._secrets = secrets
        """Replaces them in what people say."""
        self._played = played
        self._layout = layout
        self._performers = performers
        self._state_writer = StateWriter(layout, journal, keeper)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._outcomes: deque[tuple[Work, f.AnyFact]] = deque()
        self._pause_requests: deque[f.PauseRequested] = deque()
        self._crash: Exception | None = None
        self._is_news = False
        """Whether there is a reason to look again."""
        self._wake: asyncio.Future[None] | None = None
        # Not in the log, on purpose: a later engine must assume that this one has started them.
        self._begun: set[tuple[str, Cursor | None, int, str]] = set()
        """Tasks whose intent this engine recorded: no earlier engine can have started them."""

    async def drive(self) -> RunState:
        """Run until the run ends or pauses. An error leaves the log as it is: the run is interrupted."""
        try:
            while True:
                await self._take_controls()
                self._take_answers()
                work_items = self._settle()
                if due := [view for view in self._views if view.is_due]:
                    await self._journal.sync()
                    for view in due:
                        view.write()
                if self._journal.state.status is not RunStatus.RUNNING and not self._is_due(work_items):
                    await self._journal.sync()
                    # A process that answers later than this sees the waiting run and resumes it.
                    if not self._take_answers():
                        break
                    continue
                await self._reconcile(work_items)
                await self._state_writer.write_if_due()
                await self._wait_for_news()
                self._take_outcomes()
            await self._state_writer.write()
        finally:
            # Agents keep running under their supervisors.
            for id in list(self._running):
                await self._drop(id)
        return self._journal.state

    def ask_to_pause(self, reason: str, *, grace: float | None = None, now: bool = False) -> None:
        """Request a pause from within this process, as a signal does: agents get `grace` seconds to
        finish."""
        due = None if grace is None else self._journal.now() + timedelta(seconds=grace)
        self._pause_requests.append(f.PauseRequested(reason, now=now, due_at=due))
        self.wake()

    def wake(self) -> None:
        """Run the loop now: a control was sent, or an outcome is available."""
        self._is_news = True
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _is_due(self, work_items: tuple[Work, ...]) -> bool:
        """Whether a run that waits for people has something to do now. Later timers fire in the process
        that opens the run then."""
        now = self._journal.now()
        return any(not isinstance(work, Wait) or work.due_at <= now for work in work_items)

    # -- deciding and recording

    def _settle(self) -> tuple[Work, ...]:
        """Record all decided facts and perform immediate tasks, until nothing changes; returns the work that
        should be running."""
        while True:
            decision = decide(self._journal.plan, self._journal.state)
            for draft in decision.facts:
                fact = draft.fact
                self._journal.record(fact, draft.cursor)
                if isinstance(fact, f.TaskStarted):
                    self._begun.add((fact.KIND, draft.cursor, fact.attempt, fact.about))
            if not decision.facts and not self._do_immediate(decision.work):
                return decision.work

    def _do_immediate(self, work_items: tuple[Work, ...]) -> bool:
        """Do what touches nothing but the run's own files, so that its intent needn't be durable. Whether
        there was any."""
        performers = self._performers.immediate
        tasks = [work for work in work_items if not isinstance(work, Wait) and work.KIND in performers]
        for task in tasks:
            self._journal.record(performers[task.KIND].do(task), task.cursor)
        return bool(tasks)

    async def _take_controls(self) -> None:
        refusals = Refusals(self._journal, self._layout)
        taken = [
            control
            for control in pending_controls(self._layout, refusals.add)
            if not self._refuse_late(control, refusals)
        ]
        refusals.settle()
        if not taken and not self._pause_requests:
            return
        # Controls for a run that is over are dropped without an event.
        if self._journal.state.status not in FINAL:
            known = self._journal.state.controls
            asked = [control.fact(self._secrets) for control in taken if control.id not in known]
            for fact in (*asked, *self._pause_requests):
                self._journal.record(fact, self._journal.state.cursor)
        self._pause_requests.clear()
        if taken:
            await self._journal.sync()
            for control in taken:
                drop_control(self._layout, control)

    def _refuse_late(self, control: Control, refusals: Refusals) -> bool:
        """Refuse the restart of a stage that is over, as of one that another restart has left."""
        state = self._journal.state
        if control.action != "restart" or state.status in FINAL or control.id in state.controls:
            return False
        try:
            refuse_restart(state, control.provider)
        except IllegalMove as error:
            refusals.add(control_path(self._layout, control), error.message)
            return True
        stage = state.stage(control.provider)
        if stage is None or visit_name(stage.path, stage.run) == control.visit:
            return False
        refusals.add(control_path(self._layout, control), "its stage has already ended")
        return True

    def _take_answers(self) -> bool:
        """Record new answers; the engine decides what follows. Returns whether there were any."""
        if not self._journal.state.requests or self._journal.state.status in FINAL:
            return False
        return self._play_answers() or record_answers(self._journal, self._layout, self._secrets)

    def _play_answers(self) -> bool:
        """In a replay: answer as recorded, before a timeout does."""
        if self._played is None:
            return False
        requests = [request for request in self._journal.state.open_requests if not request.is_overdue]
        answered = [(fact, request.at) for request in requests for fact in self._played(request)]
        for fact, at in answered:
            self._journal.record(fact, at)
        return bool(answered)

    def _take_outcomes(self) -> None:
        if self._crash is not None:
            raise self._crash
        while self._outcomes:
            work, fact = self._outcomes.popleft()
            cursor = work.recorded_at
            if isinstance(work, Wait):
                cursor = cursor or self._journal.state.cursor
            if isinstance(fact, f.IterationCompleted) and cursor and cursor.provider:
                # Readers of the shell engine's logs expect it; nothing of ours depends on it.
                self._journal.record(f.WorkerCompleted(fact.result_file, 0), cursor)
            self._journal.record(fact, cursor)

    # -- doing

    async def _reconcile(self, work_items: tuple[Work, ...]) -> None:
        """Start missing work, cancel unwanted work."""
        named = {work.id: work for work in work_items}
        for stale in [id for id in self._running if id not in named]:
            await self._drop(stale)
        missing = {id: work for id, work in named.items() if id not in self._running}
        if any(not isinstance(work, Wait) for work in missing.values()):
            # The intent must be durable before the act.
            await self._journal.sync()
        if self._outcomes:
            # Some work ended in the meantime: decide again.
            return
        # No await from here on: a task that ends in the meantime would be started twice.
        for id, work in missing.items():
            self._running[id] = asyncio.create_task(self._perform(id, work))

    async def _perform(self, id: str, work: Work) -> None:
        """Perform the work and queue its outcome for the loop."""
        try:
            if isinstance(work, Wait):
                await self._journal.sleep_until(work.due_at)
                fact: f.AnyFact = f.TimerFired(work.timer)
            else:
                fact = await self._do(work)
        except Exception as error:
            self._crash = error
        else:
            self._outcomes.append((work, fact))
        self._running.pop(id, None)
        self.wake()

    async def _do(self, task: Task) -> f.AnyFact:
        performer = self._performers.waited_for[task.KIND]
        begun = (task.KIND, task.recorded_at, task.attempt, task.about)
        fresh = begun in self._begun
        self._begun.discard(begun)

        def report(fact: f.AnyFact) -> None:
            self._journal.record(fact, task.recorded_at)
            self._journal.wait_for_disk()
            self.wake()

        return await performer.perform(task, fresh=fresh, report=report)

    async def _drop(self, id: str) -> None:
        """Cancel the work; if it finished first, its outcome is queued."""
        task = self._running.pop(id, None)
        if task is None:
            return
        task.cancel()
        # It may have ended before it could be cancelled; then it has left its outcome, which counts.
        await asyncio.wait([task])

    async def _wait_for_news(self) -> None:
        """Wait for an outcome, a control from this process, or the next tick."""
        if not self._is_news:
            # In-process work may complete within one turn of the event loop.
            await asyncio.sleep(0)
        if not self._is_news:
            loop = asyncio.get_running_loop()
            self._wake = loop.create_future()
            tick = loop.call_later(TICK_SECONDS, self.wake)
            try:
                await self._wake
            finally:
                tick.cancel()
                self._wake = None
            self._journal.flush_if_due()
        self._is_news = False
