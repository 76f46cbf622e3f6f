"""A separate process that writes a log. `python log_process.py append|hold|restore PATH`."""

import os
import signal
import sys
from pathlib import Path

from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.adapters.log.writer import Buffering
from agentforge.model.errors import LogConflict
from agentforge.system.disk import Disk
from agentforge.testing.event_log_contract import large_event, timer_event, timer_events


def append_forever(path: Path) -> None:
    """Tell each event's number once it is durable; now and then a large one, now and then a group."""
    writer = JsonlLog(path, Buffering(events=4)).open()
    while True:
        for _ in range(1 + writer.head.seq % 7):
            seq = writer.head.seq + 1
            writer.append(large_event(seq) if seq % 50 == 0 else timer_event(seq))
        writer.sync()
        os.write(1, b"%d\n" % writer.head.seq)


def hold(path: Path) -> None:
    """Keep the lease until stdin closes."""
    writer = JsonlLog(path).open()
    os.write(1, b"held\n")
    sys.stdin.read()
    writer.close()


class DyingDisk(Disk):
    """Kills its process at the n-th call from now on; in the middle of a write, half of it is done."""

    calls_left: int | None = None

    def _note(self) -> None:
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def open(self, path: str, flags: int) -> int:
        self._note()
        return super().open(path, flags)

    def write(self, fd: int, data: bytes) -> int:
        if self.calls_left == 0:
            super().write(fd, data[: len(data) // 2])
        self._note()
        return super().write(fd, data)

    def sync(self, fd: int) -> None:
        self._note()
        super().sync(fd)

    def sync_directory(self, path: str) -> None:
        self._note()
        super().sync_directory(path)


def restore(path: Path) -> None:
    """Write three events, remove the log, and die during its restoration, after a given number of calls."""
    disk = DyingDisk()
    writer = JsonlLog(path, disk=disk, sleep=lambda _: None).open()
    for event in timer_events(3):
        writer.append(event)
    writer.sync()
    path.unlink()
    disk.calls_left = int(os.environ["DIE_AFTER"])
    try:
        writer.verify()
    except LogConflict:
        os.write(1, b"restored\n")


if __name__ == "__main__":
    {"append": append_forever, "hold": hold, "restore": restore}[sys.argv[1]](Path(sys.argv[2]))
