"""A separate process that writes a log. `python log_process.py append|hold PATH`."""

import os
import sys
from pathlib import Path

from agentforge.adapters.log.log import JsonlLog
from agentforge.testing.event_log_contract import large_event, timer_event


def append_forever(path: Path) -> None:
    """Tell each event's number once it is durable; now and then a large one, now and then a group."""
    writer = JsonlLog(path, buffer_events=4).open()
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


if __name__ == "__main__":
    {"append": append_forever, "hold": hold}[sys.argv[1]](Path(sys.argv[2]))
