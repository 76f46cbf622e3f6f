"""Runs the tests of each mutation and reports how many are caught: `python -m tests.mutants [WORD…]`.

A mutation is caught if a test fails or hangs, and the test that failed passes without the mutation. The exit
status is 1 if fewer than 98 % are caught, or if the tests fail without a mutation. WORDs select mutations by
a part of the module name or the description.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

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


class Outcome(NamedTuple):
    passed: bool
    failed: str = ""
    """The test, or the file that can't be imported; empty if the tests were ended."""


def try_tests(
    source: Path, folder: Path, tests: tuple[str, ...], *more: str, seconds: float = SECONDS
) -> Outcome:
    """Whether the tests pass with this source; tests that hang count as failed."""
    cache = folder / "cache"
    options = ("-x", "-q", "--timeout=60", "-o", f"cache_dir={cache}", f"--basetemp={folder / 'tmp'}")
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
            return Outcome(False)
    said = output.decode(errors="replace")
    if process.returncode not in (OK, FAILED, INTERRUPTED):
        raise SystemExit(f"can't run {' '.join(tests)}:\n{said[-2000:]}")
    if source == SOURCE and process.returncode != OK:
        say(said[-4000:])
    if process.returncode == OK:
        return Outcome(True)
    failed = cache / "v" / "cache" / "lastfailed"
    return Outcome(False, next(iter(json.loads(failed.read_bytes())), "") if failed.exists() else "")


def passes_unchanged(chosen: list[Mutation]) -> bool:
    """Whether all the tests pass with the unchanged source."""
    tests = tuple(sorted({test for mutation in chosen for test in tests_of(mutation)}))
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as name:
        at_once = ("-n", str(AT_ONCE), "--dist", "loadfile")
        return try_tests(SOURCE, Path(name), tests, *at_once, seconds=ALL_SECONDS).passed


def is_caught(mutation: Mutation) -> bool:
    with tempfile.TemporaryDirectory(prefix="mutant-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        passed, failed = try_tests(mutation.apply(folder), folder, tests_of(mutation))
        # A test that sometimes fails by itself has caught nothing.
        flaky = bool(failed) and not try_tests(SOURCE, folder, (failed,)).passed
    found = "SURVIVED" if passed else "UNKNOWN " if flaky else "caught  "
    note = f" ({failed} fails without the mutation, too)" if flaky else ""
    say(f"{found} {mutation.module}: {mutation.bug}{note}")
    return not passed and not flaky


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
