"""The step that every system runs, and how workers take turns. Standard library only, as peers import it."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

# The result of the step, which each system saves in its own way.
RESULT = {
    "decision": "continue",
    "reason": "one more to go",
    "summary": "did next to nothing",
    "output": "done\n",
}


class Turns:
    """Runs some steps at a time: after each turn it waits for a line on standard input."""

    def __init__(self, every: int) -> None:
        self._every = every
        self._calls = 0
        self._began = 0.0
        self._turns: list[float] = []

    def begin(self) -> None:
        self._wait({"ready": True})

    def step(self) -> dict[str, str]:
        """The step that a system calls. A turn ends when a step starts and the previous ones are saved."""
        if self._every and self._calls and self._calls % self._every == 0:
            self._turns.append(perf_counter() - self._began)
            self._wait({"turn": len(self._turns)})
        self._calls += 1
        return RESULT

    def end(self) -> dict[str, Any]:
        rest = perf_counter() - self._began
        return {"seconds": sum(self._turns) + rest, "turns": self._turns, "turn_steps": self._every}

    def _wait(self, message: dict[str, Any]) -> None:
        print(json.dumps(message), flush=True)
        if not sys.stdin.readline():
            sys.exit("the parent process has ended")
        self._began = perf_counter()


def worker(package: str, run: Callable[[Path, int, Turns], dict[str, Any]]) -> None:
    """Call `run(folder, steps, turns)`, which returns the result of `Turns.end`, and print it as JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("steps", type=int)
    parser.add_argument("turn_steps", type=int)
    options = parser.parse_args()
    options.folder.mkdir(parents=True)
    took = run(options.folder, options.steps, Turns(options.turn_steps))
    apparent, allocated = disk_bytes(options.folder)
    results = {"apparent_bytes": apparent, "allocated_bytes": allocated, "steps": options.steps, **took}
    print(json.dumps({"version": version(package) if package else "", **results}))


def disk_bytes(folder: Path) -> tuple[int, int]:
    """Bytes in all files below, and the disk usage of files and folders, as `du` counts it."""
    apparent = allocated = 0
    for path, _, names in os.walk(folder):
        for name in ("", *names):
            found = os.lstat(os.path.join(path, name))
            apparent += found.st_size if name else 0
            allocated += found.st_blocks * 512
    return apparent, allocated
