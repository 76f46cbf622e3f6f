"""What caps on spending add to an iteration, beside the same plan without them. Iterations are their events
alone."""

import os
from pathlib import Path
from time import perf_counter
from typing import Any

from bench import floors
from bench.agents import InProcess, engine_in, in_process_pipeline
from bench.measure import Measure, beside

MAX_CAPPED, MAX_CROWD, MAX_DAILY = 1.05, 1.1, 1.5
BRANCHES = 16
CAPS = {
    "limits": {"cost_usd": 1000, "tokens": 10**9},
    "max_iteration_cost_usd": 0.001,
    "max_iteration_tokens": 100,
}
SETTINGS = "limits: {daily_usd: 10000}\n"
ITERATION = "the same plan without caps"


async def caps(root: Path, rounds: int, per_round: int) -> list[Measure]:
    """In turns, so that noise meets all of them."""
    without: list[float] = []
    capped: list[float] = []
    daily: list[float] = []
    appended: list[float] = []
    own, ledger = _user(root)
    plain = floors.PlainLog(root / "plain-caps" / "events.jsonl")
    for number in range(rounds):
        without += await _iterations(root, f"uncapped-{number}", per_round, {})
        capped += await _iterations(root, f"capped-{number}", per_round, CAPS)
        daily += await _iterations(root, f"daily-{number}", per_round, CAPS, {"XDG_CONFIG_HOME": own})
        appended += [plain.append(_last_line(ledger)) for _ in range(per_round - 1)]
    plain.close()
    least = [one + append for one, append in zip(without, appended, strict=True)]
    return [
        beside("iteration with caps", "µs", capped, ITERATION, without, maximum=MAX_CAPPED),
        beside(
            "iteration with a cap of the day",
            "µs",
            daily,
            f"{ITERATION} + {floors.APPEND}",
            least,
            maximum=MAX_DAILY,
        ),
    ]


async def crowd(root: Path, rounds: int, per_branch: int) -> list[Measure]:
    """Branches that share a cap, from the call of the engine to its return: all of them start at once."""
    without: list[float] = []
    capped: list[float] = []
    for number in range(rounds):
        without.append(await _crowded(root, f"crowd-uncapped-{number}", per_branch, {}))
        capped.append(await _crowded(root, f"crowd-capped-{number}", per_branch, CAPS))
    name = f"{BRANCHES} branches under one cap"
    return [beside(name, "ms", capped, ITERATION, without, maximum=MAX_CROWD)]


async def _crowded(root: Path, session: str, runs: int, keys: dict[str, Any]) -> float:
    agent = InProcess(is_timed=False)
    branches = [{"name": f"p{number}", "type": agent.name} for number in range(BRANCHES)]
    stage = {"id": "work", "prompt": "Do a bit of work.", "runs": runs, "delay": 0}
    block = {"id": "crowd", "parallel": {"providers": branches, "stages": [stage]}}
    async with engine_in(root, agent) as engine:
        began = perf_counter()
        result = await engine.run({"name": "bench", "nodes": [block], **keys}, session=session)
        took = perf_counter() - began
    assert result.iterations == BRANCHES * runs, result
    return took


def _user(root: Path) -> tuple[str, Path]:
    """The folder of the settings of a user with a cap of the day, and the ledger."""
    settings = root / "of-the-day/agentforge/settings.yaml"
    settings.parent.mkdir(parents=True)
    settings.write_text(SETTINGS)
    state = Path(f"{os.path.realpath(root)}-state")
    return str(settings.parent.parent), state / "agentforge/daily/ledger.jsonl"


def _last_line(ledger: Path) -> bytes:
    return ledger.read_bytes().splitlines(keepends=True)[-1]


async def _iterations(
    root: Path, session: str, count: int, keys: dict[str, Any], user: dict[str, str] | None = None
) -> list[float]:
    """What the engine takes between two iterations."""
    agent = InProcess()
    async with engine_in(root, agent, user) as engine:
        result = await engine.run({**in_process_pipeline(count), **keys}, session=session)
    assert result.iterations == count, result
    return agent.engine_seconds
