"""Descriptions of providers in a project: pinned when a run is compiled, and no override of a built-in one
without the user's consent."""

import json
import tempfile
from pathlib import Path

import pytest
from tests.sdk.projects import engine, node, pipeline, run
from tests.security.confined import WORK, script
from tests.surface.terminal import Done, Project

from agentforge.model.errors import ProviderUnusable
from agentforge.model.status import RunStatus


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    (made / ".agentforge/providers").mkdir(parents=True)
    for name in ("good", "false"):
        (made / name).write_text(f"#!/bin/sh\ncat > /dev/null\necho {name} >> ran\n{WORK}")
        (made / name).chmod(0o755)
    return made


def describe(project: Path, name: str, program: str) -> None:
    (project / f".agentforge/providers/{name}.yaml").write_text(f"program: {project}/{program}\n")


def test_a_run_keeps_the_provider_that_it_was_compiled_with(project: Path) -> None:
    describe(project, "mine", "good")
    change = "echo program: $PWD/false > .agentforge/providers/mine.yaml\n"
    first = script(change + WORK, "first", sandbox="none")
    last = {**node("last", provider="mine"), "retry": {"max_attempts": 1}}
    wait = script("[ -e allowed ] || exit 1\n" + WORK, "wait", sandbox="none")
    stages = pipeline(first, wait, last)
    assert run(engine(project).run(stages, session="s")).status is RunStatus.FAILED
    (project / "allowed").write_text("")
    assert run(engine(project).resume("s")).status is RunStatus.COMPLETED
    assert (project / "ran").read_text() == "good\n"


def test_a_removed_description_does_not_stop_the_run(project: Path) -> None:
    describe(project, "mine", "good")
    first = script("rm .agentforge/providers/mine.yaml\nfalse\n", "first", sandbox="none")
    stages = pipeline(first, node("last", provider="mine"))
    run(engine(project).run(stages, session="s"))
    (project / ".agentforge/providers").rmdir()
    ended = run(engine(project).resume("s"))
    assert "unknown provider" not in str(ended.error)


def command_line(project: Path, *words: str, **environ: str) -> Done:
    with tempfile.TemporaryDirectory() as folder:
        return Project(Path(folder)).call(*words, cwd=project, env={"HOME": str(project.parent), **environ})


@pytest.fixture
def shadowing(project: Path) -> Path:
    describe(project, "claude", "false")
    stages = {"nodes": [{"id": "a", "prompt": "x", "provider": "claude", "delay": 0}]}
    (project / "p.yaml").write_text(json.dumps(stages))
    return project


def test_a_project_does_not_override_a_built_in_provider(shadowing: Path) -> None:
    done = command_line(shadowing, "run", "-p", "p.yaml", "-s", "s")
    assert done.code != 0
    assert ".agentforge/providers/claude.yaml would override the built-in one" in done.err
    assert "--trust-project" in done.err
    assert "Traceback" not in done.err
    assert not (shadowing / "ran").exists()
    with pytest.raises(ProviderUnusable):
        engine(shadowing).compile("p.yaml")


@pytest.mark.parametrize("words", ["doctor", "providers", "lint p.yaml"])
def test_commands_that_look_say_so(shadowing: Path, words: str) -> None:
    done = command_line(shadowing, *words.split())
    assert "would override" in (done.out + done.err).replace("\n", " ")


def test_an_option_allows_it(shadowing: Path) -> None:
    done = command_line(shadowing, "run", "-p", "p.yaml", "-s", "s", "--trust-project")
    assert done.code == 0, done.err
    assert (shadowing / "ran").read_text() == "false\n"


@pytest.mark.parametrize("words", ["doctor", "providers", "lint p.yaml"])
def test_an_option_before_the_command_allows_it(shadowing: Path, words: str) -> None:
    done = command_line(shadowing, "--trust-project", *words.split())
    shown = (done.out + done.err).replace("\n", " ")
    assert "would override" not in shown
    assert "No such option" not in shown


@pytest.mark.parametrize("listed", [True, False])
def test_the_users_settings_allow_it(shadowing: Path, listed: bool) -> None:
    settings = shadowing.parent / ".config/agentforge"
    settings.mkdir(parents=True)
    place = shadowing if listed else shadowing.parent
    (settings / "trusted-projects").write_text(f"relative\n\n{place}\n")
    done = command_line(shadowing, "run", "-p", "p.yaml", "-s", "s")
    assert (done.code == 0) is listed


def test_the_default_judge_is_not_overridden(shadowing: Path) -> None:
    judged = script(WORK, sandbox="none", termination={"type": "judgment", "max": 2, "consensus": 1})
    with pytest.raises(ProviderUnusable, match="would override"):
        run(engine(shadowing).run(pipeline(judged), session="s"))
