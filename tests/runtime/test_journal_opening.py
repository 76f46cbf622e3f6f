"""What an earlier engine wrote and didn't wait for is made durable before anything is done because of it."""

import asyncio
from pathlib import Path

from agentforge.adapters.host.machine import SystemClock
from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.model import facts as f
from agentforge.runtime.journal import Journal

from .test_journal_sync import PLAN, SlowDisk


def test_the_first_sync_waits_although_nothing_new_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    first = Journal("s", JsonlLog(path).open(), SystemClock())
    first.record(f.SessionStarted("pipeline", "r", PLAN, "1", format=f.LOG_FORMAT))
    first.writer.flush()
    written = path.read_bytes()
    first.close()
    assert path.read_bytes() == written

    disk = SlowDisk()
    second = Journal("s", JsonlLog(path, disk=disk).open(), SystemClock())
    disk.waited_in_a_thread.clear()
    asyncio.run(second.sync())
    assert len(disk.waited_in_a_thread) == 1
    asyncio.run(second.sync())
    assert len(disk.waited_in_a_thread) == 1
    second.close()
