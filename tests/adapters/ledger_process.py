"""Separate processes that share a ledger. `python ledger_process.py spend|crash|hold FOLDER [NAME]`."""

import json
import os
import sys
from pathlib import Path

from tests.adapters.log_process import DyingDisk

from agentforge.adapters.daily_ledger import DailyLedger
from agentforge.model.spending import DailyAnswer
from agentforge.ports.ledger import Ledger, Reservation
from agentforge.system import files
from agentforge.testing.fake_clock import FakeClock

CAP, EACH = 1.0, 0.1


def reserve(ledger: Ledger, run: str, key: str, usd: float = EACH, cap: float = CAP) -> DailyAnswer:
    """All of it or nothing."""
    return ledger.reserve(Reservation(run, key, usd, "/project/run"), usd, lambda _: cap)


def spend(folder: Path, name: str) -> None:
    """Reserve and settle until nothing fits any more; tell what was granted."""
    ledger, granted = DailyLedger(str(folder), FakeClock()), 0
    for number in range(100):
        if not reserve(ledger, name, str(number)).granted_usd:
            break
        granted += 1
        ledger.settle(name, str(number), EACH)
    sys.stdout.write(f"{granted}\n")


def crash(folder: Path, _: str) -> None:
    """Die at each call to the disk in turn. Tell for each death what was acknowledged and what remained."""
    for number in range(1000):
        place, (reading, writing) = folder / str(number), os.pipe()
        child = os.fork()
        if child == 0:
            disk = DyingDisk()
            disk.calls_left = number
            ledger = DailyLedger(str(place), FakeClock(), disk)
            for step in range(3):
                reserve(ledger, "r", str(step))
                os.write(writing, b"+")
                ledger.settle("r", str(step), EACH / 2)
                os.write(writing, b"-")
            os._exit(0)
        os.close(writing)
        _, status = os.waitpid(child, 0)
        said = os.read(reading, 100).decode()
        os.close(reading)
        ledger = DailyLedger(str(place), FakeClock())
        left = [one.key for one in ledger.open()]
        answer = reserve(ledger, "next", "1")
        found = {"said": said, "left": left, "spent": answer.spent_usd, "reserved": answer.reserved_usd}
        sys.stdout.write(json.dumps(found) + "\n")
        if status == 0:
            return


def hold(folder: Path, _: str) -> None:
    """Hold the lock until the process is killed."""
    with files.locked(str(folder / "lock")):
        os.write(1, b"held\n")
        sys.stdin.read()


if __name__ == "__main__":
    {"spend": spend, "crash": crash, "hold": hold}[sys.argv[1]](Path(sys.argv[2]), sys.argv[-1])
