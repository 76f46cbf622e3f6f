"""Runs the tests of each mutation and reports how many are caught: `python -m tests.mutants [WORD…]`.

A mutation is caught if a test fails or hangs. The exit status is 1 if fewer than 98 % are caught, or if the
tests fail without a mutation. WORDs select mutations by a part of the module name or the description.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.scratch import VARIABLE, memory

from .bugs import ALL, NEAR
from .mutation import ROOT, SOURCE, Mutation, environment

AT_ONCE = 2
SECONDS = 180
ALL_SECONDS = 1800
TARGET = 0.98
OK, FAILED, INTERRUPTED = 0, 1, 2
"""Exit statuses of pytest; a module that can't be imported interrupts it."""


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def tests_of(mutation: Mutation) -> tuple[str, ...]:
    return mutation.tests or NEAR[mutation.module]


def passes(source: Path, folder: Path, tests: tuple[str, ...], *more: str, seconds: float = SECONDS) -> bool:
    """Whether the tests pass with this source; tests that hang count as failed."""
    options = ("-x", "-q", "--timeout=60", "-p", "no:cacheprovider", f"--basetemp={folder / 'tmp'}")
    with tempfile.TemporaryDirectory(prefix="mutant-", dir=memory(), ignore_cleanup_errors=True) as scratch:
        process = subprocess.Popen(
            [sys.executable, "-m", "pytest", *options, *more, *tests],
            cwd=ROOT,
            env=environment(source) | {VARIABLE: scratch},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return False
    said = output.decode(errors="replace")
    if process.returncode not in (OK, FAILED, INTERRUPTED):
        raise SystemExit(f"can't run {' '.join(tests)}:\n{said[-2000:]}")
    if source == SOURCE and process.returncode != OK:
        say(said[-4000:])
    return process.returncode == OK


def passes_unchanged(chosen: list[Mutation]) -> bool:
    """Whether all the tests pass with the unchanged source."""
    tests = tuple(sorted({test for mutation in chosen for test in tests_of(mutation)}))
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as name:
        at_once = ("-n", str(AT_ONCE), "--dist", "loadfile")
        return passes(SOURCE, Path(name), tests, *at_once, seconds=ALL_SECONDS)


def is_caught(mutation: Mutation) -> bool:
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        caught = not passes(mutation.apply(folder), folder, tests_of(mutation))
    say(f"{'caught  ' if caught else 'SURVIVED'} {mutation.module}: {mutation.bug}")
    return caught


def report(caught: dict[Mutation, bool]) -> float:
    """Print the table; returns the share that was caught."""
    rows: dict[str, list[bool]] = defaultdict(list)
    for mutation, was in caught.items():
        rows[mutation.package].append(was)
    say("\n| package | caught | tried |\n|---|---:|---:|")
    for package in sorted(rows):
        say(f"| {package} | {sum(rows[package])} | {len(rows[package])} |")
    share = sum(caught.values()) / len(caught)
    say(f"| **all** | **{sum(caught.values())}** | **{len(caught)}** |\n\n{share:.1%} caught")
    return share


def main(words: list[str]) -> int:
    chosen = [
        mutation
        for mutation in ALL
        if not mutation.equivalent
        and (not words or any(word in f"{mutation.module} {mutation.bug}" for word in words))
    ]
    began = time.monotonic()
    if not words and not passes_unchanged(chosen):
        say("the tests fail without a mutation")
        return 1
    with ThreadPoolExecutor(AT_ONCE) as pool:
        caught = dict(zip(chosen, pool.map(is_caught, chosen), strict=True))
    share = report(caught)
    say(f"{time.monotonic() - began:.0f} s")
    return 0 if share >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
