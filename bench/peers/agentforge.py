"""AgentForge: one iteration per step, by an in-process provider or, with PROGRAM set, by a program."""

import asyncio
import os
from pathlib import Path
from typing import Any

from bench.agents import InProcess, command_pipeline, engine_in, in_process_pipeline
from bench.peers.workload import Turns, worker

PROGRAM = "BENCH_PROGRAM"


async def _run(folder: Path, steps: int, turns: Turns) -> dict[str, Any]:
    program = bool(os.environ.get(PROGRAM))
    pipeline = command_pipeline(steps) if program else in_process_pipeline(steps)
    agent = None if program else InProcess(lambda _: turns.step(), is_timed=False)
    async with engine_in(folder, agent) as engine:
        turns.begin()
        result = await engine.run(pipeline, session="bench")
        took = turns.end()
    assert result.iterations == steps, result
    return took


def run(folder: Path, steps: int, turns: Turns) -> dict[str, Any]:
    return asyncio.run(_run(folder, steps, turns))


if __name__ == "__main__":
    worker("agentforge-pipelines", run)
