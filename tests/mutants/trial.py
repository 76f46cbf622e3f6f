"""Tries mutations: `python -m tests.mutants.trial TEST…`, in the copy of the project that mutmut changed.

mutmut would start pytest for each mutation. Here the tests are collected once. A child of that process runs
them all and notes which functions each one reaches; then a child for each mutation runs the tests that reach
it: first those that caught others of the same function, then the quickest. Only mutations without an exit
status are tried, and those that no test noticed the last time.
"""

import functools
import json
import os
import resource
import signal
import sys
import time
from collections import Counter, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest

from .__main__ import AT_ONCE, say

SURVIVED, CAUGHT, UNREACHED, TOO_LONG, WRONG_TYPES = 0, 1, 33, 36, 37
"""Exit statuses, as mutmut has them."""
OPEN = (None, SURVIVED, UNREACHED)
SECONDS = 20.0
"""How much longer the tests of a mutation may take, beside three times as long."""
MEMORY = 4 << 30
VARIABLE = "MUTANT_UNDER_TEST"
"""Where programs that a test starts find the name of the mutation."""
ORIGINAL = "_mutmut_orig"


def function(mutation: str) -> str:
    return mutation.rpartition("__mutmut_")[0]


class Changed(NamedTuple):
    original: Any
    variants: dict[str, Any]
    chosen: list[Any]
    is_classmethod: bool


class Switch:
    """Stands for mutmut's decorator, which looks at the environment at every call."""

    def __init__(self) -> None:
        self.functions: list[Changed] = []

    def __call__(self, variants: dict[str, Any], is_classmethod: bool = False) -> Any:
        def decorate(original: Any) -> Any:
            chosen = [original]
            self.functions.append(Changed(original, variants, chosen, is_classmethod))

            @functools.wraps(original)
            def switched(*args: Any, **named: Any) -> Any:
                return chosen[0](*args, **named)

            return switched

        return decorate

    def choose(self, mutation: str) -> None:
        module, _, name = mutation.rpartition(".")
        known = next(k for k in self.functions if k.original.__module__ == module and name in k.variants)
        variant = known.variants[name]
        known.chosen[0] = variant
        if known.is_classmethod:
            known.chosen[0] = lambda cls, *args, **named: getattr(cls, variant.__name__)(*args, **named)

    def note_calls(self, calls: set[str]) -> None:
        for known in self.functions:
            variant = next((name for name in known.variants if name != ORIGINAL), "")
            name = f"{known.original.__module__}.{function(variant)}"
            known.chosen[0] = functools.partial(_noted, known.original, name, calls)


def _noted(original: Any, name: str, calls: set[str], *args: Any, **named: Any) -> Any:
    calls.add(name)
    return original(*args, **named)


class Trial:
    """A plugin: runs the collected tests for each mutation."""

    def __init__(self, folder: Path, switch: Switch) -> None:
        self.files = sorted(folder.rglob("*.meta"))
        self.switch = switch
        self.running: dict[int, tuple[str, int, float]] = {}
        self.catches: dict[str, Counter[str]] = defaultdict(Counter)
        """How many mutations of a function each test caught."""

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.session = session
        self.items = {item.nodeid: item for item in session.items}
        self.measure()
        for path in self.files:
            meta = json.loads(path.read_text())
            try:
                self.try_all(meta["exit_code_by_key"])
            finally:
                path.write_text(json.dumps(meta, indent=4))
            missed = sum(status in OPEN for status in meta["exit_code_by_key"].values())
            say(f"{path.name.removesuffix('.meta')}: {missed} of {len(meta['exit_code_by_key'])} not caught")
        return True

    def measure(self) -> None:
        """Note the functions that each test reaches, and its time. Stop if one fails."""
        read, write = os.pipe()
        if not (pid := os.fork()):
            os.close(read)
            self.report_reach(write)
        os.close(write)
        with os.fdopen(read) as pipe:
            told = json.loads(pipe.read() or "{}")
        os.waitpid(pid, 0)
        if told.get("failed", True):
            raise self.session.Failed(f"without a mutation: {told.get('failed', 'the tests were ended')}")
        self.tests: dict[str, list[str]] = told["tests"]
        self.seconds: dict[str, float] = told["seconds"]

    def report_reach(self, pipe: int) -> NoReturn:
        _silence()
        calls: set[str] = set()
        self.switch.note_calls(calls)
        reached, seconds, failed = defaultdict(list), {}, []
        for name, item in self.items.items():
            calls.clear()
            began = time.perf_counter()
            if not passes(item):
                failed.append(name)
                self.session.testsfailed = 0
            seconds[name] = time.perf_counter() - began
            for call in calls:
                reached[call].append(name)
        with os.fdopen(pipe, "w") as file:
            json.dump({"tests": reached, "seconds": seconds, "failed": failed}, file)
        os._exit(0)

    def try_all(self, statuses: dict[str, int | None]) -> None:
        waiting = [name for name, status in statuses.items() if status in OPEN]
        while waiting or self.running:
            while waiting and len(self.running) < AT_ONCE:
                name = waiting.pop(0)
                if tests := self.tests.get(function(name)):
                    self.start(name, tests)
                else:
                    statuses[name] = UNREACHED
            statuses.update(self.ended())
            time.sleep(0.005)

    def start(self, name: str, tests: list[str]) -> None:
        catches, seconds = self.catches[function(name)], self.seconds
        order = sorted(tests, key=lambda test: (-catches[test], seconds[test]))
        whole = sum(seconds[test] for test in tests)
        read, write = os.pipe()
        if not (pid := os.fork()):
            os.close(read)
            self.run_mutated(name, order, write, int(5 + 2 * whole))
        os.close(write)
        self.running[pid] = name, read, time.monotonic() + SECONDS + 3 * whole

    def run_mutated(self, name: str, order: list[str], pipe: int, seconds: int) -> NoReturn:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        _silence()
        os.environ[VARIABLE] = name
        self.switch.choose(name)
        for test in order:
            with suppress(BaseException):
                if passes(self.items[test]):
                    continue
            os.write(pipe, test.encode())
            os._exit(CAUGHT)
        os._exit(SURVIVED)

    def ended(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for pid, (name, pipe, deadline) in list(self.running.items()):
            is_late = time.monotonic() > deadline
            if is_late:
                _kill(pid)
            ended, status = os.waitpid(pid, 0 if is_late else os.WNOHANG)
            if not ended:
                continue
            _kill(pid)  # Programs that its tests started.
            del self.running[pid]
            with os.fdopen(pipe) as file:
                if test := file.read():
                    self.catches[function(name)][test] += 1
            code = os.waitstatus_to_exitcode(status)
            found[name] = TOO_LONG if code < 0 else code
        return found


def _silence() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (1, 2):
        os.dup2(nothing, stream)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _has_condition(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in ("skip", "skipif", "xfail"))


def passes(item: pytest.Item) -> bool:
    """A function without fixtures is called as it is: all that pytest does around it takes longer."""
    given = getattr(getattr(item, "callspec", None), "params", {})
    is_plain = isinstance(item, pytest.Function) and item.cls is None and not _has_condition(item)
    if is_plain and set(item.fixturenames) <= set(given):
        try:
            item.obj(**given)
        except pytest.skip.Exception:
            return True
        except Exception:
            return False
        return True
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    return not item.session.testsfailed


if __name__ == "__main__":
    from mutmut.mutation import trampoline  # type: ignore[import-not-found]

    trampoline.wrap_in_trampoline = switch = Switch()
    sys.exit(pytest.main(["--capture=no", *sys.argv[1:]], plugins=[Trial(Path.cwd(), switch)]))
