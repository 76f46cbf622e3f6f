"""Sends notifications about a run, each at most once: after its event is durable, by the engine that recorded
it. What can't be sent in time is logged and dropped; the run never waits for it."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from time import monotonic

from msgspec import Struct

from agentforge.model.event import Event
from agentforge.model.hook import Occasion
from agentforge.model.state import hook_host
from agentforge.runtime.journal import Journal
from agentforge.views.notice import Notice, notice_of

log = logging.getLogger("agentforge.run")

SECONDS = 10.0
"""The time limit of one notification."""
MAX_PENDING = 20
"""Further notifications are dropped."""
THREADS = 4


class Channel(Struct, frozen=True):
    """A way to notify someone."""

    name: str
    on: frozenset[Occasion]
    send: Callable[[Notice], None]
    """Takes no longer than SECONDS; raises if it fails. Called in a thread."""


class Sender:
    """Sends the notices of an engine's runs, in threads of its own: the others of the process work for the
    runs."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None
        self._sending: set[Future[None]] = set()

    def send(self, channel: Channel, notice: Notice) -> None:
        if len(self._sending) >= MAX_PENDING:
            _warn(channel, notice, "too many notifications are pending")
            return
        self._pool = self._pool or ThreadPoolExecutor(THREADS, "notification")
        run = copy_context().run
        sending = self._pool.submit(run, _deliver, channel, notice, monotonic() + SECONDS)
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    async def close(self) -> None:
        """Wait for what is being sent, which takes no longer than twice the time limit."""
        if self._pool is not None:
            await asyncio.to_thread(self._pool.shutdown)
            self._pool = None


def _deliver(channel: Channel, notice: Notice, until: float) -> None:
    if monotonic() > until:
        _warn(channel, notice, "earlier notifications took too long")
        return
    try:
        channel.send(notice)
    except Exception as error:
        _warn(channel, notice, "it took too long" if isinstance(error, TimeoutError) else error)


def _warn(channel: Channel, notice: Notice, why: object) -> None:
    log.warning("session %r: notification by %s failed: %s", notice.session, channel.name, why)


class Notifier:
    """Notices what happens in one run."""

    def __init__(self, journal: Journal, channels: Sequence[Channel], sender: Sender) -> None:
        self._journal = journal
        self._channels = channels
        self._sender = sender
        self._recorded: list[tuple[int, Notice]] = []
        """Notices that are not sent yet, with the numbers of their events."""
        if channels:
            journal.listen(self._note)
            journal.observe(self._send_durable)

    def finish(self) -> None:
        """The engine stops driving the run: hooks answer no more requests."""
        self._send_durable(is_last=True)

    def _note(self, event: Event) -> None:
        notice = notice_of(event, self._journal.plan, self._journal.state)
        if notice is not None:
            self._recorded.append((event.seq, notice))

    def _send_durable(self, *, is_last: bool = False) -> None:
        synced = self._journal.synced.seq if self._journal.synced else 0
        recorded, self._recorded = self._recorded, []
        for seq, notice in recorded:
            # Until it is on the disk, a power failure can undo an event that people would have been told of.
            # A request that a hook answers needs no person.
            if seq > synced or (not is_last and self._is_left_to_hooks(notice)):
                self._recorded.append((seq, notice))
            elif self._is_current(notice):
                for channel in self._channels:
                    if notice.event in channel.on:
                        self._sender.send(channel, notice)

    def _is_left_to_hooks(self, notice: Notice) -> bool:
        """Whether hooks may still answer the request, so that no person is needed."""
        hooks = self._journal.plan.hooks("request") if notice.request else ()
        if not hooks or not self._is_current(notice):
            return False
        progress = self._journal.state.hook_progress(hook_host("request", None, notice.request))
        return progress is None or any(hook.id not in progress.done for hook in hooks)

    def _is_current(self, notice: Notice) -> bool:
        open_requests = self._journal.state.open_requests
        return not notice.request or any(request.id == notice.request for request in open_requests)
