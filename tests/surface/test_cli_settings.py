"""What a person sees of settings: in a run, in a dry run, and of mistakes in them."""

import json
from pathlib import Path

import pytest
from tests.surface.terminal import WRITE_RESULT, Project

NODE = {"id": "a", "prompt": "${REQUEST}", "delay": 0}
OWN = ".agentforge/config/settings.yaml"


def put(project: Project, path: str, text: str) -> None:
    file = project.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def pipeline(project: Project) -> str:
    put(project, "mine.yaml", json.dumps({"name": "mine", "request": "optional", "nodes": [NODE]}))
    return "mine.yaml"


def test_a_run_without_a_pipeline_takes_the_default_one(project: Project, pipeline: str) -> None:
    provider = json.dumps({"type": "command", "run": WRITE_RESULT})
    put(project, OWN, f"pipeline: {pipeline}\nprovider: {provider}\n")
    done = project.call("run", "-s", "one", "add a function")
    assert done.code == 0, done.err
    assert project.events("one")[0]["data"]["pipeline"] == "mine"
    assert project.call("run", "-s", "two").code == 0


def test_a_dry_run_shows_them_with_their_places(project: Project, pipeline: str) -> None:
    put(project, OWN, "provider: codex\nmodel: gpt-5.5\ncommands:\n  test: make check\n")
    lines = project.call("dry-run", "pipeline", pipeline).lines
    assert f"- Setting: provider ({OWN}:1:1)" in lines
    assert f"- Setting: commands.test ({OWN}:4:3)" in lines
    assert "- test: make check" in lines
    assert [line for line in lines if line.startswith("- Provider: codex / gpt-5.5")]


def test_the_agent_that_is_logged_in_is_the_default(project: Project, pipeline: str, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/codex").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin/codex").chmod(0o755)
    env = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "OPENAI_API_KEY": "x"}
    plan = project.call("dry-run", "pipeline", pipeline, "--json", env=env).json["plan"]
    assert plan["nodes"][0]["provider"]["type"] == "codex"
    plan = project.call("dry-run", "pipeline", pipeline, "--json", env={"PATH": "/usr/bin:/bin"}).json["plan"]
    assert plan["nodes"][0]["provider"]["type"] == "claude"


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        ("[]", "1:1", "settings must be a mapping"),
        ("orchestration:\n  cycle_limit: 11\n", "2:16", "`orchestration.cycle_limit` must be from 1 to 10"),
        ("orchestration: {token_budget: {a: 60, b: 50}}", "1:42", "110 % in all; the maximum is 100"),
    ],
)
def test_mistakes_end_a_run_before_it_starts(
    project: Project, pipeline: str, text: str, place: str, what: str
) -> None:
    put(project, OWN, text)
    done = project.call("run", "-p", pipeline, "-s", "one", "add a function")
    assert done.code == 2
    assert f"{OWN}:{place}" in done.err
    assert what in done.err
    assert not (project.root / ".claude/pipeline-runs/one").exists()


@pytest.mark.parametrize("name", ["agentforge", "acode"])
def test_a_default_pipeline_that_does_not_exist_is_named_with_its_place(project: Project, name: str) -> None:
    put(project, OWN, "pipeline: nope\n")
    done = project.call("run", "add a function", name=name)
    assert (done.code, f"{OWN}:1:11: unknown-pipeline: no pipeline named `nope`" in done.err) == (2, True)


def test_a_variable_that_is_not_set_is_an_error_where_its_value_is_needed(project: Project) -> None:
    put(project, OWN, "pipeline: ${DEFAULT}\nprovider: ${AGENT}\n")
    done = project.call("run", "add a function")
    assert (done.code, f"{OWN}:1:11: unset-variable: the environment variable DEFAULT" in done.err) == (
        2,
        True,
    )
    done = project.call("dry-run", "pipeline", "loop", "x")
    assert (done.code, f"{OWN}:2:11: unset-variable: the environment variable AGENT" in done.err) == (2, True)
    assert project.call("dry-run", "pipeline", "loop", "x", "--provider", "mock").code == 0
    assert project.call("config", "validate").code == 2


def test_config_changes_what_the_loop_does(project: Project) -> None:
    assert project.call("config", "get", "orchestration.cycle_limit").out == "3\n"
    refused = project.call("config", "set", "orchestration.cycle_limit", "11")
    assert refused.code == 2
    assert f"{OWN}:2:16: bad-value: `orchestration.cycle_limit` must be from 1 to 10, got 11" in refused.err
    assert "1 error in the settings" in refused.err
    assert not (project.root / OWN).exists()
    assert project.call("config", "set", "orchestration.cycle_limit", "5").code == 0
    assert "5 cycles" in project.call("graph", "loop").out
    shown = project.call("config", "show", "--origin").lines
    assert f"orchestration.cycle_limit: 5  ({OWN}:2)" in shown
    assert "orchestration.planner_timeout: 120  (pipeline loop)" in shown
    (project.root / OWN).write_text("network: vpn\n")
    done = project.call("config", "validate")
    assert (done.code, f"{OWN}:1:10" in done.out) == (2, True)


def test_a_project_notifies_no_one_before_it_is_trusted(project: Project, pipeline: str) -> None:
    put(project, OWN, f"provider: {json.dumps({'type': 'command', 'run': WRITE_RESULT})}\n"
        "notify: {command: 'touch $HOME/told', on: completed}\n")  # fmt: skip
    done = project.call("dry-run", "pipeline", pipeline)
    assert "you don't trust this project" in done.out + done.err
    assert "## Notifications" not in done.out
    trusted = project.call("--trust-project", "dry-run", "pipeline", pipeline)
    assert "touch $HOME/told" in trusted.out
