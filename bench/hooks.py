"""What hooks add to an iteration, beside the same plan without them. Iterations are their events alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentforge.app.hooks import HookContext
from agentforge.model.layout import RunLayout
from agentforge.sdk.engine import Engine
from bench import floors
from bench.agents import InProcess, engine_in, in_process_pipeline
from bench.measure import Measure, beside

MAX_IDLE, MAX_CALLED = 1.1, 1.5
NEVER = {"action": "confirm", "condition": "iteration > 1000000"}
IDLE = {"iteration_start": [NEVER], "iteration_end": [NEVER], "stage_end": [NEVER]}
ITERATION = "the same plan without hooks"


async def hooks(root: Path, rounds: int, per_round: int) -> list[Measure]:
    """In turns, so that noise meets all of them."""
    without: list[float] = []
    idle: list[float] = []
    called: list[float] = []
    appended: list[float] = []
    plain = floors.PlainLog(root / "plain-hooks" / "events.jsonl")
    for number in range(rounds):
        without += await _iterations(root, f"without-{number}", per_round)
        idle += await _iterations(root, f"idle-{number}", per_round, keys={"hooks": IDLE})
        called += await _iterations(root, f"called-{number}", per_round, register=_register)
        lines = _hook_lines(RunLayout.of(str(root), f"called-{number}"))
        appended += [plain.append(lines) for _ in range(per_round - 1)]
    plain.close()
    least = [one + append for one, append in zip(without, appended, strict=True)]
    return [
        beside("iteration with hooks that don't apply", "µs", idle, ITERATION, without, maximum=MAX_IDLE),
        beside(
            "iteration with a hook in process",
            "µs",
            called,
            f"{ITERATION} + {floors.APPEND}",
            least,
            maximum=MAX_CALLED,
        ),
    ]


async def _iterations(
    root: Path,
    session: str,
    count: int,
    *,
    keys: dict[str, Any] | None = None,
    register: Callable[[Engine], None] = lambda _: None,
) -> list[float]:
    """What the engine takes between two iterations."""
    agent = InProcess()
    async with engine_in(root, agent) as engine:
        register(engine)
        result = await engine.run({**in_process_pipeline(count), **(keys or {})}, session=session)
    assert result.iterations == count, result
    return agent.engine_seconds


def _register(engine: Engine) -> None:
    @engine.on_iteration_end
    async def review(_: HookContext) -> None:
        """Nothing to object to."""


def _hook_lines(run: RunLayout) -> bytes:
    """What one call of a hook writes."""
    lines = Path(run.log).read_bytes().splitlines(keepends=True)
    return b"".join([line for line in lines if b'"type":"hook_' in line][:2])
