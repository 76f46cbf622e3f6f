"""The notifier: after the event is durable, in no one's way, bounded."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest
from tests.engine.plans import plan_of, stage, started

from agentforge.model import facts as f
from agentforge.model.hook import OCCASIONS, Occasion
from agentforge.runtime.journal import Journal
from agentforge.runtime.notifier import MAX_PENDING, Channel, Notifier
from agentforge.testing import FakeClock
from agentforge.testing.memory_log import MemoryLog
from agentforge.views.notice import Notice

Send = Callable[[Notice], Awaitable[None]]


def journal_of_a_run() -> Journal:
    journal = Journal("auth", MemoryLog().open(), FakeClock())
    journal.record(started(plan_of(stage())))
    return journal


def channel(send: Send, *on: Occasion) -> Channel:
    return Channel("pigeon", frozenset(on or OCCASIONS), send)


def ask(journal: Journal, id: str = "r1") -> None:
    journal.record(f.RequestOpened(id, "escalation", id, "lost", "Again?", ("retry", "cancel")))


def test_notice_is_sent_when_its_event_is_durable() -> None:
    seen: list[Notice] = []

    async def send(notice: Notice) -> None:
        seen.append(notice)

    async def main() -> None:
        journal = journal_of_a_run()
        notifier = Notifier(journal, [channel(send)])
        await journal.sync()
        ask(journal)
        journal.flush_if_due()
        await notifier.finish()
        assert seen == []
        await journal.sync()
        await notifier.finish()
        await journal.sync()
        await notifier.finish()

    asyncio.run(main())
    assert [notice.request for notice in seen] == ["r1"]


def test_sync_returns_before_the_notice_is_sent_and_a_late_one_is_dropped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def hang(_: Notice) -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        journal = journal_of_a_run()
        notifier = Notifier(journal, [channel(hang)], seconds=0.01)
        ask(journal)
        await journal.sync()
        await notifier.finish()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert "session 'auth': no notification by pigeon: it took too long" in caplog.messages


def test_many_notices_at_once_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    async def main() -> None:
        go = asyncio.Event()

        async def wait(notice: Notice) -> None:
            await go.wait()
            seen.append(notice.request)

        journal = journal_of_a_run()
        notifier = Notifier(journal, [channel(wait)])
        for number in range(MAX_PENDING + 1):
            ask(journal, f"r{number}")
        await journal.sync()
        go.set()
        await notifier.finish()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert len(seen) == MAX_PENDING
    assert caplog.messages == ["session 'auth': one notification by pigeon of too many is dropped"]


def test_error_of_one_channel_does_not_keep_another_from_sending(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    async def fail(_: Notice) -> None:
        raise OSError("no pigeon")

    async def send(notice: Notice) -> None:
        seen.append(notice.request)

    async def main() -> None:
        journal = journal_of_a_run()
        notifier = Notifier(journal, [channel(fail), channel(send), channel(send, "failed")])
        ask(journal)
        await journal.sync()
        await notifier.finish()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert seen == ["r1"]
    assert caplog.messages == ["session 'auth': no notification by pigeon: no pigeon"]
