"""Processes that answer the same request at the same instant: `python -m tests.sdk.answer_race ROUNDS SEED`.

In an empty project below an empty folder; prints, as JSON, the request and every outcome of each round.
"""

import asyncio
import json
import multiprocessing
import random
import sys
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from pathlib import Path

from agentforge import AgentForgeError, Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

PROCESSES = 8
ANSWERS = {"approval": ("approve", "reject"), "escalation": ("resume", "retry", "1")}
"""None of them ends the run: after each, the next request is opened."""


def engine() -> Engine:
    environ = {"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": str(Path.cwd().parent / "state")}
    return Engine(".", providers={"scripted": ScriptedProvider([says("done")])}, environ=environ)


async def answered(request: str, answer: str) -> str:
    made = engine()
    try:
        result = await made.answer("s", answer, request=request, text="again" if answer == "reject" else "")
    except AgentForgeError as error:
        return error.code
    finally:
        await made.close()
    return f"continued until {result.status}" if result else "left to another engine"


def answer_rounds(orders: Connection, start: Barrier) -> None:
    while order := orders.recv():
        start.wait()
        orders.send(asyncio.run(answered(*order)))


async def begin(rounds: int) -> None:
    stage = {"prompt": "do it", "provider": "scripted", "delay": 0, "approve": {"rounds": 2}}
    nodes = [{"id": f"stage{number}", **stage} for number in range(rounds + 1)]
    made = engine()
    await made.run({"name": "race", "nodes": nodes}, session="s")
    await made.close()


def main(rounds: int, seed: int) -> None:
    asyncio.run(begin(rounds))
    dice, fork = random.Random(seed), multiprocessing.get_context("fork")
    pipes, start = [fork.Pipe() for _ in range(PROCESSES)], fork.Barrier(PROCESSES)
    workers = [fork.Process(target=answer_rounds, args=(theirs, start), daemon=True) for _, theirs in pipes]
    for worker in workers:
        worker.start()
    told = []
    for _ in range(rounds):
        (request,) = engine().status("s").state.open_requests
        answers = [dice.choice(ANSWERS[request.kind]) for _ in pipes]
        for (mine, _), answer in zip(pipes, answers, strict=True):
            mine.send((request.id, answer))
        told.append([request.id, answers, [mine.recv() for mine, _ in pipes]])
    for mine, _ in pipes:
        mine.send(None)
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
