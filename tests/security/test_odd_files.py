"""An agent leaves a pipe, a folder, a link or a huge file in the place of a file: the attempt fails, or the
engine replaces the thing; it neither waits nor stops."""

import os
from pathlib import Path

import pytest
from tests.sampling import one_in
from tests.surface.terminal import WRITE_RESULT, Project

HERE = 'cd "$(dirname "$AGENTFORGE_RESULT")"'
ODD = {
    "a pipe": "mkfifo {}",
    "a folder": "mkdir -p {}/inner",
    "a device": "ln -s /dev/zero {}",
    "a link in a loop": "ln -s {} {}",
    "a link to a file": "ln -s /etc/hostname {}",
    "a sparse file": "truncate -s 60G {}",
    "thirty megabytes": "head -c 30000000 /dev/zero | tr '\\0' x > {}",
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def run(project: Project, agent: str, *options: str) -> int:
    (project.root / "agent.sh").write_text(f"{HERE}\n{agent}\n")
    file = project.pipeline("plan*2=sh agent.sh", extra="    retry: {max_attempts: 1}\n")
    return project.call("run", "-p", file, "-s", "odd", *options).code


@pytest.mark.parametrize("name", one_in(2, ["result.json", "status.json"]))
@pytest.mark.parametrize("kind", ODD)
def test_result_that_is_something_else_is_invalid(project: Project, name: str, kind: str) -> None:
    assert run(project, ODD[kind].replace("{}", name)) != 0
    errors = [event for event in project.events("odd") if event["type"] == "error"]
    assert {error["data"]["type"] for error in errors} == {"result_invalid"}
    assert name in errors[0]["data"]["message"]
    assert project.state("odd")["status"] != "running"
    assert project.call("status", "odd").code == 0


@pytest.mark.parametrize("kind", one_in(3, ODD))
@pytest.mark.parametrize("name", ["output.md", "attempts.jsonl", "error.json", "context.json", "prompt.md"])
def test_other_files_are_replaced(project: Project, name: str, kind: str) -> None:
    odd = f"rm -rf {name}; {ODD[kind].replace('{}', name)}"
    assert run(project, f"{odd}\necho said\n{WRITE_RESULT}") == 0
    output = project.run_dir("odd") / "stage-00-plan" / "iterations" / "001" / "output.md"
    assert output.read_text() == "said\n"
    assert not output.is_symlink()


def test_recording_copes_with_an_odd_result(project: Project) -> None:
    assert run(project, "mkfifo result.json; mkdir status.json", "--record") != 0
    assert project.call("replay", "odd", "--check").code in (0, 1)


@pytest.mark.parametrize("kind", ["a pipe", "a folder", "a device"])
def test_state_file_that_is_something_else_does_not_hinder(project: Project, kind: str) -> None:
    assert run(project, WRITE_RESULT) == 0
    state = project.run_dir("odd") / "state.json"
    state.unlink()
    make = {"a pipe": os.mkfifo, "a folder": os.mkdir, "a device": lambda path: os.symlink("/dev/zero", path)}
    make[kind](state)
    for command in (["status", "odd"], ["list"], ["tail", "odd"]):
        done = project.call(*command)
        assert done.code == 0, done.err
