"""What hooks cost a run: appends to the log, each of which is synced."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import engine, node, pipeline, run, run_dir

from agentforge import Engine, HookContext
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import returns

ITERATIONS = 5


class LogCalls:
    """The appends to logs and their syncs, as the system gets them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.appends = self.syncs = 0
        write, sync = os.write, os.fdatasync

        def counted_write(fd: int, data: bytes) -> int:
            self.appends += is_log(fd)
            return write(fd, data)

        def counted_sync(fd: int) -> None:
            self.syncs += is_log(fd)
            sync(fd)

        monkeypatch.setattr(os, "write", counted_write)
        monkeypatch.setattr(os, "fdatasync", counted_sync)


def is_log(fd: int) -> bool:
    return os.readlink(f"/proc/self/fd/{fd}").endswith("/events.jsonl")


def counted(
    project: Path, monkeypatch: pytest.MonkeyPatch, register: Callable[[Engine], object], **keys: Any
) -> tuple[int, int]:
    """The appends and syncs of a run of some iterations inside the engine."""
    project.mkdir(exist_ok=True)
    agent = ScriptedProvider(lambda request: returns(f"did {request.iteration}"), uses_files=False)

    async def scenario() -> None:
        async with engine(project, agent) as made:
            register(made)
            assert (await made.run(pipeline(node(runs=ITERATIONS), **keys), session="s")).completed

    with monkeypatch.context() as patched:
        calls = LogCalls(patched)
        run(scenario())
    return calls.appends, calls.syncs


def nothing(_: Engine) -> None:
    """No hooks."""


pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="platform: needs /proc")


def test_iteration_without_hooks_is_one_synced_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    appends, syncs = counted(tmp_path, monkeypatch, nothing)
    assert (appends, syncs) == (ITERATIONS + 1, ITERATIONS + 1), "and one at the end"
    assert b"hook" not in (run_dir(tmp_path) / "events.jsonl").read_bytes()


def test_hook_that_does_not_apply_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = counted(tmp_path / "without", monkeypatch, nothing)
    never = {"iteration_end": [{"action": "script", "script": "false", "condition": "iteration > 100"}]}
    assert counted(tmp_path / "never", monkeypatch, nothing, hooks=never) == without


def test_hook_in_process_costs_one_synced_append(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[int] = []

    def register(made: Engine) -> None:
        @made.on_iteration_end
        async def review(context: HookContext) -> None:
            called.append(context.iteration)

    appends, syncs = counted(tmp_path / "without", monkeypatch, nothing)
    assert counted(tmp_path / "with", monkeypatch, register) == (appends + ITERATIONS, syncs + ITERATIONS)
    assert called == [*range(1, ITERATIONS + 1)]
