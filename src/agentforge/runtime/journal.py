"""The one way into a run's log: facts are checked, numbered, timed, buffered and folded here.

What was recorded is durable after `sync`; observers hear of an event only then.

A quick disk is waited for where we are: going through a thread takes longer than the disk itself. One that
keeps us waiting is waited for in a thread, so that it holds up this run only and none beside it.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import datetime

from agentforge.engine.legal import refuse_illegal
from agentforge.model.cursor import Cursor
from agentforge.model.errors import LogCorrupt
from agentforge.model.event import Event
from agentforge.model.facts import AnyFact, SessionStarted
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.ports.clock import Clock
from agentforge.ports.event_log import LogWriter
from agentforge.views.run_model import RunModel, fold_events

Observer = Callable[[], None]

SLOW_DISK_SECONDS = 0.005

NO_BEGINNING = "run it again, with --force if the name is taken: what is there is kept aside"


class Journal:
    def __init__(
        self,
        session: str,
        writer: LogWriter,
        clock: Clock,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.session = session
        self.writer = writer
        self.opened_at = writer.head
        self.view: RunModel = fold_events(writer.replay())
        self._clock = clock
        self._monotonic = monotonic
        self._observers: list[Observer] = []
        self._durable = -1
        """Up to which length of the log the disk was waited for."""
        self._is_slow = False
        """Whether the disk kept us waiting the last time."""
        self._latest: datetime | None = self.view.state.updated_at if self.view.state else None

    @property
    def state(self) -> RunState:
        if self.view.state is None:
            raise LogCorrupt(
                f"the log of session {self.session!r} holds no event that can be read", hint=NO_BEGINNING
            )
        return self.view.state

    @property
    def plan(self) -> Plan:
        if self.view.plan is None:
            raise LogCorrupt(
                f"the log of session {self.session!r} holds no plan that can be read", hint=NO_BEGINNING
            )
        return self.view.plan

    def observe(self, observer: Observer) -> None:
        """Call the observer after each time that events became durable."""
        self._observers.append(observer)

    def now(self) -> datetime:
        """The time, which never goes backwards within a log."""
        now = self._clock.now()
        if self._latest is not None and now < self._latest:
            return self._latest
        self._latest = now
        return now

    def record(self, fact: AnyFact, cursor: Cursor | None = None) -> None:
        state = self.view.state
        refuse_illegal(state, fact, cursor)
        run_id = fact.run_id if isinstance(fact, SessionStarted) else self.state.run_id
        event = Event(self.writer.head.seq + 1, self.now(), self.session, run_id, fact, cursor)
        self.writer.append(event)
        self.view.apply(event)

    async def sync(self) -> None:
        """Make everything recorded durable: called before every act on the world."""
        # Not only what is buffered: what was written without waiting, by us or an earlier owner, too. And
        # again if more was recorded while a thread waited.
        while (length := self.writer.head.length) != self._durable:
            slow = self._is_slow
            seconds = await asyncio.to_thread(self.wait_for_disk) if slow else self.wait_for_disk()
            self._is_slow = seconds > SLOW_DISK_SECONDS
            self._durable = length
            self._tell()

    def wait_for_disk(self) -> float:
        """The same, here and now; how long it took."""
        began = self._monotonic()
        self.writer.sync()
        return self._monotonic() - began

    def flush_if_due(self) -> None:
        """Write facts that no act waits for, within the log's flush interval."""
        flushed = self.writer.health.events_flushed
        self.writer.flush_if_due()
        if self.writer.health.events_flushed > flushed:
            self._tell()

    def close(self) -> None:
        self.writer.close()
        self._tell()

    def _tell(self) -> None:
        for observer in self._observers:
            observer()
