"""Skipped tests have a reason of a known class, and are counted by it."""

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.fork_server import ForkServer
from tests.skips import CLASSES, class_of, error

os.environ.pop("IS_SANDBOX", None)  # Claude as root is refused with a value of another program.
# A shell ignores Ctrl-C for what it runs in the background, and so would every program that a test starts.
signal.signal(signal.SIGINT, signal.default_int_handler)


FEWER_COLLECTIONS = 10_000
"""Objects between two collections of garbage; the default is made for programs with less to look at."""


def _reason(report: Any) -> str:
    """Of a skip; pytest gives it as file, line and `Skipped: …`."""
    return str(report.longrepr[2]).removeprefix("Skipped: ")


def _import_share(session: pytest.Session) -> None:
    """In a new clone no test is compiled: each worker begins with its share, and then finds those of the
    others."""
    worker, config = os.environ.get("PYTEST_XDIST_WORKER"), session.config
    if worker and config.args == config.getini("testpaths"):
        files = sorted(path for name in config.args for path in config.rootpath.glob(f"{name}/**/test_*.py"))
        for path in files[int(worker.removeprefix("gw")) :: int(os.environ["PYTEST_XDIST_WORKER_COUNT"])]:
            with suppress(Exception, pytest.skip.Exception):  # Its collection reports the error.
                pytest.Module.from_parent(session, path=path).obj  # noqa: B018 - imports it.


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Every worker collects all tests: the garbage collector need not look at them, neither now nor later."""
    gc.disable()
    try:
        _import_share(session)
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(FEWER_COLLECTIONS)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: Any = yield
    if report.skipped and not hasattr(report, "wasxfail") and (wrong := error(_reason(report))):
        report.outcome, report.longrepr = "failed", f"{item.nodeid}: {wrong}"
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = [report for report in terminalreporter.stats.get("skipped", ()) if report.when]
    counts = Counter(class_of(_reason(report)) for report in skipped)
    for name, count in counts.most_common():
        terminalreporter.write_line(f"skipped {count}, {name}: {CLASSES.get(name, 'unknown')}")


@pytest.fixture(scope="session")
def tool_loop_launcher(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    server = ForkServer(str(Path(__file__).with_name("warm_tool_loop.py")))
    yield server.put_launcher(tmp_path_factory.mktemp("tool-loop") / "python", "python")
    del server


@pytest.fixture
def warm_tool_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs of the provider api are forked, where that is possible."""
    from agentforge.adapters.providers import api
    from agentforge.tool_loop.task import program_argv

    if sys.platform == "linux":
        python = str(request.getfixturevalue("tool_loop_launcher"))
        monkeypatch.setattr(api, "program_argv", lambda _, *arguments: program_argv(python, *arguments))
