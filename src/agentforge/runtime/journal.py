"""The only way to write to a run's log: checks, numbers, timestamps, buffers and folds facts.

Recorded facts are durable after `sync`; observers are notified only then.

A fast disk is synced in the event loop: a thread would take longer than the disk itself. A slow disk is
synced in a thread, so that it blocks only this run.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from agentforge.engine.legal import refuse_illegal
from agentforge.model.cursor import Cursor
from agentforge.model.errors import LogCorrupt
from agentforge.model.event import Event
from agentforge.model.facts import AnyFact, SessionStarted
from agentforge.model.plan import Plan
from agentforge.model.state import MAX_NOTES_BYTES, RunState
from agentforge.ports.event_log import Head, LogWriter
from agentforge.ports.host import Clock
from agentforge.views.run_model import RunModel, fold_events

log = logging.getLogger("agentforge.run")

SLOW_DISK_SECONDS = 0.005

UNREADABLE_HINT = "start over, with --force if the name is taken: the old run is archived"


class Journal:
    def __init__(self, session: str, writer: LogWriter, clock: Clock) -> None:
        self.session = session
        self.writer = writer
        self.opened_at = writer.head
        self.model: RunModel = fold_events(writer.replay())
        self._clock = clock
        self._observers: list[Callable[[], None]] = []
        self._listeners: list[Callable[[Event], None]] = []
        self.synced: Head | None = None
        """The latest head that is known to be durable."""
        self._is_slow = False
        """Whether the last sync was slow."""
        self._latest = self.model.state.updated_at if self.model.state else clock.now()
        self._latest_at = clock.monotonic()

    @property
    def state(self) -> RunState:
        if self.model.state is None:
            raise self._unreadable("event")
        return self.model.state

    @property
    def plan(self) -> Plan:
        if self.model.plan is None:
            raise self._unreadable("plan")
        return self.model.plan

    def _unreadable(self, what: str) -> LogCorrupt:
        return LogCorrupt(f"the log of session {self.session!r} has no readable {what}", hint=UNREADABLE_HINT)

    def observe(self, observer: Callable[[], None]) -> None:
        """Call the observer each time events have become durable."""
        self._observers.append(observer)

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call the listener with each event that is recorded from now on, before it is durable."""
        self._listeners.append(listener)

    def now(self) -> datetime:
        """The time of the log: the time of day, but it never goes backwards, and it continues while the clock
        is behind it (because it was set back, or was ahead when the log was written)."""
        at = self._clock.monotonic()
        continued = self._latest + timedelta(seconds=at - self._latest_at)
        self._latest, self._latest_at = max(self._clock.now(), continued), at
        return self._latest

    async def sleep_until(self, due: datetime) -> None:
        """Wait for a time of the log: a wait lasts at most its own length, even if the clock changes."""
        while (remaining := (due - self.now()).total_seconds()) > 0:
            await self._clock.sleep(remaining)

    def record(self, fact: AnyFact, cursor: Cursor | None = None) -> None:
        state = self.model.state
        refuse_illegal(state, fact, cursor)
        run_id = fact.run_id if isinstance(fact, SessionStarted) else self.state.run_id
        event = Event(self.writer.head.seq + 1, self.now(), self.session, run_id, fact, cursor)
        self.writer.append(event)
        self.model.apply(event)
        before = state.notes if state is not None else self.state.notes
        if self.state.notes is not before and len(self.state.notes) <= len(before):
            # The log keeps every note; agents get the latest.
            text = "the oldest notes no longer fit into the context (%d bytes in total): dropped %d"
            log.warning(text, MAX_NOTES_BYTES, len(before) + 1 - len(self.state.notes))
        for listener in self._listeners:
            listener(event)

    async def sync(self) -> None:
        """Make all recorded facts durable; called before every external side effect."""
        # Includes data that was written without waiting, by us or an earlier owner. Repeated if more was
        # recorded while a thread waited.
        while (head := self.writer.head) != self.synced:
            slow = self._is_slow
            seconds = await asyncio.to_thread(self.wait_for_disk) if slow else self.wait_for_disk()
            self._is_slow = seconds > SLOW_DISK_SECONDS
            self.synced = head
            self._notify()

    def wait_for_disk(self) -> float:
        """Sync synchronously; returns the seconds it took."""
        began = self._clock.monotonic()
        self.writer.sync()
        return self._clock.monotonic() - began

    def flush_if_due(self) -> None:
        """Write buffered facts within the log's flush interval."""
        flushed = self.writer.health.events_flushed
        self.writer.flush_if_due()
        if self.writer.health.events_flushed > flushed:
            self._notify()

    def close(self) -> None:
        self.writer.close()
        self._notify()

    def _notify(self) -> None:
        for observer in self._observers:
            observer()
