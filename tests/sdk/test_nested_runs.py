"""Nested pipelines and passes end to end: where their files lie, and what their stages get of each other."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.blocks import block, engine, inner, inputs_of, players, speaks
from tests.sdk.projects import load, node, pipeline, run, run_dir

from agentforge.ports.provider import ExecuteRequest
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import Act, crashes
from agentforge.views.results import RunResult

INNER = """
name: polish
nodes:
  - {id: refine, prompt: refine, provider: claude, runs: 2, delay: 0, retry: {max_attempts: 1}}
  - id: duel
    parallel:
      providers: [claude, codex]
      stages:
        - {id: draft, prompt: draft, delay: 0, inputs: {from: refine}}
  - {id: vote, prompt: vote, provider: codex, delay: 0, inputs: {from: refine, from_parallel: draft}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "polish.yaml").write_text(INNER)
    return tmp_path


def go(
    project: Path, *nodes: dict[str, Any], cast: dict[str, ScriptedProvider] | None = None, **options: Any
) -> RunResult:
    async def main() -> RunResult:
        async with engine(project, cast) as sdk:
            return await sdk.run(pipeline(*nodes), session="s", **options)

    return run(main())


def nested(**changes: Any) -> dict[str, Any]:
    return {"id": "within", "pipeline": "polish.yaml", **changes}


def paths(project: Path, kind: str) -> list[tuple[str, int, int]]:
    lines = (run_dir(project) / "events.jsonl").read_bytes().splitlines()
    cursors = [event["cursor"] for event in map(json.loads, lines) if event["type"] == kind]
    return [(cursor["node_path"], cursor["node_run"], cursor["iteration"]) for cursor in cursors]


def test_nested_pipelines_run_with_paths_such_as_1_0(project: Path) -> None:
    result = go(project, node("plan", provider="claude"), nested(), node("last", provider="claude"))
    assert result.completed
    assert paths(project, "node_start") == [
        ("0", 1, 0),
        ("1.0", 1, 0),
        ("1.1", 1, 0),
        ("1.2", 1, 0),
        ("2", 1, 0),
    ]
    folder = run_dir(project) / "pipeline-01-within"
    assert sorted(path.name for path in folder.iterdir()) == [
        "parallel-01-duel",
        "stage-00-refine",
        "stage-02-vote",
    ]
    state = load(run_dir(project) / "state.json")
    assert [stage["name"] for stage in state["stages"]] == ["plan", "refine", "duel", "vote", "last"]


def test_stages_of_a_nested_pipeline_take_from_each_other(project: Path) -> None:
    go(project, node("refine", provider="codex"), nested())
    folder = run_dir(project) / "pipeline-01-within"
    refined = f"{folder}/stage-00-refine/iterations/002/output.md"
    draft = folder / "parallel-01-duel" / "providers" / "codex" / "stage-00-draft" / "iterations" / "001"
    assert inputs_of(draft)["from_stage"] == {"refine": [refined]}
    vote = inputs_of(folder / "stage-02-vote" / "iterations" / "001")
    assert vote["from_stage"] == {"refine": [refined]}
    assert vote["from_parallel"]["manifest"] == f"{folder}/parallel-01-duel/manifest.json"
    assert vote["from_parallel"]["providers"]["codex"]["output"] == f"{draft}/output.md"


def test_later_runs_of_a_nested_pipeline_have_separate_directories_and_inputs(
    project: Path,
) -> None:
    assert go(project, nested(runs=2)).completed
    again = run_dir(project) / "pipeline-00-within" / "run-002"
    assert paths(project, "iteration_complete")[:2] == [("0.0", 1, 1), ("0.0", 1, 2)]
    assert ("0.0", 2, 1) in paths(project, "iteration_complete")
    vote = inputs_of(again / "stage-02-vote" / "iterations" / "001")
    assert vote["from_stage"] == {"refine": [f"{again}/stage-00-refine/iterations/002/output.md"]}
    assert vote["from_parallel"]["manifest"] == f"{again}/parallel-01-duel/manifest.json"
    first_vote = inputs_of(again.parent / "stage-02-vote" / "iterations" / "001")["from_parallel"]
    assert first_vote["manifest"] == f"{again.parent}/parallel-01-duel/manifest.json"
    assert not any("run-002" in found["output"] for found in first_vote["providers"].values())
    providers = vote["from_parallel"]["providers"]
    assert all(str(again) in found["output"] for found in providers.values())
    first = load(again / "stage-00-refine" / "iterations" / "001" / "context.json")
    assert first["inputs"]["from_previous_iterations"] == []


def test_output_of_a_nested_pipeline_is_that_of_its_last_stage(project: Path) -> None:
    go(project, nested(), node("after", provider="claude", inputs={"from": "within"}))
    found = inputs_of(run_dir(project) / "stage-01-after" / "iterations" / "001")["from_stage"]
    folder = run_dir(project) / "pipeline-00-within"
    assert found == {"within": [f"{folder}/stage-02-vote/iterations/001/output.md"]}


def test_passes_of_a_whole_pipeline_have_run_directories(project: Path) -> None:
    nodes = (
        node("plan", provider="claude", runs=2),
        block(["claude", "codex"], inner(inputs={"from": "plan"})),
    )
    assert go(project, *nodes, passes=2).completed
    assert paths(project, "node_start") == [("0", 1, 0), ("1", 1, 0), ("0", 2, 0), ("1", 2, 0)]
    plan = run_dir(project) / "stage-00-plan"
    assert sorted(path.name for path in plan.iterdir()) == ["iterations", "progress.md", "run-002"]
    again = run_dir(project) / "parallel-01-duel" / "run-002"
    assert sorted(path.name for path in again.iterdir()) == ["manifest.json", "providers"]
    draft = again / "providers" / "codex" / "stage-00-draft" / "iterations" / "001"
    assert inputs_of(draft)["from_stage"] == {"plan": [f"{plan}/run-002/iterations/002/output.md"]}


def test_failure_deep_inside_is_resumed_where_it_was(project: Path) -> None:
    def fails_in_the_second_run(request: ExecuteRequest) -> Act:
        return crashes() if "run-002" in request.result_path and request.iteration == 2 else speaks(request)

    failing = players(claude=fails_in_the_second_run)
    assert go(project, nested(runs=2), cast=failing).error_type == "provider_crashed"
    cast = players()

    async def again() -> RunResult:
        async with engine(project, cast) as sdk:
            return await sdk.resume("s")

    assert run(again()).completed
    assert [(call.stage, call.iteration) for call in cast["claude"].calls] == [("refine", 2), ("draft", 1)]
    done = paths(project, "iteration_complete")
    assert len(done) == len(set(done)) + 2, "of the two blocks each has two branches"
