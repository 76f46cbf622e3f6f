"""A provider that forks: its workers don't keep the lease of the run when the engine dies."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.surface.terminal import is_alive, wait_for

from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.adapters.log.lease import LogLease
from agentforge.model.errors import StorageFailed
from agentforge.testing.event_log_contract import timer_event

from .projects import ENVIRON, engine, run

PROGRAM = """
import asyncio, multiprocessing, os, sys, time
from pathlib import Path
from agentforge import Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

def work():
    # The worker itself says that it lives: by then it has closed its copy of the lease.
    Path("worker.draft").write_text(str(os.getpid()))
    Path("worker.draft").rename("worker")
    time.sleep(300)

class Forking(ScriptedProvider):
    async def execute(self, request):
        multiprocessing.get_context("fork").Process(target=work).start()
        await asyncio.sleep(300)

async def main():
    environ = {"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": sys.argv[1]}
    engine = Engine(".", providers={"scripted": Forking([says("done")])}, environ=environ)
    nodes = [{"id": "plan", "prompt": "do it", "provider": "scripted", "delay": 0}]
    await engine.start(engine.compile({"name": "refine", "nodes": nodes}, session="s"))

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc")
def test_run_is_recovered_while_a_forked_worker_of_the_dead_engine_lives(tmp_path: Path) -> None:
    project, state = tmp_path / "project", tmp_path / "state"
    project.mkdir()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(state)], cwd=project)
    try:
        wait_for((project / "worker").exists, "a worker")
    finally:
        process.kill()
        process.wait()
    worker = int((project / "worker").read_text())
    try:
        other = engine(project, environ={**ENVIRON, "XDG_STATE_HOME": str(state)})
        assert other.status("s").status == "interrupted"
        result = run(other.recover("s"))
        assert result is not None
        assert result.status.value == "completed"
        assert is_alive(worker)
    finally:
        os.kill(worker, signal.SIGKILL)


def in_child(act: Callable[[], None]) -> int:
    """The exit status of a forked child that calls `act`."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_child_can_neither_write_to_the_log_nor_release_the_lease(tmp_path: Path) -> None:
    logs = [JsonlLog(tmp_path / name / "events.jsonl") for name in ("a", "b")]
    writers = [log.open() for log in logs]

    def misuse() -> None:
        for writer in writers:
            writer.append(timer_event(1))
            with pytest.raises((StorageFailed, OSError)):
                writer.close()

    assert in_child(misuse) == 0
    assert all(log.is_held() for log in logs)
    for writer in writers:
        writer.append(timer_event(1))
        writer.close()
    assert not any(log.is_held() for log in logs)


def test_child_takes_leases_of_its_own(tmp_path: Path) -> None:
    held = JsonlLog(tmp_path / "a" / "events.jsonl").open()

    def work() -> None:
        with JsonlLog(tmp_path / "b" / "events.jsonl").open() as writer:
            writer.append(timer_event(1))
        lease = LogLease(lambda: os.open(tmp_path / "a" / "events.jsonl", os.O_RDWR))
        assert not lease.take_now()

    assert in_child(work) == 0
    held.close()
