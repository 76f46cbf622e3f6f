"""Runs of generated scripts on the real driver, log and files; and the same run cut off and recovered."""

import asyncio
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.oracle import Block, Node, Spot, Stage, summary_of

from agentforge.model.failure import Failure, FailureKind
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.sdk.engine import Engine
from agentforge.testing.scripted_provider import (
    Act,
    ScriptedProvider,
    crashes,
    fails,
    says,
    writes,
    writes_nothing,
    writes_status,
)
from agentforge.views.results import RunResult

SESSION = "cut"
ENVIRON = {"PATH": "/usr/bin:/bin"}
"""Without a state folder: no head is kept of a log that is cut, and the run must be trusted."""
_IN_A_BLOCK = re.compile(r"/parallel-\d+-(\w+)/providers/(\w+)/")


def pipeline_of(nodes: tuple[Node, ...]) -> dict[str, Any]:
    return {"name": "scripted", "nodes": [_node(node) for node in nodes]}


def _node(node: Node) -> dict[str, Any]:
    if isinstance(node, Stage):
        return {**_stage(node), "provider": "scripted"}
    providers = [{"name": name, "type": "scripted"} for name, _ in node.branches]
    stages = [_stage(stage) for stage in node.branches[0][1]]
    return {"id": node.name, "parallel": {"providers": providers, "stages": stages}}


def _stage(stage: Stage) -> dict[str, Any]:
    termination: dict[str, Any] = {"type": "fixed", "max": len(stage.acts)}
    if stage.judge is not None:
        termination |= {"type": "judgment", "consensus": stage.consensus, "min_iterations": stage.judged_from}
    return {
        "id": stage.name,
        "prompt": "iteration ${ITERATION} of ${SESSION}",
        "termination": termination,
        "delay": 0,
        "retry": {"max_attempts": stage.max_attempts, "initial_delay": 0},
        "on_limit": {"initial_delay": 0.001},
    }


def places_of(nodes: tuple[Node, ...]) -> Iterator[tuple[str, tuple[str, str | None], str, Stage]]:
    """Every place of the pipeline: its name, the path and provider of its events, its folder, its stage."""
    for index, node in enumerate(nodes):
        if isinstance(node, Stage):
            yield node.name, (str(index), None), f"stage-{index:02d}-{node.name}", node
            continue
        for provider, stages in node.branches:
            for number, stage in enumerate(stages):
                folder = (
                    f"parallel-{index:02d}-{node.name}/providers/{provider}/stage-{number:02d}-{stage.name}"
                )
                yield f"{node.name}/{provider}/{stage.name}", (f"{index}.{number}", provider), folder, stage


class ScriptedRun:
    """A project with one run in it, whose agent and judge follow a script."""

    def __init__(self, project: Path, nodes: tuple[Node, ...]) -> None:
        self.project = project
        self.nodes = nodes
        self.stages: dict[str, Stage] = {}
        self.folders: dict[str, str] = {}
        self._names: dict[tuple[str, str | None], str] = {}
        for place, at, folder, stage in places_of(nodes):
            self.stages[place], self.folders[place], self._names[at] = stage, folder, place
        self.pipeline = pipeline_of(nodes)
        self.run_dir = project / ".claude" / "pipeline-runs" / SESSION
        self.log = self.run_dir / "events.jsonl"
        self.worked_on: list[Spot] = []
        """The place and iteration of each call since the last start."""
        self.judged_on: list[Spot] = []

    @property
    def blocks(self) -> dict[str, Block]:
        return {
            f"parallel-{index:02d}-{node.name}": node
            for index, node in enumerate(self.nodes)
            if isinstance(node, Block)
        }

    def run(self) -> RunResult:
        return asyncio.run(self._run())

    def recover(self, *, accept_damage: bool = False) -> RunResult | None:
        return asyncio.run(self._recover(accept_damage))

    async def _run(self) -> RunResult:
        async with self._engine() as engine:
            return await engine.run(self.pipeline, session=SESSION)

    async def _recover(self, accept_damage: bool) -> RunResult | None:
        async with self._engine() as engine:
            engine.trust(SESSION)
            return await engine.recover(SESSION, accept_damage=accept_damage)

    def _engine(self) -> Engine:
        self.worked_on, self.judged_on = [], []
        cast = {
            "scripted": ScriptedProvider(self._act),
            "claude": ScriptedProvider(self._judge, name="claude"),
        }
        return Engine(self.project, providers=cast, environ=ENVIRON)

    def _act(self, request: ExecuteRequest) -> Act:
        """By the counted failures in the log: attempts that were lost have numbers too."""
        here = self._spot(request)
        self.worked_on.append(here)
        assert request.prompt == f"iteration {request.iteration} of {SESSION}"
        failures = sum(
            1 for event in self.legible() if event["type"] == "error" and self.spot_of(event) == here
        )
        act = self.stages[here[0]].act(request.iteration, failures)
        return _acts(act, summary_of(*here, failures))

    def _judge(self, request: ExecuteRequest) -> Act:
        """By its failures at this iteration in the log."""
        here = self._spot(request)
        self.judged_on.append(here)
        judged = [event for event in self.legible() if event["type"] == "judge_complete"]
        tries = sum(1 for event in judged if self.spot_of(event) == here)
        return _judges(self.stages[here[0]].judgment(request.iteration), tries)

    def _spot(self, request: ExecuteRequest) -> Spot:
        found = _IN_A_BLOCK.search(request.result_path)
        place = "/".join((*found.groups(), request.stage)) if found else request.stage
        return place, request.iteration

    def spot_of(self, event: dict[str, Any]) -> Spot:
        """Where an event of a stage happened."""
        at = event["cursor"]
        return self._names[at["node_path"], at.get("provider")], at["iteration"]

    def events(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.log.read_bytes().splitlines()]

    def legible(self) -> list[dict[str, Any]]:
        """Without the lines that a test ruined."""
        return [msgspec.json.decode(line) for line in self.log.read_bytes().splitlines() if line[:1] == b"{"]

    def cut(self, content: bytes, files: Path | None) -> None:
        """Put the run back to this log, with the files that lay there at the end (of a future that the log
        doesn't know) or with none at all."""
        shutil.rmtree(self.run_dir)
        if files is not None:
            shutil.copytree(files, self.run_dir)
        else:
            self.run_dir.mkdir(parents=True)
        self.log.write_bytes(content)


def _acts(act: str, summary: str) -> Act:
    said = f"said {summary}"
    match act:
        case "ok" | "stop":
            return says(summary, "stop" if act == "stop" else "continue", said)
        case "status":
            return writes_status(said, summary=summary, decision="continue")
        case "crash":
            return crashes(output=said)
        case "timeout":
            return fails(Failure(FailureKind.PROVIDER_TIMEOUT, "too slow"), said)
        case "limit":
            return fails(Failure(FailureKind.PROVIDER_RATE_LIMITED, "slow down"), said)
        case "missing":
            return writes_nothing(said)
        case "invalid":
            return writes("{not json", said)
        case _:
            return says("failed", "error", said)


def _judges(word: str, tries: int) -> Act:
    match word:
        case "go" | "stop":
            text = '{"stop": %s, "reason": "so it is"}' % ("true" if word == "stop" else "false")
            return lambda _: ExecuteResult(output=f"```json\n{text}\n```")
        case "junk":
            return lambda _: ExecuteResult(output="I don't know.")
        case "flaky" if tries:
            return _judges("stop", tries)
        case _:
            return crashes(output="no answer")
