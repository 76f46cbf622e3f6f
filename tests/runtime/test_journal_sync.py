"""Syncing the disk: inline while it is fast, in a thread while it is slow, and never skipped."""

import asyncio
import errno
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.engine.plans import plan_of, stage

from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.model import facts as f
from agentforge.model.errors import StorageFailed
from agentforge.runtime.journal import SLOW_DISK_SECONDS, Journal
from agentforge.system.disk import Disk
from agentforge.testing import FakeClock

PLAN = plan_of(stage())


class SlowDisk(Disk):
    """Sets how long each sync takes, records the waiting thread, and blocks it until released."""

    def __init__(self) -> None:
        self.takes = 0.0
        self.clock = FakeClock()
        """Time passes only while the disk is synced."""
        self.broken = False
        self.waited_in_a_thread: list[bool] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def sync(self, fd: int) -> None:
        self.waited_in_a_thread.append(threading.current_thread() is not threading.main_thread())
        assert self.may_go_on.wait(60)
        if self.broken:
            raise OSError(errno.EIO, "broken")
        self.clock.advance(self.takes)
        super().sync(fd)


@pytest.fixture
def disk() -> SlowDisk:
    return SlowDisk()


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "events.jsonl"


@pytest.fixture
def journal(disk: SlowDisk, log: Path) -> Iterator[Journal]:
    writer = JsonlLog(log, disk=disk).open()
    journal = Journal("s", writer, disk.clock)
    journal.record(f.SessionStarted("pipeline", "r", PLAN, "1", format=f.LOG_FORMAT))
    yield journal
    journal.close()


def written(log: Path) -> int:
    return log.read_bytes().count(b"\n")


def pause(journal: Journal, reason: str = "lunch") -> None:
    journal.record(f.PauseRequested(reason))


async def record_and_sync(journal: Journal) -> None:
    pause(journal)
    await journal.sync()


def test_quick_disk_is_waited_for_without_a_thread(journal: Journal, disk: SlowDisk, log: Path) -> None:
    async def scenario() -> None:
        for _ in range(3):
            await record_and_sync(journal)

    asyncio.run(scenario())
    assert disk.waited_in_a_thread == [False, False, False]
    assert written(log) == 4


def test_slow_disk_is_synced_in_a_thread_until_it_is_fast_again(
    journal: Journal, disk: SlowDisk, log: Path
) -> None:
    async def scenario() -> None:
        for takes in (SLOW_DISK_SECONDS * 2, SLOW_DISK_SECONDS * 2, 0.0, 0.0):
            disk.takes = takes
            await record_and_sync(journal)
            # A sync that has nothing to wait for says nothing about the disk.
            await journal.sync()

    asyncio.run(scenario())
    assert disk.waited_in_a_thread == [False, True, True, False]
    assert written(log) == 5


def test_slow_disk_does_not_block_other_work(journal: Journal, disk: SlowDisk) -> None:
    async def scenario() -> None:
        await record_and_sync(journal)
        disk.may_go_on.clear()
        syncing = asyncio.create_task(record_and_sync(journal))
        for _ in range(5):
            await asyncio.sleep(0)
        # The loop turns although the disk doesn't answer; only the sync itself waits.
        assert not syncing.done()
        disk.may_go_on.set()
        await syncing

    disk.takes = SLOW_DISK_SECONDS * 2
    asyncio.run(scenario())
    assert disk.waited_in_a_thread == [False, True]


def test_sync_covers_what_was_recorded_while_a_thread_waited(
    journal: Journal, disk: SlowDisk, log: Path
) -> None:
    async def scenario() -> None:
        await record_and_sync(journal)
        disk.may_go_on.clear()
        syncing = asyncio.create_task(record_and_sync(journal))
        await asyncio.sleep(0)
        threading.Timer(0.05, disk.may_go_on.set).start()
        pause(journal, "recorded meanwhile")
        await syncing
        assert written(log) == 4

    disk.takes = SLOW_DISK_SECONDS * 2
    asyncio.run(scenario())


def test_observers_hear_of_events_only_once_they_are_durable(
    journal: Journal, disk: SlowDisk, log: Path
) -> None:
    async def scenario() -> None:
        pause(journal)
        assert heard == []
        await journal.sync()
        await journal.sync()

    heard: list[int] = []
    journal.observe(lambda: heard.append(len(disk.waited_in_a_thread)))
    asyncio.run(scenario())
    assert heard == [1]
    assert written(log) == 2


def test_disk_that_fails_in_the_thread_fails_the_sync(journal: Journal, disk: SlowDisk) -> None:
    async def scenario() -> None:
        await record_and_sync(journal)
        disk.broken = True
        await record_and_sync(journal)

    disk.takes = SLOW_DISK_SECONDS * 2
    with pytest.raises(StorageFailed, match="make the log durable"):
        asyncio.run(scenario())
    assert disk.waited_in_a_thread == [False, True]
