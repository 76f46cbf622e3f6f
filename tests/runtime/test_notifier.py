"""The notifier: after the event is durable, without holding up the run, bounded."""

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.engine.plans import plan_of, stage, started

from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.adapters.log.writer import Buffering
from agentforge.model import facts as f
from agentforge.model.hook import OCCASIONS, Hook, Occasion
from agentforge.runtime.journal import Journal
from agentforge.runtime.notifier import MAX_PENDING, Channel, Notifier, Sender
from agentforge.testing import FakeClock
from agentforge.testing.memory_log import MemoryLog
from agentforge.views.notice import Notice


def journal_of_a_run() -> Journal:
    journal = Journal("auth", MemoryLog().open(), FakeClock())
    journal.record(started(plan_of(stage())))
    return journal


def channel(send: Callable[[Notice], None], *on: Occasion) -> Channel:
    return Channel("pigeon", frozenset(on or OCCASIONS), send)


def ask(journal: Journal, id: str = "r1") -> None:
    journal.record(f.RequestOpened(id, "escalation", id, "lost", "Again?", ("retry", "cancel")))


def test_notice_is_sent_once_when_its_event_is_durable(tmp_path: Path) -> None:
    seen: list[str] = []

    async def main() -> None:
        log = JsonlLog(str(tmp_path / "events.jsonl"), Buffering(seconds=0.0))
        journal, sender = Journal("auth", log.open(), FakeClock()), Sender()
        journal.record(started(plan_of(stage())))
        notifier = Notifier(journal, [channel(lambda notice: seen.append(notice.request))], sender)
        await journal.sync()
        flushes = journal.writer.health.flushes
        ask(journal)
        journal.flush_if_due()
        await sender.close()
        # In the file, but not known to be on the disk.
        assert (journal.writer.health.flushes, seen) == (flushes + 1, [])
        await journal.sync()
        await journal.sync()
        notifier.finish()
        await sender.close()
        journal.close()

    asyncio.run(main())
    assert seen == ["r1"]


def test_run_continues_while_a_notice_is_sent() -> None:
    go = threading.Event()

    async def main() -> None:
        journal, sender = journal_of_a_run(), Sender()
        notifier = Notifier(journal, [channel(lambda _: go.wait(60) and None)], sender)
        ask(journal)
        await journal.sync()
        journal.record(f.PauseRequested("lunch"))
        await journal.sync()
        notifier.finish()
        go.set()
        await sender.close()

    asyncio.run(main())


def test_many_notices_at_once_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    go = threading.Event()
    seen: list[str] = []

    def send(notice: Notice) -> None:
        go.wait(60)
        seen.append(notice.request)

    async def main() -> None:
        journal, sender = journal_of_a_run(), Sender()
        Notifier(journal, [channel(send)], sender)
        for number in range(MAX_PENDING + 1):
            ask(journal, f"r{number}")
        await journal.sync()
        go.set()
        await sender.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert len(seen) == MAX_PENDING
    assert caplog.messages == [
        "session 'auth': notification by pigeon failed: too many notifications are pending"
    ]


@pytest.mark.parametrize(
    ("error", "why"), [(OSError("no pigeon"), "no pigeon"), (TimeoutError(), "it took too long")]
)
def test_error_of_one_channel_does_not_keep_another_from_sending(
    error: Exception, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    def fail(_: Notice) -> None:
        raise error

    def send(notice: Notice) -> None:
        seen.append(notice.request)

    async def main() -> None:
        journal, sender = journal_of_a_run(), Sender()
        Notifier(journal, [channel(fail), channel(send), channel(send, "failed")], sender)
        ask(journal)
        await journal.sync()
        await sender.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(main())
    assert seen == ["r1"]
    assert caplog.messages == [f"session 'auth': notification by pigeon failed: {why}"]


def test_notice_waits_for_the_hooks_that_may_answer_and_not_longer_than_the_engine() -> None:
    seen: list[str] = []
    hooks = tuple(Hook(id, "request", "webhook", url="u") for id in ("h1", "h2"))

    async def noticed(*recorded: f.AnyFact, is_over: bool = False) -> list[str]:
        seen.clear()
        journal, sender = Journal("auth", MemoryLog().open(), FakeClock()), Sender()
        journal.record(started(plan_of(stage(), hooks=hooks)))
        notifier = Notifier(journal, [channel(lambda notice: seen.append(notice.request))], sender)
        ask(journal)
        for fact in recorded:
            journal.record(fact)
        await journal.sync()
        if is_over:
            notifier.finish()
        await sender.close()
        return list(seen)

    first, second = (f.HookSkipped(id, "request", "it failed", subject="r1") for id in ("h1", "h2"))
    assert asyncio.run(noticed()) == []
    assert asyncio.run(noticed(first)) == []
    assert asyncio.run(noticed(first, second)) == ["r1"]
    assert asyncio.run(noticed(first, is_over=True)) == ["r1"]


def test_notice_of_a_request_that_was_answered_meanwhile_is_not_sent() -> None:
    seen: list[str] = []

    async def main() -> None:
        journal, sender = journal_of_a_run(), Sender()
        Notifier(journal, [channel(lambda notice: seen.append(notice.request))], sender)
        ask(journal)
        journal.record(f.RequestAnswered("r1", "retry", "person"))
        await journal.sync()
        await sender.close()

    asyncio.run(main())
    assert seen == []
