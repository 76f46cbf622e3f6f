"""One task, from stdin to the last line."""

import asyncio
import os
import signal
import sys

import msgspec

from agentforge.adapters.api.events import Ended, Event, encode
from agentforge.adapters.api.task import Outcome, Task
from agentforge.model.failure import Failure, FailureKind

FAILED, TERMINATED = 1, 143


def run(key: str) -> int:
    try:
        task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    except msgspec.DecodeError as error:
        _say(
            Ended("failed", failure=Failure(FailureKind.PROVIDER_CRASHED, f"the task can't be read: {error}"))
        )
        return FAILED
    try:
        outcome = asyncio.run(_until_told(task, key))
    except asyncio.CancelledError:
        return TERMINATED
    _say(_ended(outcome))
    return FAILED if outcome.failure else 0


async def _until_told(task: Task, key: str) -> Outcome:
    """Do the task; SIGTERM and SIGINT end it at once, with what its tools started."""
    from agentforge.adapters.api.loop import run_task

    work = asyncio.current_task()
    assert work is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    return await run_task(task, key=key, environ=dict(os.environ), report=_say)


def _ended(outcome: Outcome) -> Ended:
    return Ended(
        "failed" if outcome.failure else "completed",
        outcome.text,
        outcome.steps,
        outcome.usage,
        outcome.failure,
    )


def _say(event: Event) -> None:
    sys.stdout.buffer.write(encode(event))
    sys.stdout.buffer.flush()
