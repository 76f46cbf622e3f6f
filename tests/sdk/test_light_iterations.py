"""Iterations of providers inside the engine that read no files: the log alone is written, files on demand."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import ENVIRON, iteration_dir, load, node, pipeline, run_dir, types

from agentforge.model.status import RunStatus
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.sdk.engine import Engine
from agentforge.sdk.sync import SyncEngine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import Act, crashes, returns, writes_nothing
from agentforge.views.results import RunResult

NO_WAIT = {"initial_delay": 0}


def counts(request: ExecuteRequest) -> Act:
    return returns(f"{request.stage} {request.iteration}", output=f"said {request.iteration}")


def light(script: Any = counts, **options: Any) -> ScriptedProvider:
    return ScriptedProvider(script, uses_files=False, **options)


def sdk(project: Path, provider: ScriptedProvider, **options: Any) -> SyncEngine:
    return SyncEngine(project, providers={"scripted": provider}, **{"environ": ENVIRON, **options})


def go(project: Path, *nodes: dict[str, Any], script: Any = counts, **options: Any) -> RunResult:
    with sdk(project, light(script)) as engine:
        return engine.run(pipeline(*nodes), session="s", **options)


def folders(project: Path, stage: str = "stage-00-plan") -> list[str]:
    found = run_dir(project) / stage / "iterations"
    return sorted(path.name for path in found.iterdir()) if found.is_dir() else []


def test_nothing_but_the_log_is_written_while_it_runs(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def looks(request: ExecuteRequest) -> Act:
        seen.append(sorted(path.name for path in run_dir(tmp_path).iterdir()))
        assert request.prompt == "do it"
        return counts(request)

    assert go(tmp_path, node(runs=3), script=looks).completed
    assert {name for names in seen for name in names} <= {
        "events.jsonl",
        "pipeline.yaml",
        "plan.json",
        "state.json",
    }


def test_the_latest_ten_iterations_of_each_stage_are_files_when_the_run_ends(tmp_path: Path) -> None:
    assert go(tmp_path, node(runs=12), node("build", runs=2)).completed
    assert folders(tmp_path) == [f"{number:03d}" for number in range(3, 13)]
    assert folders(tmp_path, "stage-01-build") == ["001", "002"]
    last = iteration_dir(tmp_path, 12)
    assert (last / "output.md").read_text() == "said 12\n"
    assert load(last / "result.json")["summary"] == "plan 12"
    assert sorted(path.name for path in last.iterdir()) == ["output.md", "result.json"]


def test_the_latest_ten_of_a_stage_are_of_its_latest_visits(tmp_path: Path) -> None:
    with sdk(tmp_path, light()) as engine:
        assert engine.run(pipeline(node(runs=8)), session="s", passes=2).completed
    assert folders(tmp_path) == ["007", "008"]
    assert folders(tmp_path, "stage-00-plan/run-002") == [f"{number:03d}" for number in range(1, 9)]


def test_inspect_writes_the_files_of_all_iterations(tmp_path: Path) -> None:
    with sdk(tmp_path, light()) as engine:
        engine.run(pipeline(node(runs=12)), session="s")
        engine.inspect("s")
        assert folders(tmp_path) == [f"{number:03d}" for number in range(1, 13)]
        assert load(iteration_dir(tmp_path, 1) / "result.json")["summary"] == "plan 1"
        (iteration_dir(tmp_path, 1) / "result.json").unlink()
        engine.inspect("s")
    assert load(iteration_dir(tmp_path, 1) / "result.json")["summary"] == "plan 1"


def test_files_are_written_when_the_run_pauses_or_fails(tmp_path: Path) -> None:
    script = [returns("one"), crashes(3), crashes(3)]
    failed = go(tmp_path, node(runs=3, retry=NO_WAIT), script=script)
    assert failed.status is RunStatus.FAILED
    assert folders(tmp_path) == ["001"]
    with sdk(tmp_path, light([returns("two"), returns("three")])) as engine:
        assert engine.resume("s").completed
    assert folders(tmp_path) == ["001", "002", "003"]
    assert load(iteration_dir(tmp_path, 3) / "result.json")["summary"] == "three"


def test_files_are_written_when_the_caller_cancels_the_run(tmp_path: Path) -> None:
    third = asyncio.Event()

    def works(request: ExecuteRequest) -> Act:
        if request.iteration == 3:
            third.set()
        return counts(request)

    async def main() -> None:
        async with Engine(tmp_path, providers={"scripted": light(works)}, environ=ENVIRON) as engine:
            going = asyncio.create_task(engine.run(pipeline(node(runs=100_000)), session="s"))
            await third.wait()
            going.cancel()
            with pytest.raises(asyncio.CancelledError):
                await going

    asyncio.run(main())
    assert load(run_dir(tmp_path) / "state.json")["status"] == "paused"
    assert folders(tmp_path)[:3]


def test_provider_that_returns_no_result_fails_with_a_hint(tmp_path: Path) -> None:
    result = go(tmp_path, node(retry=NO_WAIT), script=[writes_nothing("hello")])
    assert (result.status, result.error_type) == (RunStatus.FAILED, "result_missing")
    assert result.error is not None
    assert "ExecuteResult(result={...})" in result.error
    assert "uses_files=True" in result.error


def test_returned_decision_and_usage_count_like_those_of_a_file(tmp_path: Path) -> None:
    script = [returns("enough", "stop", signals={"plateau_suspected": True})]
    assert go(tmp_path, node(runs=5), script=script).iterations == 1
    history = load(run_dir(tmp_path) / "state.json")["history"]
    assert [(entry["decision"], entry["summary"], entry["plateau"]) for entry in history] == [
        ("stop", "enough", True)
    ]


@pytest.mark.parametrize(
    "nodes",
    [
        (node(output_path="out.md"),),
        (node(termination={"type": "judgment", "max": 1}),),
        (node(), node("build", inputs={"from": "plan"})),
    ],
    ids=["output path", "judged", "input of another stage"],
)
def test_stages_whose_files_are_read_by_others_write_them(
    tmp_path: Path, nodes: tuple[dict[str, Any], ...]
) -> None:
    seen: list[bool] = []

    def looks(request: ExecuteRequest) -> Act:
        seen.append(Path(request.prompt_path).exists())
        return counts(request)

    cast = {"scripted": light(looks), "claude": light(lambda _: returns("", output='{"stop": true}'))}
    with SyncEngine(tmp_path, providers=cast, environ=ENVIRON) as engine:
        assert engine.run(pipeline(*nodes), session="s").completed
    assert seen[0]
    here = iteration_dir(tmp_path)
    assert {"context.json", "prompt.md", "output.md", "result.json"} <= {p.name for p in here.iterdir()}


def test_recorded_run_writes_files(tmp_path: Path) -> None:
    assert go(tmp_path, node(), record=True).completed
    assert (iteration_dir(tmp_path) / "prompt.md").exists()


def test_secrets_are_hidden_in_what_the_log_keeps(tmp_path: Path) -> None:
    environ = {**ENVIRON, "MY_API_KEY": "hush-hush-hush"}
    told = [returns("hush-hush-hush", output="it is hush-hush-hush")]
    with sdk(tmp_path, light(told), environ=environ) as engine:
        engine.run(pipeline(), session="s")
    assert b"hush-hush-hush" not in (run_dir(tmp_path) / "events.jsonl").read_bytes()
    assert "[secret]" in (iteration_dir(tmp_path) / "output.md").read_text()


def test_log_cut_at_every_line_and_recovered_gives_the_same_results(tmp_path: Path) -> None:
    assert go(tmp_path, node(runs=3), node("build")).completed
    log = run_dir(tmp_path) / "events.jsonl"
    whole = log.read_bytes().splitlines(keepends=True)
    for cut in range(1, len(whole)):
        log.write_bytes(b"".join(whole[:cut]))
        with sdk(tmp_path, light()) as engine:
            result = engine.recover("s", accept_damage=True)
            assert result is not None
            assert result.completed
            assert engine.status("s").summary.iterations == 4
        done = [kind for kind in types(tmp_path) if kind == "iteration_complete"]
        assert len(done) == 4
        assert load(iteration_dir(tmp_path, 3) / "result.json")["summary"] == "plan 3"


def test_output_over_the_size_of_an_event_is_kept_beside_the_log(tmp_path: Path) -> None:
    long = "x" * 100_000

    def speaks(_: ExecuteRequest) -> Act:
        return lambda _request: ExecuteResult(output=long, result={"summary": "long"})

    assert go(tmp_path, node(), script=speaks).completed
    assert list((run_dir(tmp_path) / "payloads").iterdir())
    assert (iteration_dir(tmp_path) / "output.md").read_text() == long + "\n"
