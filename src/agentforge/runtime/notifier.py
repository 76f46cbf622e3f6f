"""Sends notifications about a run, each at most once: after its event is durable, by the engine that recorded
it. What can't be sent in time is logged and dropped; the run never waits for it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

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


class Channel(Struct, frozen=True):
    """A way to notify someone."""

    name: str
    on: frozenset[Occasion]
    send: Callable[[Notice], Awaitable[None]]
    """Raises if it fails."""


class Notifier:
    def __init__(self, journal: Journal, channels: Sequence[Channel], *, seconds: float = SECONDS) -> None:
        self._journal = journal
        self._seconds = seconds
        self._channels = channels
        self._recorded: list[tuple[int, Notice]] = []
        """Notices that are not sent yet, with the numbers of their events."""
        self._sending: set[asyncio.Task[None]] = set()
        if channels:
            journal.listen(self._note)
            journal.observe(self._send_durable)

    async def finish(self) -> None:
        """Wait for what is being sent, which takes no longer than the time limit."""
        self._send_durable(is_last=True)
        if self._sending:
            await asyncio.wait(self._sending)

    def _note(self, event: Event) -> None:
        notice = notice_of(event, self._journal.plan, self._journal.state)
        if notice is not None:
            self._recorded.append((event.seq, notice))

    def _send_durable(self, *, is_last: bool = False) -> None:
        synced = self._journal.synced.seq if self._journal.synced else 0
        recorded, self._recorded = self._recorded, []
        for seq, notice in recorded:
            if seq > synced or (not is_last and self._is_left_to_hooks(notice)):
                self._recorded.append((seq, notice))
            elif self._is_current(notice):
                self._send(notice)

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

    def _send(self, notice: Notice) -> None:
        for channel in self._channels:
            if notice.event not in channel.on:
                continue
            if len(self._sending) >= MAX_PENDING:
                log.warning(
                    "session %r: one notification by %s of too many is dropped", *self._named(channel)
                )
                continue
            task = asyncio.create_task(self._deliver(channel, notice))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    def _named(self, channel: Channel) -> tuple[str, str]:
        return self._journal.session, channel.name

    async def _deliver(self, channel: Channel, notice: Notice) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                await channel.send(notice)
        except Exception as error:
            why = "it took too long" if isinstance(error, TimeoutError) else error
            log.warning("session %r: no notification by %s: %s", *self._named(channel), why)
