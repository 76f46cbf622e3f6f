"""Runs of generated scripts on the real driver, log and files; and the same run cut off and taken up."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import msgspec
from tests.crash.oracle import Expected, Stage, summary_of

from agentforge.model.failure import Failure, FailureKind
from agentforge.ports.provider import ExecuteRequest
from agentforge.sdk.engine import Engine
from agentforge.sdk.results import RunResult
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

SESSION = "cut"
ENVIRON = {"PATH": "/usr/bin:/bin"}


def pipeline_of(stages: tuple[Stage, ...]) -> dict[str, Any]:
    return {
        "name": "scripted",
        "nodes": [
            {
                "id": stage.name,
                "prompt": "iteration ${ITERATION} of ${SESSION}",
                "provider": "scripted",
                "runs": len(stage.acts),
                "delay": 0,
                "retry": {"max_attempts": stage.max_attempts, "initial_delay": 0},
            }
            for stage in stages
        ],
    }


class ScriptedRun:
    """A project with one run in it, whose agent follows a script."""

    def __init__(self, project: Path, stages: tuple[Stage, ...]) -> None:
        self.project = project
        self.stages = {stage.name: stage for stage in stages}
        self.pipeline = pipeline_of(stages)
        self.run_dir = project / ".claude" / "pipeline-runs" / SESSION
        self.log = self.run_dir / "events.jsonl"
        self.worked_on: list[tuple[str, int]] = []
        """The stage and iteration of each call since the last start."""

    def run(self) -> RunResult:
        return asyncio.run(self._run())

    def recover(self) -> RunResult | None:
        return asyncio.run(self._recover())

    async def _run(self) -> RunResult:
        async with self._engine() as engine:
            return await engine.run(self.pipeline, session=SESSION)

    async def _recover(self) -> RunResult | None:
        async with self._engine() as engine:
            return await engine.recover(SESSION)

    def _engine(self) -> Engine:
        self.worked_on = []
        return Engine(self.project, providers={"scripted": ScriptedProvider(self._act)}, environ=ENVIRON)

    def _act(self, request: ExecuteRequest) -> Act:
        """By the failures that counted, as the log tells them: attempts that were lost have numbers too."""
        self.worked_on.append((request.stage, request.iteration))
        assert request.prompt == f"iteration {request.iteration} of {SESSION}"
        path = str(list(self.stages).index(request.stage))
        failures = sum(
            1
            for event in self.events()
            if event["type"] == "error"
            and event["cursor"]["node_path"] == path
            and event["cursor"]["iteration"] == request.iteration
        )
        act = self.stages[request.stage].act(request.iteration, failures)
        return _acts(act, summary_of(request.stage, request.iteration, failures))

    def events(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(line) for line in self.log.read_bytes().splitlines()]

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
        case "missing":
            return writes_nothing(said)
        case "invalid":
            return writes("{not json", said)
        case _:
            return says("failed", "error", said)


def check(run: ScriptedRun, expected: Expected, written_since: set[tuple[str, int]] | None = None) -> None:
    """The run came to what the oracle says. Files are compared for the iterations of `written_since`, or
    for all."""
    events = run.events()
    _check_sequence(events, expected, run)
    _check_state(run, events, expected)
    for (stage, iteration), (summary, decision) in expected.results.items():
        if written_since is not None and (stage, iteration) not in written_since:
            continue
        here = _stage_dir(run, stage) / "iterations" / f"{iteration:03d}"
        result = json.loads((here / "result.json").read_bytes())
        assert (result["summary"], result["decision"]) == (summary, decision)
        assert (here / "output.md").read_text() == f"said {summary}\n"
        records = [json.loads(line) for line in (here / "attempts.jsonl").read_text().splitlines()]
        numbers = [record["attempt"] for record in records]
        # Records of attempts from before the files were lost can't be there.
        assert numbers == list(range(1 if written_since is None else numbers[0], numbers[-1] + 1))
        assert records[-1]["status"] == "success"


def _check_sequence(events: list[dict[str, Any]], expected: Expected, run: ScriptedRun) -> None:
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    for path, name in enumerate(run.stages):
        for kind in ("iteration_start", "iteration_complete"):
            numbers = [
                event["cursor"]["iteration"]
                for event in events
                if event["type"] == kind and event["cursor"]["node_path"] == str(path)
            ]
            done = sum(1 for stage, _ in expected.results if stage == name)
            failed = kind == "iteration_start" and expected.unfinished is not None
            begun = done + (1 if failed and expected.unfinished and expected.unfinished[0] == name else 0)
            assert numbers == list(range(1, begun + 1)), (name, kind)
    assert sum(1 for event in events if event["type"] == "error") == expected.charged
    attempts: dict[str, list[int]] = {}
    for event in events:
        if event["type"] == "attempt_start":
            attempts.setdefault(str(event["cursor"]), []).append(event["data"]["attempt"])
    for numbers in attempts.values():
        assert numbers == list(range(1, len(numbers) + 1)), "an attempt's number was given out twice"


def _check_state(run: ScriptedRun, events: list[dict[str, Any]], expected: Expected) -> None:
    state = json.loads((run.run_dir / "state.json").read_bytes())
    assert state["status"] == expected.status
    assert state["error_type"] == expected.error
    finished = [(s["name"], s["iterations"]) for s in state["stages"] if s["status"] == "completed"]
    assert finished == expected.finished
    if expected.unfinished is not None:
        assert (state["stages"][-1]["name"], state["stages"][-1]["iterations"]) == expected.unfinished
    assert state["event_offset"] == len(events)
    history = [(entry["stage"], entry["iteration"]) for entry in state["history"]]
    assert history == list(expected.results)


def _stage_dir(run: ScriptedRun, stage: str) -> Path:
    return run.run_dir / f"stage-{list(run.stages).index(stage):02d}-{stage}"
