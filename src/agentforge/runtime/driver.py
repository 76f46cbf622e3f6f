"""Drives one run: asks what should happen, records it, does it, records what came of it.

One loop, one writer. A crash between any two lines here is answered by running the same loop again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import assert_never

from msgspec import Struct

from agentforge.engine.decide import decide
from agentforge.host import files
from agentforge.model import facts as f
from agentforge.model.event import Draft
from agentforge.model.ids import work_id
from agentforge.model.layout import RunLayout
from agentforge.model.state import RunState
from agentforge.model.status import FINAL, RunStatus
from agentforge.model.work import (
    CheckQueue,
    End,
    EndJudge,
    Execute,
    Judge,
    Prepare,
    Wait,
    Work,
    WriteManifest,
)
from agentforge.ports.clock import Clock
from agentforge.runtime.attempts import AttemptRunner
from agentforge.runtime.branch_files import write_branch_files
from agentforge.runtime.control import Control, drop_control, waiting_controls
from agentforge.runtime.head_keeper import HeadKeeper
from agentforge.runtime.journal import Journal
from agentforge.runtime.judging import JudgeRunner
from agentforge.runtime.preparing import Preparer
from agentforge.runtime.state_writer import StateWriter
from agentforge.views.manifest import manifest

log = logging.getLogger("agentforge.run")

TICK_SECONDS = 0.25

_Task = Execute | End | Judge | EndJudge | CheckQueue | Wait
_ACTS = (Execute, End, Judge, EndJudge, CheckQueue)
"""What touches the world."""


class _Outcome(Struct, frozen=True):
    work: Work
    fact: f.AnyFact


class Driver:
    def __init__(
        self,
        journal: Journal,
        layout: RunLayout,
        preparer: Preparer,
        attempts: AttemptRunner,
        *,
        judge: JudgeRunner,
        queue: Callable[[CheckQueue], Awaitable[f.AnyFact]],
        clock: Clock,
        keeper: HeadKeeper,
    ) -> None:
        self._journal = journal
        self._layout = layout
        self._preparer = preparer
        self._attempts = attempts
        self._judge = judge
        self._queue = queue
        self._clock = clock
        self._state_writer = StateWriter(layout, journal, keeper)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._outcomes: deque[_Outcome] = deque()
        self._asked: deque[f.PauseRequested] = deque()
        self._crash: Exception | None = None
        self._wake: asyncio.Future[None] | None = None
        self._begun: set[str] = set()
        """Attempts whose intent this very engine recorded: no earlier one can have started them."""

    async def drive(self) -> RunState:
        """Go on until the run ends or pauses. An error leaves the log as it is: the run is interrupted."""
        try:
            while True:
                await self._take_controls()
                wanted = self._settle()
                if self._journal.state.status is not RunStatus.RUNNING:
                    break
                await self._reconcile(wanted)
                await self._state_writer.write_if_due()
                if not (self._outcomes or self._asked or self._crash):
                    await self._wait()
                self._take_outcomes()
            await self._journal.sync()
            await self._state_writer.write()
        finally:
            await self._let_go()
        return self._journal.state

    def ask_to_pause(self, reason: str, *, grace: float | None = None, now: bool = False) -> None:
        """Pause from within this process, as a signal does: agents get `grace` seconds to finish."""
        due = None if grace is None else self._journal.now() + timedelta(seconds=grace)
        self._asked.append(f.PauseRequested(reason, now=now, due_at=due))
        self.wake()

    def wake(self) -> None:
        """Look again at once: a control was sent, or an outcome is in."""
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    # -- deciding and recording

    def _settle(self) -> tuple[Work, ...]:
        """Record what is decided until nothing more is; what should be running is left."""
        while True:
            decision = decide(self._journal.plan, self._journal.state)
            if not decision.facts:
                return decision.work
            for draft in decision.facts:
                self._journal.record(draft.fact, draft.cursor)
                self._note_begun(draft)

    def _note_begun(self, draft: Draft) -> None:
        fact, at = draft.fact, draft.cursor
        if at is None or not isinstance(fact, f.AttemptStarted | f.JudgeStarted):
            return
        kind = "execute" if isinstance(fact, f.AttemptStarted) else "judge"
        begun = work_id(kind, at.node_path, at.node_run, at.iteration, fact.attempt, provider=at.provider)
        self._begun.add(begun)

    async def _take_controls(self) -> None:
        taken = waiting_controls(self._layout)
        if self._journal.state.status not in FINAL:
            self._record_asked(taken)
        # What came too late for a run that is over is dropped without a word in its log.
        self._asked.clear()
        if taken:
            await self._journal.sync()
            for control in taken:
                drop_control(self._layout, control)

    def _record_asked(self, controls: list[Control]) -> None:
        for control in controls:
            if control.id not in self._journal.state.controls:
                self._journal.record(_requested(control), self._journal.state.cursor)
        for asked in self._asked:
            self._journal.record(asked, self._journal.state.cursor)

    def _take_outcomes(self) -> None:
        if self._crash is not None:
            raise self._crash
        while self._outcomes:
            outcome = self._outcomes.popleft()
            cursor = outcome.work.cursor or self._journal.state.cursor
            if isinstance(outcome.fact, f.IterationCompleted) and cursor and cursor.provider:
                self._journal.record(f.WorkerCompleted(outcome.fact.result_file, 0), cursor)
            self._journal.record(outcome.fact, cursor)

    # -- doing

    async def _reconcile(self, wanted: tuple[Work, ...]) -> None:
        """Start what is missing, cancel what is no longer wanted."""
        ids = {work.id for work in wanted}
        for stale in [id for id in self._running if id not in ids]:
            await self._drop(stale)
        if any(isinstance(work, _ACTS) for work in wanted if work.id not in self._running):
            # The intent is durable before anything happens because of it.
            await self._journal.sync()
        if self._outcomes:
            # Something ended by itself just now: what is wanted has to be asked again.
            return
        # From here on nothing is waited for: else a task that ends meanwhile would be started twice.
        for work in wanted:
            if work.id not in self._running:
                self._begin(work)

    def _begin(self, work: Work) -> None:
        match work:
            case Prepare():
                self._outcomes.append(_Outcome(work, self._preparer.prepare(work, self._journal.view)))
            case WriteManifest():
                self._outcomes.append(_Outcome(work, self._write_manifest(work)))
            case _:
                self._running[work.id] = asyncio.create_task(self._perform(work))

    async def _perform(self, work: _Task) -> None:
        """Do the work and leave what came of it for the loop."""
        try:
            fact = await self._do(work)
        except Exception as error:
            self._crash = error
        else:
            self._outcomes.append(_Outcome(work, fact))
        self._running.pop(work.id, None)
        self.wake()

    def _write_manifest(self, work: WriteManifest) -> f.AnyFact:
        plan = self._journal.plan
        path = self._layout.manifest(work.place.folder)
        content = manifest(plan, work.place.path, self._journal.view.history, self._journal.now())
        write_branch_files(self._layout, plan, self._journal.state)
        files.replace(path, files.pretty(content))
        return f.ManifestWritten(path)

    async def _do(self, work: _Task) -> f.AnyFact:
        match work:
            case Execute() | End():
                return await self._attempt(work)
            case Judge():
                fresh = work.id in self._begun
                self._begun.discard(work.id)
                return await self._judge.judge(work, self._journal.view, fresh=fresh)
            case EndJudge():
                return await self._judge.end(work)
            case CheckQueue():
                return await self._queue(work)
            case Wait():
                await self._clock.sleep_until(work.due_at)
                return f.TimerFired(work.timer)
            case _:
                assert_never(work)

    async def _attempt(self, work: Execute | End) -> f.AnyFact:
        stage = self._journal.state.stage(work.place.branch)
        attempt = stage.iteration.attempt if stage and stage.iteration else None
        assert attempt is not None
        if isinstance(work, End):
            return await self._attempts.end(work, attempt)
        fresh = work.id in self._begun
        self._begun.discard(work.id)
        prepared = self._preparer.prepared(work)
        if fresh and prepared is None and (unprepared := self._restore(work)):
            return unprepared

        def adopted(pid: int) -> None:
            self._journal.record(f.AttemptAdopted(work.attempt, pid), work.cursor)
            self.wake()

        return await self._attempts.execute(work, attempt, fresh=fresh, prepared=prepared, adopted=adopted)

    def _restore(self, work: Execute) -> f.ErrorOccurred | None:
        stage = self._journal.state.stage(work.place.branch)
        assert stage is not None
        assert stage.iteration is not None
        return self._preparer.restore(work, stage.iteration, self._journal.view)

    async def _drop(self, id: str) -> None:
        """Cancel the work; if it was faster, its outcome is in."""
        task = self._running.pop(id, None)
        if task is None:
            return
        task.cancel()
        await asyncio.wait([task])

    async def _wait(self) -> None:
        """Sleep until an outcome, a control from this process, or the next tick."""
        loop = asyncio.get_running_loop()
        self._wake = loop.create_future()
        tick = loop.call_later(TICK_SECONDS, self.wake)
        try:
            await self._wake
        finally:
            tick.cancel()
            self._wake = None
        self._journal.flush_if_due()

    async def _let_go(self) -> None:
        """Stop waiting for agents; they go on under their supervisors."""
        for id in list(self._running):
            await self._drop(id)


def _requested(control: Control) -> f.PauseRequested | f.CancelRequested:
    if control.action == "cancel":
        return f.CancelRequested(control.reason, control=control.id)
    return f.PauseRequested(control.reason, now=control.now, control=control.id)
