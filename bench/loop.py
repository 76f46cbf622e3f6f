"""What the built-in loop costs: a transition beside writing the files and events of its iteration, four
stages beside the same programs without the engine, and the memory of a long run."""

import asyncio
import gc
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Any

from agentforge import copy_pipeline
from agentforge.model.layout import RunLayout
from agentforge.ports.provider import ExecuteRequest
from bench import floors
from bench.agents import STATUS, InProcess, engine_in
from bench.iteration import spawn_bare
from bench.long_runs import rss
from bench.measure import Measure, beside

STAGES = ("planner", "executor", "verifier", "reviewer")
CYCLES = 10
MAX_TRANSITION, TRANSITION_MS = 3.0, 50
MAX_STAGES, STAGES_MORE_MS = 1.5, 1000
MAX_GROWTH, MAX_BYTES, YOUNG_STEPS = 1.5, 200_000_000, 10
SECONDS = 0.1
BARE = "the same programs under the same supervisor, bare"
AGENTS_OWN = frozenset({"status.json", "artifact.json"})
ASPECTS = ("intent_alignment", "code_quality", "completeness", "consistency", "safety")
REVIEW: dict[str, Any] = {
    "verdict": "pass",
    "summary": "nothing found",
    "tried": ["an empty text"],
    "dimensions": {aspect: {"level": "good", "explanation": "fine"} for aspect in ASPECTS},
}


class Author:
    """Leaves the artifacts of a run with these steps, whose review rejects the work until the last pass.
    The last step of each plan is a new one."""

    def __init__(self, steps: int, passes: int) -> None:
        self._steps = steps
        self._passes = passes
        self.calls = Counter[str]()

    def __call__(self, request: ExecuteRequest) -> dict[str, Any]:
        self.calls[request.stage] += 1
        return self.artifact(request.stage)

    def artifact(self, stage: str) -> dict[str, Any]:
        match stage:
            case "planner":
                ids = [f"s{number}" for number in range(1, self._steps)]
                ids.append(f"last-{self.calls[stage]}")
                steps = [{"id": id, "title": id, "action": f"Do {id}.", "criteria": ["done"]} for id in ids]
                return {"goal": "it works", "steps": steps}
            case "executor":
                return {"verdict": "pass", "summary": "did it"}
            case "verifier":
                return {"verdict": "pass", "checks": [{"name": "all", "status": "pass"}]}
            case _:
                rejects = {"verdict": "reject", "reason": "something is missing"}
                return REVIEW | (rejects if self.calls[stage] < self._passes else {})


def copy_loop(root: Path, name: str, provider: Any) -> str:
    """The loop with this provider, without a sandbox, and with the greatest limit of cycles; its name."""
    copy_pipeline(root, "loop", name)
    file = root / ".claude/pipelines" / f"{name}.yaml"
    text = (
        file.read_text().replace("sandbox: auto", "sandbox: none").replace("cycles: 3", f"cycles: {CYCLES}")
    )
    file.write_text(text.replace("defaults:\n", f"defaults:\n  provider: {json.dumps(provider)}\n"))
    return name


# -- transitions


async def transitions(root: Path, rounds: int) -> list[Measure]:
    """All of runs with one step in each pass: from the end of one call to the begin of the next stage's."""
    spent: list[float] = []
    plain: list[float] = []
    pipeline = copy_loop(root, "in-process-loop", InProcess.name)
    for number in range(rounds):
        session = f"transitions-{number}"
        folders: list[Path] = []
        agent = InProcess(
            lambda request, folders=folders: folders.append(Path(request.status_path).parent),  # type: ignore[misc]
            uses_files=True,
            artifact=Author(1, CYCLES),
        )
        async with engine_in(root, agent) as engine:
            result = await engine.run(pipeline, session=session, request="Do it.")
        assert result.completed, result
        assert result.iterations == len(folders) == len(STAGES) * CYCLES, result
        spent += agent.engine_seconds
        plain += _plainly(root / f"plain-{session}", RunLayout.of(str(root), session), folders)[1:]
    name, floor = "transition between stages of the loop", floors.FILES
    return [beside(name, "ms", spent, floor, plain, maximum=MAX_TRANSITION, ceiling=TRANSITION_MS)]


