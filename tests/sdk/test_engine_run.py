"""The SDK: what `run` and `resume` take, do and return."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import (
    ENVIRON,
    Gate,
    cut_log,
    engine,
    iteration_dir,
    load,
    node,
    pipeline,
    run,
    run_dir,
    types,
)

from agentforge.model.errors import (
    DefinitionError,
    IllegalMove,
    InvalidRequest,
    InvalidSession,
    RunActive,
    RunExists,
    UnknownRun,
)
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.status import RunStatus
from agentforge.sdk.sync import SyncEngine
from agentforge.testing import (
    FakeClock,
    ObservedSession,
    ScriptedProvider,
    assert_event_sequence,
    assert_iteration_count,
    assert_state_status,
)
from agentforge.testing.scripted_provider import crashes, fails, says


def test_engine_run_executes_pipeline_and_returns_result(tmp_path: Path) -> None:
    async def main() -> None:
        provider = ScriptedProvider([says("one"), says("two", "stop"), says("three")])
        async with engine(tmp_path, provider) as sdk:
            result = await sdk.run(pipeline(node("plan", runs=5), node("build")), session="s")
        assert result.completed
        assert (result.session, result.iterations, result.reason) == ("s", 3, "all_loops_complete")
        assert result.error is None
        assert Path(result.run_dir) == run_dir(tmp_path)
        assert [(call.stage, call.iteration, call.session) for call in provider.calls] == [
            ("plan", 1, "s"),
            ("plan", 2, "s"),
            ("build", 1, "s"),
        ]

    run(main())
    session = ObservedSession(tmp_path, "s")
    assert_state_status(session, "completed")
    assert_iteration_count(session, 3)
    iteration = ["iteration_start", "attempt_start", "iteration_complete"]
    assert_event_sequence(
        session,
        [
            "session_start",
            "node_start",
            *iteration,
            *iteration,
            "node_complete",
            "node_start",
            *iteration,
            "node_complete",
            "session_complete",
        ],
    )


def test_engine_run_of_a_failing_pipeline_returns_the_error(tmp_path: Path) -> None:
    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([crashes(3, "no key\n\n")])) as sdk:
            result = await sdk.run(pipeline(node(retry={"initial_delay": 0})), session="s")
        assert result.status is RunStatus.FAILED
        assert result.error_type == "provider_crashed"
        assert result.error == result.reason == "scripted exited with status 3: no key"
        assert sdk.status("s").status == "failed"

    run(main())


PIPELINE = "name: refine\nnodes:\n  - {id: plan, prompt: do it, provider: scripted, delay: 0}\n"


@pytest.mark.parametrize("given", ["file", "name", "text", "mapping"])
def test_pipeline_by_file_by_name_and_inline(tmp_path: Path, given: str) -> None:
    folder = tmp_path / ".claude" / "pipelines"
    folder.mkdir(parents=True)
    (folder / "refine.yaml").write_text(PIPELINE)
    ways: dict[str, Any] = {
        "file": ".claude/pipelines/refine.yaml",
        "name": "refine",
        "text": PIPELINE,
        "mapping": pipeline(),
    }
    with SyncEngine(tmp_path, providers={"scripted": ScriptedProvider([says("x")])}, environ=ENVIRON) as sdk:
        assert sdk.run(ways[given], session="s").completed
        assert sdk.engine.status("s").plan.pipeline.name == "refine"
    assert (run_dir(tmp_path) / "plan.json").exists()
    assert (run_dir(tmp_path) / "pipeline.yaml").exists()


def test_reading_runs_without_an_event_loop(tmp_path: Path) -> None:
    with SyncEngine(tmp_path, providers={"scripted": ScriptedProvider([says("x")])}, environ=ENVIRON) as sdk:
        sdk.run(pipeline(), session="s")
        assert sdk.status("s").plan == sdk.inspect("s").plan
        assert [row.session for row in sdk.list()] == ["s"]
        assert len(list(sdk.events("s"))) == len(types(tmp_path))


def test_single_stage_run(tmp_path: Path) -> None:
    stage = tmp_path / ".claude" / "stages" / "ralph"
    stage.mkdir(parents=True)
    (stage / "stage.yaml").write_text("name: ralph\nprovider: scripted\ndelay: 0\n")
    (stage / "prompt.md").write_text("go on")
    provider = ScriptedProvider([says("x")])
    with SyncEngine(tmp_path, providers={"scripted": provider}, environ=ENVIRON) as sdk:
        result = sdk.run(stage="ralph", max_iterations=3)
    assert (result.session, result.iterations) == ("ralph", 3)
    assert result.reason == "Completed 3 iterations (max: 3)"
    agent = provider.calls[0].environment
    assert agent["CLAUDE_PIPELINE_AGENT"] == "1"
    assert (agent["CLAUDE_PIPELINE_SESSION"], agent["CLAUDE_PIPELINE_TYPE"]) == ("ralph", "ralph")


def test_run_without_a_name_gets_one_of_the_pipeline_and_the_time(tmp_path: Path) -> None:
    with SyncEngine(
        tmp_path,
        providers={"scripted": ScriptedProvider([says("x")])},
        environ=ENVIRON,
        clock=FakeClock(),
    ) as sdk:
        assert sdk.run(pipeline()).session == "refine-20260115-120000"
        assert sdk.run(pipeline()).session == "refine-20260115-120000-2"
        text = PIPELINE.replace("name: refine", "name: Ship it, now!")
        assert sdk.run(text).session == "Ship-it-now-20260115-120000"


def test_pipeline_and_stage_together_or_neither_is_refused(tmp_path: Path) -> None:
    with SyncEngine(tmp_path, environ=ENVIRON) as sdk:
        for wrong in ({}, {"pipeline": "a", "stage": "b"}):
            with pytest.raises(InvalidRequest):
                sdk.run(**wrong)  # type: ignore[arg-type]


def test_definition_errors_come_before_anything_is_touched(tmp_path: Path) -> None:
    with SyncEngine(tmp_path, environ=ENVIRON) as sdk:
        with pytest.raises(DefinitionError) as caught:
            sdk.run(pipeline(node(runs=0), node("plan")), session="s")
        assert len(caught.value.diagnostics) >= 2
        assert sdk.engine.list() == []
    assert not (tmp_path / ".claude").exists()


@pytest.mark.parametrize("name", ["../x", "", "a" * 300, "a/b", "a\0b"])
def test_hostile_session_names_are_refused_before_any_path_is_touched(tmp_path: Path, name: str) -> None:
    project = tmp_path / "deep" / "project"
    project.mkdir(parents=True)
    with SyncEngine(project, providers={"scripted": ScriptedProvider([says("x")])}, environ=ENVIRON) as sdk:
        with pytest.raises(InvalidSession):
            sdk.run(pipeline(), session=name)
        for call in (sdk.resume, sdk.recover, sdk.cancel, sdk.pause, sdk.engine.status):
            with pytest.raises(InvalidSession):
                call(name)
    assert list((tmp_path / "deep").rglob("*")) == [project]


def test_unicode_session_name(tmp_path: Path) -> None:
    with SyncEngine(tmp_path, providers={"scripted": ScriptedProvider([says("x")])}, environ=ENVIRON) as sdk:
        assert sdk.run(pipeline(), session="prüfung-日本").completed
        assert sdk.engine.status("pru\u0308fung-日本").session == "prüfung-日本"


def test_unknown_session_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with SyncEngine(tmp_path, providers={"scripted": ScriptedProvider([says("x")])}, environ=ENVIRON) as sdk:
        sdk.run(pipeline(), session="auth")
        for call in (sdk.resume, sdk.recover, sdk.cancel, sdk.pause, sdk.engine.status, sdk.engine.events):
            with pytest.raises(UnknownRun, match="no session 'other'") as caught:
                call("other")
            assert caught.value.hint == "known sessions: auth (see `agentforge list`)"
    assert not run_dir(tmp_path, "other").exists()


# -- resuming


def test_engine_resume_continues_paused_session_and_injects_context(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk:
            going = asyncio.create_task(
                sdk.run(pipeline(node(runs=2, prompt="Also: ${CONTEXT}")), session="s")
            )
            await gate.working.wait()
            await sdk.pause("s", "checkpoint")
            gate.finish.set()
            paused = await going
            assert (paused.status, paused.reason, paused.iterations) == (RunStatus.PAUSED, "checkpoint", 1)
            assert sdk.status("s").status == "paused"
            result = await sdk.resume("s", "focus on X")
        assert result.completed
        assert result.iterations == 2
        assert [call.prompt for call in gate.inner.calls] == ["Also: ", "Also: focus on X"]

    run(main())
    assert_event_sequence(
        ObservedSession(tmp_path, "s"),
        [
            "session_start",
            ...,
            "pause_requested",
            "iteration_complete",
            "session_paused",
            "session_resumed",
            ...,
            "session_complete",
        ],
    )


def test_engine_resume_of_a_failed_session_retries_the_iteration(tmp_path: Path) -> None:
    provider = ScriptedProvider(
        [says("one"), fails(Failure(FailureKind.PROVIDER_MISSING, "gone")), says("two")]
    )
    with SyncEngine(tmp_path, providers={"scripted": provider}, environ=ENVIRON) as sdk:
        failed = sdk.run(pipeline(node(runs=2)), session="s")
        assert (failed.status, failed.error_type) == (RunStatus.FAILED, "provider_missing")
        result = sdk.resume("s")
        assert result.completed
        assert result.error is None
    assert [(call.iteration, call.attempt) for call in provider.calls] == [(1, 1), (2, 1), (2, 2)]


def test_resume_on_completed_and_on_cancelled_is_refused(tmp_path: Path) -> None:
    with SyncEngine(tmp_path, providers={"scripted": ScriptedProvider([says("x")])}, environ=ENVIRON) as sdk:
        sdk.run(pipeline(), session="s")
        with pytest.raises(IllegalMove, match="already completed"):
            sdk.resume("s")
        with pytest.raises(IllegalMove, match="only a running session can be paused"):
            sdk.pause("s")
        with pytest.raises(IllegalMove, match="cannot be cancelled"):
            sdk.cancel("s")
        assert sdk.recover("s") is None
    assert types(tmp_path)[-1] == "session_complete"


def test_running_session_is_lock_contention_for_run_and_resume(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk, engine(tmp_path) as other:
            going = asyncio.create_task(sdk.run(pipeline(), session="s"))
            await gate.working.wait()
            for contender in (sdk, other):
                with pytest.raises(RunActive, match="already running \\(PID"):
                    await contender.run(pipeline(), session="s")
                with pytest.raises(RunActive):
                    await contender.resume("s")
            # The engine's own run isn't recovered either.
            assert await other.recover("s") is None
            assert other.status("s").status == "running"
            gate.finish.set()
            assert (await going).completed

    run(main())
    assert "session_recovered" not in types(tmp_path)


def test_session_with_active_lock_skips_recovery(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk, engine(tmp_path) as other:
            going = asyncio.create_task(sdk.run(pipeline(), session="s"))
            await gate.working.wait()
            before = (run_dir(tmp_path) / "events.jsonl").read_bytes()
            assert await other.recover("s") is None
            assert (run_dir(tmp_path) / "events.jsonl").read_bytes() == before
            gate.finish.set()
            await going

    run(main())


def test_name_in_use_is_refused_and_force_archives_the_finished_run(tmp_path: Path) -> None:
    with SyncEngine(tmp_path, providers={"scripted": ScriptedProvider([says("x")])}, environ=ENVIRON) as sdk:
        first = sdk.run(pipeline(), session="s")
        (Path(first.run_dir) / "mark").touch()
        with pytest.raises(RunExists, match="already completed"):
            sdk.run(pipeline(), session="s")
        assert sdk.run(pipeline(), session="s", force=True).completed
        rows = sdk.engine.list()
    assert [row.archived_from for row in rows if row.session != "s"] == ["s"]
    assert not (run_dir(tmp_path) / "mark").exists()
    kept = next(row.session for row in rows if row.session != "s")
    assert (run_dir(tmp_path, kept) / "mark").exists()


def test_list_shows_the_latest_runs(tmp_path: Path) -> None:
    with SyncEngine(tmp_path, providers={"scripted": ScriptedProvider([says("x")])}, environ=ENVIRON) as sdk:
        assert sdk.engine.list() == []
        for name in ("one", "two", "three"):
            sdk.run(pipeline(node(runs=2)), session=name)
        rows = sdk.engine.list(2)
    assert [row.session for row in rows] == ["three", "two"]
    assert (rows[0].status, rows[0].stage, rows[0].iterations) == ("completed", "plan", 2)


def test_interrupted_status_is_derived_and_is_what_recovery_looks_for(tmp_path: Path) -> None:
    with SyncEngine(tmp_path, providers={"scripted": ScriptedProvider([says("x")])}, environ=ENVIRON) as sdk:
        sdk.run(pipeline(node(runs=2)), session="s")
        log = run_dir(tmp_path) / "events.jsonl"
        cut_log(tmp_path, log.read_bytes().splitlines(keepends=True)[:5])
        info = sdk.engine.status("s")
        assert info.status == "interrupted"
        assert info.state.status is RunStatus.RUNNING
        assert info.driver_pid is None
        result = sdk.recover("s")
        assert result is not None
        assert result.completed
    assert "session_recovered" in types(tmp_path)


def test_events_and_inspect_read_the_whole_log(tmp_path: Path) -> None:
    with SyncEngine(tmp_path, providers={"scripted": ScriptedProvider([says("x")])}, environ=ENVIRON) as sdk:
        sdk.run(pipeline(), session="s")
        assert [event.fact.TYPE for event in sdk.engine.events("s")] == types(tmp_path)
        inspected = sdk.engine.inspect("s")
        assert inspected.summary.events == len(types(tmp_path))
        assert inspected.health.label == "ok"
        assert inspected == sdk.engine.status("s")


def test_sync_subscribe_follows_a_run_to_its_end(tmp_path: Path) -> None:
    with SyncEngine(tmp_path, providers={"scripted": ScriptedProvider([says("x")])}, environ=ENVIRON) as sdk:
        sdk.run(pipeline(), session="s")
        assert [event.fact.TYPE for event in sdk.subscribe("s")] == types(tmp_path)
        first = next(sdk.subscribe("s"))
        assert first.fact.TYPE == "session_start"


@pytest.mark.requirement("NFR-008")
def test_very_long_session_of_more_than_a_thousand_iterations(tmp_path: Path) -> None:
    provider = ScriptedProvider([says("x")])
    with SyncEngine(tmp_path, providers={"scripted": provider}, environ=ENVIRON) as sdk:
        result = sdk.run(pipeline(node(runs=1_050)), session="s")
    assert (result.completed, result.iterations) == (True, 1_050)
    state = load(run_dir(tmp_path) / "state.json")
    assert (len(state["history"]), state["history_omitted"]) == (1000, 50)
    context = load(iteration_dir(tmp_path, 1_050) / "context.json")
    assert len(context["inputs"]["from_previous_iterations"]) == 100
    assert context["inputs"]["from_previous_iterations_omitted"] == 949
    assert context["inputs"]["previous_iterations"]["count"] == 1_049
    assert len(provider.calls) == 1_050


def test_crash_during_iteration_resumes_from_iteration_completed_plus_one(tmp_path: Path) -> None:
    provider = ScriptedProvider([says("x")])
    with SyncEngine(tmp_path, providers={"scripted": provider}, environ=ENVIRON) as sdk:
        sdk.run(pipeline(node(runs=3)), session="s")
        log = run_dir(tmp_path) / "events.jsonl"
        lines = log.read_bytes().splitlines(keepends=True)
        intents = [number for number, line in enumerate(lines, 1) if b'"attempt_start"' in line]
        cut_log(tmp_path, lines[: intents[1]])
        crashed = sdk.engine.status("s").state
        assert crashed.node is not None
        assert crashed.iteration is not None
        assert (crashed.iteration.number, crashed.node.completed) == (2, 1)
        provider.calls.clear()
        assert sdk.recover("s") is not None
    assert [(call.iteration, call.attempt) for call in provider.calls] == [(2, 2), (3, 1)]
