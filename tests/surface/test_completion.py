"""Completion: names of the project, harmless for a shell, and silence where something is wrong."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from click.shell_completion import BashComplete

from agentforge.cli.invocation import Invocation
from agentforge.cli.main import COMMANDS, app, call

SOURCE = Path(__file__).resolve().parents[2] / "src"
GOLDEN = Path(__file__).resolve().parents[1] / "sdk/golden"


def completed(folder: Path, *words: str) -> list[str]:
    """What is offered for the last word."""
    shell = BashComplete(app, {"obj": Invocation()}, "agentforge", "_AGENTFORGE_COMPLETE")
    items = shell.get_completions(["-C", str(folder), *words[:-1]], words[-1])
    return [f"<{item.type}>" if item.type != "plain" else item.value for item in items]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("tidy", "tidy-up", "$(touch x)", "a;b", "*", "new\nline"):
        stage = tmp_path / ".claude/stages" / name
        stage.mkdir(parents=True)
        (stage / "prompt.md").write_text("x")
    pipelines = tmp_path / ".claude/pipelines"
    pipelines.mkdir()
    for name in ("ship", "`ls`", "-o"):
        (pipelines / f"{name}.yaml").write_text("nodes: [")
    for session in ("auth", "billing"):
        run = tmp_path / ".claude/pipeline-runs" / session
        run.mkdir(parents=True)
        (run / "events.jsonl").write_text("not json\n")
    return tmp_path


def test_commands_and_stages_come_first(project: Path) -> None:
    offered = completed(project, "")
    assert offered[: len(COMMANDS)] == list(COMMANDS)
    assert {"tidy", "tidy-up", "work"} <= set(offered)
    assert completed(project, "ti") == ["tidy", "tidy-up"]
    assert "--json" in completed(project, "--j")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("status", ""), ["auth", "billing"]),
        (("status", "b"), ["billing"]),
        (("log", "verify", "a"), ["auth"]),
        (("show", "--checks", "--failures", "a"), ["auth"]),
        (("resume", "--force", "a"), ["auth"]),
        (("rm", "a"), ["auth"]),
        (("rm", "auth", "b"), ["billing"]),
        (("show", "auth", ""), []),
        (("show", "nosuch", "ti"), []),
        (("loop", "tid"), ["tidy", "tidy-up"]),
        (("tidy", "bi"), ["billing"]),
        (("run", "-p", "sh"), ["<file>", "ship"]),
        (("run", "-p", "ship", "-s", "a"), ["auth"]),
        (("pipeline", "sh"), ["<file>", "ship"]),
        (("replay", "a"), ["<file>", "auth"]),
        (("lint", "p"), ["<file>", "pipeline"]),
        (("lint", "pipeline", "sh"), ["<file>", "ship"]),
        (("dry-run", "pipeline", "sh"), ["<file>", "ship"]),
        (("graph", "sh"), ["<file>", "ship"]),
        (("completion", "z"), ["zsh"]),
    ],
)
def test_names_of_the_project(project: Path, words: tuple[str, ...], offered: list[str]) -> None:
    assert sorted(completed(project, *words)) == offered


def test_the_stages_of_a_session_are_completed(project: Path) -> None:
    run = project / ".claude/pipeline-runs/duel"
    run.mkdir()
    shutil.copy(GOLDEN / "block.jsonl", run / "events.jsonl")
    assert completed(project, "show", "duel", "") == ["draft@p", "check@p", "draft@q", "check@q", "merge"]


def test_open_requests_are_completed(project: Path) -> None:
    run = project / ".claude/pipeline-runs/asks"
    run.mkdir()
    log = (GOLDEN / "asked.jsonl").read_text()
    (run / "events.jsonl").write_text(log[: log.rindex("\n", 0, log.index('"request_answered"')) + 1])
    (opened,) = completed(project, "answer", "--request", "")
    assert completed(project, "answer", opened[:3]) == [opened]
    assert completed(project, "inbox", "show", opened[:3]) == [opened]
    assert completed(project, "status", opened[:3]) == []


def test_every_session_is_completed(project: Path) -> None:
    """Whichever command takes one."""
    for name in COMMANDS:
        command = app.get_command(app.make_context("agentforge", [], resilient_parsing=True), name)
        assert command
        if any(parameter.name == "session" for parameter in command.params[:1]):
            assert "auth" in completed(project, name, ""), name


def test_names_that_mean_something_to_a_shell_are_not_offered(project: Path) -> None:
    offered = {*completed(project, ""), *completed(project, "run", "-p", ""), *completed(project, "loop", "")}
    assert not any(set(name) & set("$`;*\n ()") or name.startswith("-") for name in offered - {"<file>"})


@pytest.mark.parametrize("word", ["", "status", "run"])
def test_a_folder_that_is_missing_is_silent(
    word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PROJECT_ROOT", str(tmp_path / "missing"))
    monkeypatch.setenv("_AGENTFORGE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"agentforge {word} x")
    monkeypatch.setenv("COMP_CWORD", "2")
    with suppress(SystemExit):
        call([])
    shown = capfd.readouterr()
    assert (shown.out.strip(), shown.err) == ("", "")


def test_a_request_that_makes_no_sense_is_silent(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("_AGENTFORGE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "agentforge 'x")
    monkeypatch.setenv("COMP_CWORD", "many")
    assert call([]) == 0
    assert capfd.readouterr() == ("", "")


# -- real shells


def program(folder: Path) -> str:
    """A PATH on which `agentforge` is this program."""
    path = folder / "bin/agentforge"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nPYTHONPATH={SOURCE} exec {sys.executable} -m agentforge "$@"\n')
    path.chmod(0o755)
    return f"{path.parent}:{os.environ['PATH']}"


SCRIPTS = {
    "bash": (
        ("bash", "--norc", "-c"),
        'eval "$(agentforge completion bash)"; COMP_WORDS=(agentforge status bi); COMP_CWORD=2;'
        ' _agentforge_completion agentforge; echo "${COMPREPLY[@]}"',
        "billing\n",
    ),
    "zsh": (
        ("zsh", "-f", "-c"),
        'autoload -U compinit && compinit -D; eval "$(agentforge completion zsh)"; '
        "echo ${_comps[agentforge]}",
        "_agentforge_completion\n",
    ),
    "fish": (
        ("fish", "--no-config", "-c"),
        'agentforge completion fish | source; complete -C "agentforge status bi"',
        "billing\n",
    ),
}


@pytest.mark.parametrize("shell", SCRIPTS)
def test_a_real_shell_completes(shell: str, project: Path, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"program: {shell} isn't installed")
    line, script, expected = SCRIPTS[shell]
    done = subprocess.run(
        [*line, script],
        cwd=project,
        env={"PATH": program(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout, done.stderr) == (expected, "")