def _plainly(place: Path, run: RunLayout, folders: list[Path]) -> list[float]:
    """The iterations once more: their files, and their part of the events."""
    plain = floors.PlainIterations(place)
    events = Path(run.log).read_bytes()
    events = events[: len(events) // len(folders)]
    seconds = []
    for folder in folders:
        files = {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
        own = {name: files.pop(name) for name in AGENTS_OWN & files.keys()}
        seconds.append(plain.write(events, files, own))
    plain.close()
    return seconds


# -- whole runs


def _command(seconds: float) -> list[str]:
    """Takes this time, and leaves the artifact of its stage."""
    author = Author(1, 0)
    branches = (f"*{stage}*) a='{json.dumps(author.artifact(stage))}';;" for stage in STAGES)
    script = (
        f'case "$AGENTFORGE_RESULT" in {" ".join(branches)} esac; printf %s "$a" > "$AGENTFORGE_ARTIFACT"'
    )
    if seconds:
        script = f"sleep {seconds}; {script}"
    return ["/bin/sh", "-c", f"{script}; printf '%s' '{STATUS.decode()}' > \"$AGENTFORGE_RESULT\"; echo done"]


async def stages(root: Path, rounds: int) -> list[Measure]:
    """From the call of the engine to its return: with programs that do next to nothing, and with some that
    take a part of the time that an agent takes to start."""
    short, bare_short = await _runs(root, rounds, 0)
    long, bare_long = await _runs(root, rounds, SECONDS)
    name = f"loop of four programs of {SECONDS * 1000:g} ms"
    return [
        beside("loop of four programs", "ms", short, BARE, bare_short, more=STAGES_MORE_MS),
        beside(name, "ms", long, BARE, bare_long, maximum=MAX_STAGES, more=STAGES_MORE_MS),
    ]


async def _runs(root: Path, rounds: int, seconds: float) -> tuple[list[float], list[float]]:
    command = _command(seconds)
    pipeline = copy_loop(root, f"loop-of-programs-{seconds * 1000:.0f}", {"type": "command", "argv": command})
    spent: list[float] = []
    bare: list[float] = []
    for number in range(rounds):
        session = f"{pipeline}-{number}"
        async with engine_in(root) as engine:
            began = perf_counter()
            result = await engine.run(pipeline, session=session, request="Do it.")
            spent.append(perf_counter() - began)
        assert result.completed, result
        bare.append(_bare_stages(RunLayout.of(str(root), session), root / f"bare-{session}", command))
    return spent, bare


def _bare_stages(run: RunLayout, bare: Path, command: list[str]) -> float:
    prompts = sorted(Path(run.root).glob("stage-*/iterations/001/prompt.md"))
    given = zip(STAGES, prompts, strict=True)
    return sum(spawn_bare(bare / stage, prompt, run.log, command) for stage, prompt in given)


# -- memory


def memory(root: Path, steps: int) -> list[Measure]:
    """In a process of its own, whose memory nothing else has been through."""
    argv = [sys.executable, "-m", "bench.loop", str(root), str(steps)]
    young, old = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)
    aim = f"≤ {MAX_GROWTH:g} × that, ≤ {MAX_BYTES / 1e6:g} MB"
    ratio = old / young
    name = f"memory of the loop, {steps} steps and {CYCLES} cycles"
    floor = f"the same after {YOUNG_STEPS} steps"
    return [
        Measure(name, "bytes", old, floor, young, ratio, aim, ratio <= MAX_GROWTH and old <= MAX_BYTES),
    ]


async def _watched_run(root: Path, steps: int) -> tuple[int, int]:
    seen: list[int] = []
    author = Author(steps, CYCLES)

    def look(request: ExecuteRequest) -> None:
        if request.stage == "executor" and author.calls["executor"] == YOUNG_STEPS + 1:
            gc.collect()
            seen.append(rss())

    pipeline = copy_loop(root, "long-loop", InProcess.name)
    agent = InProcess(look, is_timed=False, uses_files=True, artifact=author)
    async with engine_in(root, agent) as engine:
        result = await engine.run(pipeline, session="long-loop", request="Do it.")
        assert result.completed, result
        gc.collect()
        return seen[0], rss()


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_watched_run(Path(sys.argv[1]), int(sys.argv[2])))))
