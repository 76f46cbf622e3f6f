"""Recompiling with the SDK: a run continues with another plan; after a crash it has one plan or the other."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace
from tests.sdk.projects import ENVIRON, iteration_dir, load, node, pipeline, run_dir, types

from agentforge.app.runs.compilation import merged
from agentforge.model.errors import IllegalMove, InvalidRequest
from agentforge.model.plan import Overrides
from agentforge.sdk.sync import SyncEngine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import crashes, says
from agentforge.views.stage_progress import stage_progress

ONCE = {"max_attempts": 1}


def sdk(project: Path, provider: ScriptedProvider | None = None) -> SyncEngine:
    scripted = provider or ScriptedProvider([says("done")])
    return SyncEngine(project, providers={"scripted": scripted}, environ=ENVIRON)


def write(project: Path, *nodes: dict[str, object], name: str = "p.yaml") -> str:
    (project / name).write_text(yaml.safe_dump(pipeline(*nodes)))
    return name


def stopped_after(project: Path, iterations: int, *nodes: dict[str, object]) -> None:
    """A run that failed at the next iteration."""
    script = [*[says("done")] * iterations, crashes()]
    with sdk(project, ScriptedProvider(script)) as engine:
        assert not engine.run(write(project, *nodes), session="s").completed


def test_recompile_continues_the_iterations_of_the_current_node_in_the_folder_of_its_visit(
    tmp_path: Path,
) -> None:
    stopped_after(tmp_path, 2, node("plan", runs=5, retry=ONCE))
    write(tmp_path, node("first"), node("plan", runs=4, retry=ONCE), node("last", inputs={"from": "plan"}))
    with sdk(tmp_path) as engine:
        assert engine.resume("s", recompile=True).completed
        info = engine.engine.status("s")
    assert [(stage.id, stage.completed) for stage in stage_progress(info.plan, info.state)] == [
        ("first", 0),
        ("plan", 4),
        ("last", 1),
    ]
    third = load(iteration_dir(tmp_path, 3, "stage-00-plan") / "context.json")
    assert third["inputs"]["from_previous_iterations"] == [
        str(iteration_dir(tmp_path, number, "stage-00-plan") / "output.md") for number in (1, 2)
    ]
    last = load(iteration_dir(tmp_path, 1, "stage-02-last") / "context.json")
    assert last["inputs"]["from_stage"]["plan"] == [
        str(iteration_dir(tmp_path, 4, "stage-00-plan") / "output.md")
    ]


def test_recompiled_run_is_the_same_session(tmp_path: Path) -> None:
    environ = {**ENVIRON, "SESSION_CREATED_AT": "2026-01-15T12:00:00Z"}
    providers = {"scripted": ScriptedProvider([crashes()])}
    with SyncEngine(tmp_path, providers=providers, environ=environ) as engine:
        assert not engine.run(write(tmp_path, node("plan", retry=ONCE)), session="s").completed
    with sdk(tmp_path) as engine:
        begun = engine.engine.status("s").plan.session
        assert engine.resume("s", recompile=True).completed
        assert engine.engine.status("s").plan.session == begun


def test_recompile_with_a_plan_compiled_from_another_file(tmp_path: Path) -> None:
    stopped_after(tmp_path, 0, node("plan", retry=ONCE))
    other = write(tmp_path, node("plan", runs=2), name="other.yaml")
    with sdk(tmp_path) as engine:
        compiled = engine.engine.recompile("s", other, overrides=Overrides(model="small"), passes=2)
        assert engine.resume("s", recompile=compiled).completed
        info = engine.engine.status("s")
    assert (info.plan.source.path, info.plan.passes) == ("other.yaml", 2)
    assert info.plan.steps[0].stages[0].provider.model == "small"
    assert types(tmp_path).count("iteration_complete") == 4


STARTED_WITH = Overrides(
    "codex",
    "gpt",
    "be brief",
    ("a.md",),
    {"tests": "make test"},
    5,
    {"sandbox": {"type": "none"}, "x": 1},
    supervised=True,
    exit_after="plan",
    rounds=2,
    iterate=True,
    max_runtime=60.0,
    executors=("plan",),
)


@pytest.mark.parametrize(
    ("now", "changes"),
    [
        (Overrides(), {}),
        (Overrides(model="small"), {"model": "small"}),
        (Overrides(provider="claude"), {"provider": "claude", "model": None, "config": {}}),
        (Overrides(provider="claude", model="opus"), {"provider": "claude", "model": "opus", "config": {}}),
        (Overrides(context=""), {"context": ""}),
        (Overrides(inputs=("b.md",)), {"inputs": ("b.md",)}),
        (Overrides(commands={"lint": "ruff"}), {"commands": {"tests": "make test", "lint": "ruff"}}),
        (Overrides(max_iterations=9), {"max_iterations": 9}),
        (Overrides(config={"x": 2}), {"config": {"sandbox": {"type": "none"}, "x": 2}}),
        (Overrides(supervised=False, iterate=False), {"supervised": False, "iterate": False}),
        (Overrides(exit_after="build", rounds=9), {"exit_after": "build", "rounds": 9}),
        (Overrides(max_runtime=5.0, executors=("build",)), {"max_runtime": 5.0, "executors": ("build",)}),
    ],
)
def test_what_a_run_was_started_with_lasts_until_it_is_overridden(
    now: Overrides, changes: dict[str, Any]
) -> None:
    """Also when the run is recompiled a second time."""
    wanted = replace(STARTED_WITH, **changes)
    assert merged(STARTED_WITH, now) == wanted
    assert merged(merged(STARTED_WITH, now), Overrides()) == wanted


def test_passes_of_the_start_are_kept_when_the_run_is_recompiled(tmp_path: Path) -> None:
    path = write(tmp_path, node("plan", retry=ONCE))
    with sdk(tmp_path, ScriptedProvider([crashes()])) as engine:
        engine.start(engine.engine.compile(path, session="s", passes=3))
        assert engine.engine.recompile("s").plan.passes == 3
        assert engine.engine.recompile("s", passes=2).plan.passes == 2


def test_settings_of_the_start_are_kept_when_the_run_is_recompiled(tmp_path: Path) -> None:
    provider = ScriptedProvider([crashes(), says("done")])
    with sdk(tmp_path, provider) as engine:
        engine.run(
            write(tmp_path, node("plan", retry=ONCE)), session="s", provider_config={"a": {"x": 1}, "b": 1}
        )
        write(tmp_path, node("plan", retry=ONCE, provider_config={"b": 9, "c": 9}))
        more = engine.engine.recompile("s", overrides=Overrides(config={"a": {"y": 2}}))
        assert engine.resume("s", recompile=more).completed
    assert [call.config for call in provider.calls] == [
        {"a": {"x": 1}, "b": 1},
        {"a": {"x": 1, "y": 2}, "b": 1, "c": 9},
    ]


def test_settings_of_a_provider_are_dropped_when_another_is_chosen(tmp_path: Path) -> None:
    other = ScriptedProvider([says("done")])
    with sdk(tmp_path, ScriptedProvider([crashes()])) as engine:
        engine.run(write(tmp_path, node("plan", retry=ONCE)), session="s", provider_config={"a": 1})
        engine.register_provider("other", other)
        changed = engine.engine.recompile("s", overrides=Overrides(provider="other", config={"b": 2}))
        assert engine.resume("s", recompile=changed).completed
    assert [call.config for call in other.calls] == [{"b": 2}]


def test_recompile_of_a_pipeline_given_as_data_needs_a_file(tmp_path: Path) -> None:
    with sdk(tmp_path, ScriptedProvider([crashes()])) as engine:
        engine.run(pipeline(node(retry=ONCE)), session="s")
        with pytest.raises(InvalidRequest, match="was given as text"):
            engine.resume("s", recompile=True)


def test_recompile_cannot_turn_a_loop_into_a_pipeline(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "stages" / "plan"
    folder.mkdir(parents=True)
    (folder / "stage.yaml").write_text("provider: scripted\ndelay: 0\nretry: {max_attempts: 1}\n")
    (folder / "prompt.md").write_text("x")
    with sdk(tmp_path, ScriptedProvider([crashes()])) as engine:
        engine.run(stage="plan", session="s", max_iterations=3)
        compiled = engine.engine.compile(write(tmp_path, node("plan")), session="s")
        with pytest.raises(InvalidRequest, match="is a loop and can't continue as a pipeline"):
            engine.resume("s", recompile=compiled)
        kept = engine.engine.recompile("s").plan
        assert kept.only_stage.termination.max == 3
    assert types(tmp_path)[-1] == "session_failed"


def test_refused_recompile_releases_the_lease(tmp_path: Path) -> None:
    stopped_after(tmp_path, 0, node("plan", retry=ONCE))
    write(tmp_path, node("other"))
    with sdk(tmp_path) as engine:
        with pytest.raises(IllegalMove):
            engine.resume("s", recompile=True)
        assert engine.resume("s").completed


@pytest.mark.parametrize("kept", [True, False])
def test_crash_right_before_or_after_the_new_plan_is_recorded(tmp_path: Path, kept: bool) -> None:
    stopped_after(tmp_path, 1, node("plan", runs=4, retry=ONCE))
    write(tmp_path, node("plan", runs=2, retry=ONCE))
    with sdk(tmp_path) as engine:
        assert engine.resume("s", recompile=True).completed
    log = run_dir(tmp_path) / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    cut = types(tmp_path).index("plan_changed") + (1 if kept else 0)
    log.write_bytes(b"".join(lines[:cut]))
    for later in (2, 3, 4):
        (iteration_dir(tmp_path, later) / "result.json").unlink(missing_ok=True)
    with sdk(tmp_path) as engine:
        assert engine.resume("s", accept_damage=True).completed
        assert engine.engine.status("s").plan == engine.engine.inspect("s").plan
    most = 2 if kept else 4
    assert types(tmp_path).count("iteration_complete") == most
    assert load(run_dir(tmp_path) / "plan.json")["nodes"][0]["termination"]["max"] == most


def test_warning_names_the_file_that_changed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stopped_after(tmp_path, 0, node("plan", retry=ONCE))
    (tmp_path / "p.yaml").unlink()
    with sdk(tmp_path) as engine, caplog.at_level(logging.WARNING, "agentforge"):
        assert engine.resume("s").completed
    assert "p.yaml changed since session 's' was compiled" in caplog.text


@pytest.mark.parametrize(("version", "is_refused"), [("1.7", False), ("2.0", True)])
def test_artifacts_of_another_major_version_refuse_the_new_plan(
    tmp_path: Path, version: str, is_refused: bool
) -> None:
    def plan(number: str) -> dict[str, object]:
        return node("plan", artifact={"schema": {"type": "object"}, "version": number})

    script = [says("planned", artifact={"a": 1}), crashes()]
    with sdk(tmp_path, ScriptedProvider(script)) as engine:
        file = write(tmp_path, plan("1.2"), node("do", retry=ONCE))
        assert not engine.run(file, session="s").completed
    write(tmp_path, plan(version), node("do", retry=ONCE))
    with sdk(tmp_path) as engine:
        if not is_refused:
            assert engine.resume("s", recompile=True).completed
            return
        with pytest.raises(IllegalMove, match=r"version 1\.2, .* version 2\.0"):
            engine.resume("s", recompile=True)


def test_list_of_a_visit_that_has_begun_cannot_be_replaced(tmp_path: Path) -> None:
    def over(field: str) -> dict[str, object]:
        return node("do", retry=ONCE, termination={"type": "items", "from": f"plan.{field}"})

    planner = node("plan", artifact={"type": "object"})
    lists = {"steps": [{"id": "s1"}, {"id": "s2"}], "tests": [{"id": "s1"}, {"id": "t1"}]}
    script = [says("planned", artifact=lists), says("s1"), crashes()]
    with sdk(tmp_path, ScriptedProvider(script)) as engine:
        assert not engine.run(write(tmp_path, planner, over("steps")), session="s").completed
    write(tmp_path, planner, over("tests"))
    with sdk(tmp_path) as engine:
        with pytest.raises(IllegalMove, match=r"takes 'plan\.tests' in the new plan"):
            engine.resume("s", recompile=True)
        assert engine.resume("s").completed


def test_stage_that_is_over_items_no_longer_works_as_any_other(tmp_path: Path) -> None:
    def over_items(**more: object) -> dict[str, object]:
        return node("do", retry=ONCE, artifact={"type": "object"}, **more)

    planner, items = node("plan", artifact={"type": "object"}), {"type": "items", "from": "plan.steps"}
    steps = [{"id": "s1"}, {"id": "s2"}, {"id": "s3"}]
    script = [says("planned", artifact={"steps": steps}), says("s1", artifact={"did": 1}), crashes()]
    with sdk(tmp_path, ScriptedProvider(script)) as engine:
        file = write(tmp_path, planner, over_items(termination=items), node("verify"))
        assert not engine.run(file, session="s").completed
    write(tmp_path, planner, over_items(runs=3), node("verify"))
    provider = ScriptedProvider([*[says("all", artifact={"did": 2})] * 2, says("verified")])
    with sdk(tmp_path, provider) as engine:
        assert engine.resume("s", recompile=True).completed
    assert [call.stage for call in provider.calls] == ["do", "do", "verify"]
    contexts = [json.loads(Path(call.context_path).read_text()) for call in provider.calls]
    # The first one was begun under the plan before.
    assert ["item" in context for context in contexts] == [True, False, False]
    assert contexts[2]["artifact"]["did"] == 2
    assert "do" not in contexts[2]["artifact"]
