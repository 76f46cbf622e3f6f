"""The floor: one line with the step's result appended to a file and synced."""

import json
import os
from pathlib import Path
from typing import Any

from bench.peers.workload import Turns, worker


def run(folder: Path, steps: int, turns: Turns) -> dict[str, Any]:
    fd = os.open(folder / "log.jsonl", os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o644)
    turns.begin()
    for number in range(steps):
        os.write(fd, json.dumps({"step": number, **turns.step()}).encode() + b"\n")
        os.fdatasync(fd)
    took = turns.end()
    os.close(fd)
    return took


if __name__ == "__main__":
    worker("", run)
