"""Real agents in a sandbox, in the kinds of projects that people have: their work is not hindered."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.agents.clis import Cli
from tests.agents.trial import WRITES, Trial
from tests.security.confined import need_bwrap, project_in

from agentforge.adapters.sandboxes.bwrap import BwrapSandbox
from agentforge.testing.model_server import Call, ModelServer, Script, Shell, Turn, Write

pytestmark = pytest.mark.agents
RESULT = '{"summary": "done", "decision": "stop"}\n'
COMMITS = "git add hello.txt && git -c user.name=a -c user.email=a@b commit -qm hello"


@pytest.fixture
def placed(cli: Cli, server: ModelServer, tmp_path: Path) -> Iterator[Trial]:
    """A trial whose project is in /srv, which sandboxes leave as it is."""
    need_bwrap()
    for folder in project_in("/srv"):
        trial = Trial(cli, server, tmp_path)
        trial.project = folder / "project"
        trial.project.mkdir()
        yield trial
        trial.end_all()


def test_it_works_in_srv(placed: Trial) -> None:
    result = placed.run(WRITES, sandbox="bwrap")
    assert result.completed, result.error
    assert (placed.project / "hello.txt").read_text() == "hello\n"


def test_it_works_in_tmp(trial: Trial) -> None:
    need_bwrap()
    result = trial.run(WRITES, sandbox="bwrap")
    assert result.completed, result.error
    assert (trial.project / "hello.txt").read_text() == "hello\n"


def test_it_works_in_a_repository_and_commits(placed: Trial) -> None:
    subprocess.run(["git", "init", "-q"], cwd=placed.project, check=True)
    script = Script(
        (
            Turn("I write and commit.", (Shell(f"echo hello > hello.txt && {COMMITS}"),)),
            Turn("Now the result.", (Write("{result}", RESULT),)),
            Turn("Done."),
        )
    )
    result = placed.run(script, sandbox="bwrap")
    assert result.completed, result.error
    log = subprocess.run(["git", "log", "--format=%s"], cwd=placed.project, capture_output=True, check=True)
    assert log.stdout == b"hello\n"


def test_it_works_in_a_package_of_a_monorepo(placed: Trial) -> None:
    top = placed.project
    subprocess.run(["git", "init", "-q"], cwd=top, check=True)
    placed.project = top / "packages/one"
    placed.project.mkdir(parents=True)
    result = placed.run(WRITES, sandbox="bwrap")
    assert result.completed, result.error


@pytest.mark.parametrize("inside", [True, False], ids=["inside", "outside"])
def test_it_uses_a_virtual_environment(placed: Trial, inside: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    venv = (placed.project if inside else placed.project.parent) / ".venv"
    (venv / "bin").mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("")
    (venv / "bin/tool").write_text("#!/bin/sh\necho hello > hello.txt\n")
    (venv / "bin/tool").chmod(0o755)
    environ = placed.environ

    def activated(script: Script, at: str = "") -> dict[str, str]:
        found = environ(script, at)
        return {**found, "PATH": f"{venv}/bin:{found['PATH']}", "VIRTUAL_ENV": str(venv)}

    monkeypatch.setattr(placed, "environ", activated)
    script = Script(
        (
            Turn("I call the tool.", (Shell(f"{venv}/bin/tool"),)),
            Turn("Now the result.", (Write("{result}", RESULT),)),
            Turn("Done."),
        )
    )
    result = placed.run(script, sandbox="bwrap")
    assert result.completed, result.error
    assert (placed.project / "hello.txt").read_text() == "hello\n"


RESTRICTED = {
    "claude": ["--permission-mode", "acceptEdits"],
    "codex": ["--sandbox", "workspace-write"],
}


READ = Call("Read", {"file_path": "{notes}"})


def _need_nested_sandbox(cli: str, sandbox: str) -> None:
    if (cli, sandbox) == ("codex", "bwrap") and BwrapSandbox().nesting_problem:
        pytest.skip(f"privileges: {BwrapSandbox().nesting_problem}")


@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
def test_it_works_with_its_own_restricted_permissions(trial: Trial, sandbox: str) -> None:
    if sandbox == "bwrap":
        need_bwrap()
    if trial.cli.name not in RESTRICTED:
        pytest.skip("contract: restricted permissions are tested with claude and codex")
    _need_nested_sandbox(trial.cli.name, sandbox)
    provider = {"type": trial.cli.name, "permissions": RESTRICTED[trial.cli.name]}
    script = Script(
        (
            Turn("I write a file.", (Write("hello.txt", "hello\n"),)),
            Turn("Now the result.", (Write("{result}", RESULT),)),
            Turn("Done."),
        )
    )
    result = trial.run(script, provider=provider, sandbox=sandbox)
    assert result.completed, result.error
    here = trial.run_dir / "stage-00-work/iterations/001"
    assert "done" in (here / "result.json").read_text()
    assert not any((trial.project / ".agentforge-outbox").glob("*/result.json"))


@pytest.mark.parametrize("sandbox", ["none", "bwrap"])
def test_it_takes_notes_with_its_own_restricted_permissions(trial: Trial, sandbox: str) -> None:
    if sandbox == "bwrap":
        need_bwrap()
    if trial.cli.name not in RESTRICTED:
        pytest.skip("contract: restricted permissions are tested with claude and codex")
    _need_nested_sandbox(trial.cli.name, sandbox)
    provider = {"type": trial.cli.name, "permissions": RESTRICTED[trial.cli.name]}
    prompt = "Take notes: [notes=${PROGRESS}]. Then write your result to ${RESULT} and stop."
    script = Script(
        (
            *([Turn("I read them first.", (READ,))] if trial.cli.name == "claude" else []),
            Turn("I take notes.", (Write("{notes}", "what I learned\n"),)),
            Turn("Now the result.", (Write("{result}", RESULT),)),
            Turn("Done."),
        )
    )
    result = trial.run(script, provider=provider, prompt=prompt, sandbox=sandbox)
    assert result.completed, result.error
    assert (trial.run_dir / "stage-00-work/progress.md").read_text() == "what I learned\n"
