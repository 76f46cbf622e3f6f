"""Parallel blocks end to end: concurrent providers with separate files, and one manifest."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.blocks import BLOCK, block, branch_dir, context_of, engine, inner, iteration, players, speaks
from tests.sdk.projects import eventually, load, node, pipeline, run, run_dir, types

from agentforge.model.errors import DefinitionError
from agentforge.ports.provider import ExecuteRequest
from agentforge.testing import ScriptedProvider, assert_iteration_count, assert_state_status
from agentforge.testing.mock_sessions import ObservedSession, mock_session
from agentforge.testing.scripted_provider import Act, crashes, says
from agentforge.views.results import RunResult

TWO = ["claude", "codex"]


def go(
    project: Path, *nodes: dict[str, Any], providers: dict[str, ScriptedProvider] | None = None
) -> RunResult:
    async def main() -> RunResult:
        async with engine(project, providers) as sdk:
            return await sdk.run(pipeline(*nodes), session="s")

    return run(main())


def events(project: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run_dir(project) / "events.jsonl").read_bytes().splitlines()]


def places(project: Path, kind: str, provider: str) -> list[tuple[str, int]]:
    at = (event["cursor"] for event in events(project) if event["type"] == kind)
    return [(c["node_path"], c["iteration"]) for c in at if c.get("provider") == provider]


def test_provider_stages_run_concurrently_with_isolated_directories(tmp_path: Path) -> None:
    meeting = asyncio.Barrier(2)
    cast = {name: Meeting(meeting, name) for name in TWO}
    assert go(tmp_path, block(TWO, inner()), providers=cast).completed  # type: ignore[arg-type]
    for name in TWO:
        here = iteration(tmp_path, name)
        assert sorted(path.name for path in here.iterdir()) == [
            "context.json",
            "output.md",
            "prompt.md",
            "result.json",
        ]
        assert (here / "output.md").read_text() == f"{name} draft 1\n"


class Meeting(ScriptedProvider):
    """Continues only when the other one is running, too."""

    def __init__(self, barrier: asyncio.Barrier, name: str) -> None:
        super().__init__(speaks, name=name)
        self._barrier = barrier

    async def execute(self, request: ExecuteRequest) -> Any:
        async with asyncio.timeout(60):
            await self._barrier.wait()
        return await super().execute(request)


def test_stages_of_a_provider_run_one_after_another_and_their_events_have_its_cursor(tmp_path: Path) -> None:
    go(tmp_path, block(TWO, inner(runs=2), inner("check")))
    for name in TWO:
        steps = [("0.0", 1), ("0.0", 2), ("0.1", 1)]
        assert places(tmp_path, "iteration_start", name) == steps
        assert places(tmp_path, "worker_complete", name) == steps
        assert places(tmp_path, "iteration_complete", name) == steps
        assert places(tmp_path, "stage_complete", name) == [("0.0", 2), ("0.1", 1)]
        assert places(tmp_path, "parallel_provider_start", name) == [("0", 0)]
        assert places(tmp_path, "parallel_provider_complete", name) == [("0", 0)]
    done = [event for event in events(tmp_path) if event["type"] == "node_complete"]
    assert [(event["data"]["name"], event["data"]["iterations"]) for event in done] == [("duel", 6)]


def test_one_branch_is_slow_and_the_other_does_not_wait_for_it(tmp_path: Path) -> None:
    async def main() -> None:
        finish = asyncio.Event()

        class Slow(ScriptedProvider):
            async def execute(self, request: ExecuteRequest) -> Any:
                await finish.wait()
                return await super().execute(request)

        cast = {**players(), "codex": Slow(speaks, name="codex")}
        async with engine(tmp_path, cast) as sdk:
            going = asyncio.create_task(
                sdk.run(pipeline(block(TWO, inner(runs=5), inner("check"))), session="s")
            )
            await eventually(lambda: "parallel_provider_complete" in _types(tmp_path))
            assert places(tmp_path, "iteration_complete", "codex") == []
            # The files follow on the log.
            claude, codex = (branch_dir(tmp_path, name) / "state.json" for name in TWO)
            await eventually(lambda: load(claude)["status"] == "completed")
            assert load(codex)["status"] == "running"
            assert not (run_dir(tmp_path) / BLOCK / "manifest.json").exists()
            finish.set()
            assert (await going).completed

    run(main())
    assert (run_dir(tmp_path) / BLOCK / "manifest.json").exists()


def _types(project: Path) -> list[str]:
    try:
        return types(project)
    except (FileNotFoundError, ValueError):
        return []


def test_parallel_block_in_mock_mode_has_isolated_state_and_a_manifest(tmp_path: Path) -> None:
    session = mock_session(tmp_path, {"default.txt": "of anybody"})
    (session.fixtures / "codex").mkdir()
    (session.fixtures / "codex" / "iteration-2.txt").write_text("of codex")
    assert session.run(pipeline(block(TWO, inner(runs=2)))).completed
    manifest = load(session.run_dir / BLOCK / "manifest.json")
    outputs = {name: Path(found["draft"]["latest_output"]) for name, found in manifest["providers"].items()}
    assert {name: path.read_text() for name, path in outputs.items()} == {
        "claude": "of anybody\n",
        "codex": "of codex\n",
    }
    for name in TWO:
        assert load(session.run_dir / BLOCK / "providers" / name / "state.json")["status"] == "completed"


# -- manifest, state, progress


def test_manifest_aggregates_all_provider_outputs_for_downstream_stages(tmp_path: Path) -> None:
    go(tmp_path, node("first", provider="claude"), block(["codex", "claude"], inner(runs=2), inner("check")))
    manifest = load(run_dir(tmp_path) / "parallel-01-duel" / "manifest.json")
    assert manifest["block"] == {"name": "duel", "index": 1, "stages": ["draft", "check"]}
    assert list(manifest["providers"]) == TWO, "sorted, however they are written"
    for name in TWO:
        here = branch_dir(tmp_path, name, "parallel-01-duel") / "stage-00-draft" / "iterations"
        assert manifest["providers"][name]["draft"] == {
            "latest_output": f"{here}/002/output.md",
            "status": f"{here}/002/status.json",
            "result": f"{here}/002/result.json",
            "iterations": 2,
            "termination_reason": "fixed",
            "history": [f"{here}/001/output.md", f"{here}/002/output.md"],
        }
        assert manifest["providers"][name]["check"]["iterations"] == 1
    assert "completed_at" in manifest


def test_provider_state_file_shows_the_position_of_that_provider(tmp_path: Path) -> None:
    go(tmp_path, block(TWO, inner(runs=2), inner("check")))
    state = load(branch_dir(tmp_path, "claude") / "state.json")
    assert (state["provider"], state["session"], state["status"]) == ("claude", "s", "completed")
    assert state["stages"] == [
        {"name": "draft", "iterations": 2, "termination_reason": "fixed"},
        {"name": "check", "iterations": 1, "termination_reason": "fixed"},
    ]


def test_progress_files_are_provider_isolated_within_parallel_blocks(tmp_path: Path) -> None:
    def notes(request: ExecuteRequest) -> Act:
        who = request.environment["MOCK_PROVIDER"]
        progress = Path(request.prompt)
        assert who in progress.parts
        progress.write_text(progress.read_text() + f"{request.stage} by {who}\n")
        return speaks(request)

    stages = (inner(prompt="${PROGRESS}"), inner("check", prompt="${PROGRESS}"))
    go(tmp_path, block(TWO, *stages), providers=players(claude=notes, codex=notes))
    for name in TWO:
        text = (branch_dir(tmp_path, name) / "progress.md").read_text()
        assert text == (
            f"# Progress: s ({name})\n\nProvider: {name}\n\n---\n\ndraft by {name}\ncheck by {name}\n"
        )


def test_parallel_scope_has_the_provider_s_directory_and_the_session_s(tmp_path: Path) -> None:
    go(tmp_path, block(TWO, inner()), node("after", provider="claude"))
    context = context_of(iteration(tmp_path, "codex"))
    assert context["parallel_scope"] == {
        "scope_root": str(branch_dir(tmp_path, "codex")),
        "pipeline_root": str(run_dir(tmp_path)),
    }
    assert context["paths"]["session_dir"] == str(branch_dir(tmp_path, "codex"))
    assert context["paths"]["progress"] == str(branch_dir(tmp_path, "codex") / "progress.md")
    assert context["stage"] == {"id": "draft", "index": 0, "template": "draft"}
    outside = context_of(run_dir(tmp_path) / "stage-01-after" / "iterations" / "001")
    assert outside["parallel_scope"] is None
    assert outside["paths"]["session_dir"] == str(run_dir(tmp_path))


# -- failure and resume


def test_partial_provider_failure_fails_the_block_and_writes_no_manifest(tmp_path: Path) -> None:
    cast = players(codex=lambda _: crashes(5))
    result = go(tmp_path, block(TWO, inner(runs=2)), node("after", provider="claude"), providers=cast)
    assert (result.status, result.error_type) == ("failed", "parallel_block_failed")
    assert result.error == (
        "Parallel block 'duel' failed. Failed providers: codex: draft: codex exited with status 5: boom"
    )
    assert places(tmp_path, "iteration_complete", "claude") == [("0.0", 1), ("0.0", 2)]
    assert not (run_dir(tmp_path) / BLOCK / "manifest.json").exists()
    assert not (run_dir(tmp_path) / "stage-01-after").exists()
    state = load(branch_dir(tmp_path, "codex") / "state.json")
    assert (state["status"], state["error"]) == ("failed", "draft: codex exited with status 5: boom")
    whole = load(run_dir(tmp_path) / "state.json")
    assert (whole["status"], whole["stages"][-1]["name"]) == ("failed", "duel")
    assert whole["stages"][-1]["status"] == "failed"


def test_resume_skips_completed_providers_and_continues_incomplete_ones(tmp_path: Path) -> None:
    nodes = (block(TWO, inner(runs=3), inner("check")), node("after", provider="claude"))

    def fails_at_second(request: ExecuteRequest) -> Act:
        return crashes() if request.iteration == 2 else speaks(request)

    assert go(tmp_path, *nodes, providers=players(codex=fails_at_second)).status == "failed"
    cast = players()

    async def again() -> RunResult:
        async with engine(tmp_path, cast) as sdk:
            return await sdk.resume("s")

    assert run(again()).completed
    worked = {name: [(call.stage, call.iteration) for call in cast[name].calls] for name in TWO}
    assert worked == {
        "claude": [("after", 1)],
        "codex": [("draft", 2), ("draft", 3), ("check", 1)],
    }
    session = ObservedSession(tmp_path, "s")
    assert_state_status(session, "completed")
    assert_iteration_count(session, 9)
    manifest = load(run_dir(tmp_path) / BLOCK / "manifest.json")
    assert [manifest["providers"][name]["draft"]["iterations"] for name in TWO] == [3, 3]


def test_same_provider_may_be_in_a_block_twice_under_different_names(tmp_path: Path) -> None:
    twins = [{"name": "bold", "type": "claude"}, {"name": "careful", "type": "claude"}]
    cast = players()
    assert go(tmp_path, block(twins, inner()), providers=cast).completed
    assert len(cast["claude"].calls) == 2
    assert (iteration(tmp_path, "bold") / "result.json").exists()
    assert (iteration(tmp_path, "careful") / "result.json").exists()


def test_provider_that_is_not_concurrent_serialises_its_branches(tmp_path: Path) -> None:
    twins = [{"name": name, "type": "shy"} for name in ("a", "b", "c")]
    shy = ScriptedProvider(speaks, name="shy", concurrent=False, seconds=0.02)
    assert go(tmp_path, block(twins, inner(runs=2)), providers={**players(), "shy": shy}).completed
    assert (len(shy.calls), shy.max_concurrent_calls) == (6, 1)


# -- pause and cancel


def test_pause_during_parallel_block_lets_all_providers_complete_their_current_iteration(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        finish = {name: asyncio.Event() for name in TWO}
        working: set[str] = set()

        class Held(ScriptedProvider):
            async def execute(self, request: ExecuteRequest) -> Any:
                working.add(self.name)
                await finish[self.name].wait()
                return await super().execute(request)

        cast = {name: Held(speaks, name=name) for name in TWO}
        async with engine(tmp_path, cast) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(block(TWO, inner(runs=3))), session="s"))
            await eventually(lambda: len(working) == 2)
            await sdk.pause("s", "lunch")
            finish["claude"].set()
            await eventually(lambda: places(tmp_path, "iteration_complete", "claude"))
            assert sdk.status("s").status == "running", "codex is still at it"
            finish["codex"].set()
            result = await going
            assert (result.status, result.reason, result.iterations) == ("paused", "lunch", 2)
            for name in TWO:
                assert places(tmp_path, "iteration_start", name) == [("0.0", 1)]
            assert (await sdk.resume("s")).completed

    run(main())
    assert_iteration_count(ObservedSession(tmp_path, "s"), 6)


def test_cancel_during_parallel_block_is_final_for_all_providers(tmp_path: Path) -> None:
    async def main() -> None:
        working: set[str] = set()

        class Endless(ScriptedProvider):
            async def execute(self, request: ExecuteRequest) -> Any:
                working.add(self.name)
                await asyncio.Event().wait()

        cast = {name: Endless(speaks, name=name) for name in TWO}
        async with engine(tmp_path, cast) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(block(TWO, inner())), session="s"))
            await eventually(lambda: len(working) == 2)
            await sdk.cancel("s", "enough")
            assert (await going).status == "aborted"

    run(main())
    assert types(tmp_path).count("attempt_cancelled") == 2
    assert types(tmp_path)[-1] == "session_aborted"


# -- many providers, many events


@pytest.mark.parametrize("count", [4, 8])
def test_simultaneous_event_writes_of_many_parallel_providers_lose_and_tear_no_event(
    tmp_path: Path, count: int
) -> None:
    names = [f"p{number}" for number in range(count)]
    cast = {name: ScriptedProvider(speaks, name=name) for name in names}
    runs = 25
    assert go(tmp_path, block(names, inner(runs=runs)), providers=cast).completed
    found = events(tmp_path)
    assert [event["seq"] for event in found] == list(range(1, len(found) + 1))
    for name in names:
        for kind in ("iteration_start", "attempt_start", "worker_complete", "iteration_complete"):
            assert places(tmp_path, kind, name) == [("0.0", number) for number in range(1, runs + 1)]
    per_iteration = 4
    assert len(found) == 1 + 1 + count * (2 + 1 + per_iteration * runs) + 1 + 1 + 1
    assert [len(provider.calls) for provider in cast.values()] == [runs] * count


def test_empty_pipeline_and_empty_block_are_refused(tmp_path: Path) -> None:
    for nodes in ([], [block(TWO)], [block([], inner())]):
        with pytest.raises(DefinitionError):
            go(tmp_path, *nodes) if nodes else run(_empty(tmp_path))
    assert not run_dir(tmp_path).exists()


async def _empty(project: Path) -> RunResult:
    async with engine(project) as sdk:
        return await sdk.run({"name": "none", "nodes": []}, session="s")


def test_unicode_paths_and_names_in_a_block(tmp_path: Path) -> None:
    project = tmp_path / "проект 部分"
    project.mkdir()
    session = "sitzung-ä部"

    async def main() -> RunResult:
        async with engine(project) as sdk:
            return await sdk.run(pipeline(block(TWO, inner("überblick"))), session=session)

    assert run(main()).completed
    manifest = load(run_dir(project, session) / BLOCK / "manifest.json")
    output = Path(manifest["providers"]["claude"]["überblick"]["latest_output"])
    assert output.read_text() == "claude überblick 1\n"
    assert project in output.parents


def test_thousand_iterations_in_a_block(tmp_path: Path) -> None:
    assert go(tmp_path, block(TWO, inner(runs=510))).completed
    session = ObservedSession(tmp_path, "s")
    assert_iteration_count(session, 1020)
    state = session.state_file()
    assert (len(state["history"]), state["history_omitted"]) == (1000, 20)
    manifest = load(run_dir(tmp_path) / BLOCK / "manifest.json")
    assert len(manifest["providers"]["codex"]["draft"]["history"]) == 510
    last = context_of(iteration(tmp_path, "codex", 510))
    assert len(last["inputs"]["from_previous_iterations"]) == 100
    assert all("/codex/" in path for path in last["inputs"]["from_previous_iterations"])


def test_decision_stop_ends_a_provider_s_stage_and_no_other_s(tmp_path: Path) -> None:
    stops = players(codex=lambda _: says("enough", "stop"))
    assert go(tmp_path, block(TWO, inner(runs=4)), providers=stops).completed
    assert [len(stops[name].calls) for name in TWO] == [4, 1]
