"""Limits of work: time in which the process was stopped counts towards none."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Coroutine
from pathlib import Path

import pytest

from agentforge.system.programs import Program, run
from agentforge.system.work_limit import WorkLimit

PATIENCE = 60.0
STOPPED = 2.5
"""Longer than each limit. What is limited is over soon after the process continues."""

LIMITED = """
import asyncio, os, sys, time
from agentforge.system.programs import Program, run
from agentforge.system.work_limit import WorkLimit

async def wait():
    while not os.path.exists("go"):
        await asyncio.sleep(0.01)

async def limited():
    async with WorkLimit(2):
        print("up", flush=True)
        await wait()

if sys.argv[1] == "await":
    asyncio.run(limited())
else:
    print("up", flush=True)
    ended = run(Program(("sh", "-c", "while [ ! -e go ]; do sleep 0.01; done"), 2))
    assert ended.code == 0, ended
"""


@pytest.mark.parametrize("kind", ["await", "program"])
def test_time_in_which_the_process_was_stopped_does_not_count(tmp_path: Path, kind: str) -> None:
    search = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(sys.path)}
    line = (sys.executable, "-c", LIMITED, kind)
    with subprocess.Popen(line, cwd=tmp_path, env=search, stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGSTOP)
        # The clock of the machine can't be replaced in another process, and nothing else shows a stop.
        time.sleep(STOPPED)
        process.send_signal(signal.SIGCONT)
        time.sleep(0.2)
        (tmp_path / "go").touch()
        assert process.wait(PATIENCE) == 0


async def within(seconds: float, work: Coroutine[None, None, None]) -> None:
    limit = WorkLimit(seconds)
    try:
        async with limit:
            await work
    finally:
        assert limit.expired()


def test_limit_ends_the_work_in_its_time() -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            await within(0.05, asyncio.sleep(PATIENCE))

    asyncio.run(main())


def test_busy_event_loop_does_not_look_stopped() -> None:
    """A provider that blocks it has no more time than others."""

    async def blocks() -> None:
        # The first one is over the limit. If it didn't count, the others would be within it.
        for seconds in (1.6, 0.01, 0.01, 0.01):
            time.sleep(seconds)  # noqa: ASYNC251 - the subject
            await asyncio.sleep(0)

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await within(1.0, blocks())

    asyncio.run(main())


def test_work_without_a_limit_and_work_in_time_is_not_ended() -> None:
    async def main() -> None:
        for seconds in (None, PATIENCE):
            limit = WorkLimit(seconds)
            async with limit:
                await asyncio.sleep(0.01)
            assert not limit.expired()

    asyncio.run(main())


def test_program_is_ended_in_its_time() -> None:
    ended = run(Program(("sleep", "60"), 0.1))
    assert ended.code is None
