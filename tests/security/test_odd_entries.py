"""What is in the folder of the runs and isn't a run is skipped and reported: it breaks no command."""

import os
from pathlib import Path

import pytest
from tests.surface.terminal import WRITE_RESULT, Project

COMMANDS = {"list": ("list",), "status": ("status",), "recover": ("recover",), "tail": ("tail",)}


def completed(project: Project, session: str = "mine") -> None:
    done = project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", session)
    assert done.code == 0, done.err


def folder_with_log(path: Path) -> None:
    path.mkdir(parents=True)
    (path / "events.jsonl").write_text("{}\n")


def odd_entries(project: Project) -> None:
    runs = project.run_dir("x").parent
    folder_with_log(runs / "a b")
    folder_with_log(runs / "esc\x1b]0;title\x07")
    folder_with_log(project.root / "elsewhere")
    (runs / "linked").symlink_to(project.root / "elsewhere")
    (runs / "notes.txt").write_text("a file")
    (runs / ".hidden").write_text("a file of some tool")
    os.mkfifo(runs / "pipe")
    (runs / "waits").mkdir()
    os.mkfifo(runs / "waits" / "events.jsonl")
    (runs / "reads").mkdir()
    (runs / "reads" / "events.jsonl").symlink_to("/dev/zero")


@pytest.mark.parametrize("command", COMMANDS)
def test_odd_entries_break_no_command_and_are_reported_once(project: Project, command: str) -> None:
    completed(project)
    odd_entries(project)
    done = project.call(*COMMANDS[command])
    assert done.code == 0, done.err
    assert done.err.count("Skipped in .claude/pipeline-runs") == 1
    assert "'a b' (its name is not a session name)" in done.err
    assert "\x1b]" not in done.err
    assert ".hidden" not in done.err
    if command != "recover":
        assert "mine" in done.out or "session_complete" in done.out


def test_odd_entries_are_named_with_their_reason(project: Project) -> None:
    completed(project)
    runs = project.run_dir("x").parent
    (runs / "linked").symlink_to(project.root)
    os.mkfifo(runs / "pipe")
    (runs / "reads").mkdir()
    (runs / "reads" / "events.jsonl").symlink_to("/dev/zero")
    err = project.call("list").err
    assert "'linked' (it is a link)" in err
    assert "'pipe' (it is not a folder)" in err
    assert "'reads' (its events.jsonl is a link)" in err


@pytest.mark.parametrize("command", [("status",), ("resume",), ("log", "verify"), ("cancel",)])
def test_session_that_is_a_link_is_not_followed(project: Project, command: tuple[str, ...]) -> None:
    completed(project)
    os.rename(project.run_dir("mine"), project.root / "moved")
    project.run_dir("mine").symlink_to(project.root / "moved")
    before = sorted(path.name for path in (project.root / "moved").rglob("*"))
    done = project.call(*command, "mine")
    assert done.code == 2
    assert "is not a run: it is a link" in done.err
    assert sorted(path.name for path in (project.root / "moved").rglob("*")) == before


@pytest.mark.parametrize("options", [(), ("--force",)])
def test_new_run_is_not_written_through_a_link(project: Project, options: tuple[str, ...]) -> None:
    outside = project.home / "precious"
    outside.mkdir()
    project.run_dir("x").parent.mkdir(parents=True)
    project.run_dir("new").symlink_to(outside)
    done = project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", "new", *options)
    assert done.code == 2
    assert "is not a run: it is a link" in done.err
    assert not list(outside.iterdir())


def test_archived_run_of_a_long_name_is_listed(project: Project) -> None:
    name = "x" * 64
    completed(project, name)
    file = project.pipeline(f"plan={WRITE_RESULT}")
    assert project.call("run", "-p", file, "-s", name, "--force").code == 0
    done = project.call("list", "--json")
    assert done.code == 0, done.err
    assert [row["session"][:64] for row in done.json] == [name, name]
