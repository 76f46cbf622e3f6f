"""Agents that outlived the log of their run: they are named, and no other agent starts beside them."""

import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.surface.terminal import WRITE_RESULT, Project, is_alive, wait_for

WAITS = "while [ ! -e go ]; do sleep 0.02; done"
WORKS = f"({WAITS}) & echo $! > tool; echo $$ > up.part; mv up.part up; {WAITS}"
ALONE = f'kill -0 "$(cat up)" 2>/dev/null && echo overlap > overlap; {WRITE_RESULT}'
"""An agent that says if the first one is still running."""


def supervisor(project: Project) -> int:
    claim = next(project.root.rglob("claim")).read_text()
    found = re.search(r'"pid": ?(\d+)', claim)
    assert found
    return int(found[1])


@pytest.fixture
def orphaned(project: Project) -> Iterator[tuple[Project, int, int]]:
    """A project with a run `s` whose engine was killed while its agent works; the pids of its agent and its
    supervisor."""
    with project.started("run", "-p", project.pipeline(f"one={WORKS}"), "-s", "s") as engine:
        wait_for((project.root / "up").exists, "the agent")
        engine.process.kill()
        engine.process.wait()
    agent, owner = int((project.root / "up").read_text()), supervisor(project)
    try:
        yield project, agent, owner
    finally:
        (project.root / "go").touch()
        wait_for(lambda: not is_alive(owner), "the end of the supervisor")


def log(run: Path) -> Path:
    return run / "events.jsonl"


LOSSES: dict[str, Callable[[Path], object]] = {
    "log removed": lambda run: log(run).unlink(),
    "folder moved aside": lambda run: run.rename(run.with_name("other")),
    "folder removed": shutil.rmtree,
    "log unreadable": lambda run: log(run).write_bytes(b"not an event\n"),
    "log emptied": lambda run: log(run).write_bytes(b""),
    "first event cut": lambda run: log(run).write_bytes(log(run).read_bytes()[:100]),
    "first event lost": lambda run: log(run).write_bytes(b"{}\n" + log(run).read_bytes().partition(b"\n")[2]),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_agents_of_a_lost_log_are_named_and_ended_only_by_force(
    orphaned: tuple[Project, int, int], loss: str
) -> None:
    project, agent, owner = orphaned
    LOSSES[loss](project.run_dir("s"))
    file = project.pipeline(f"one={ALONE}")
    for command in (("status", "s"), ("recover", "s"), ("rm", "s", "--yes"), ("run", "-p", file, "-s", "s")):
        refused = project.call(*command)
        assert refused.code != 0, (command, refused)
        assert f"PID {owner}" in refused.err or f"kill {owner}" in refused.err, (command, refused)
    assert is_alive(agent)
    done = project.call("run", "-p", file, "-s", "s", "--force")
    assert done.code == 0, done.err
    assert f"Ended the agents of an earlier session 's': PID {owner}" in done.err
    assert not is_alive(agent)
    assert not (project.root / "overlap").exists()
    assert project.types("s")[-1] == "session_complete"


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if "folder" not in loss])
def test_agents_of_a_lost_log_are_named_without_a_session(
    orphaned: tuple[Project, int, int], loss: str
) -> None:
    project, _, owner = orphaned
    assert "no readable log" not in project.call("list").err
    LOSSES[loss](project.run_dir("s"))
    for command in ("recover", "status", "list"):
        assert f"Agents of session 's', which has no readable log, are still running (PID {owner})" in (
            project.call(command).err
        )


@pytest.mark.parametrize("loss", ["log emptied", ""])
def test_a_run_beside_agents_without_an_engine_names_them(
    orphaned: tuple[Project, int, int], loss: str
) -> None:
    project, _, owner = orphaned
    if loss:
        LOSSES[loss](project.run_dir("s"))
    other = project.call("run", "-p", project.pipeline(f"one={WRITE_RESULT}"), "-s", "other")
    assert other.code == 0, other.err
    assert (
        f"Agents of session 's', which no engine drives, are still running in the same folder (PID {owner})"
        in (other.err)
    )


def test_a_run_in_the_background_is_refused_before_it_starts(orphaned: tuple[Project, int, int]) -> None:
    project, _, owner = orphaned
    log(project.run_dir("s")).unlink()
    refused = project.call("pipeline", "--tmux", project.pipeline(f"one={ALONE}"), "s")
    assert (refused.code, f"PID {owner}" in refused.err) == (1, True), refused


def test_what_a_killed_supervisor_left_is_ended(orphaned: tuple[Project, int, int]) -> None:
    """As recovery does: it belongs to an attempt that is over."""
    project, agent, owner = orphaned
    tool = int((project.root / "tool").read_text())
    os.kill(owner, signal.SIGKILL)
    wait_for(lambda: not is_alive(agent), "the end of the agent")
    assert is_alive(tool)
    log(project.run_dir("s")).unlink()
    assert project.call("run", "-p", project.pipeline(f"one={ALONE}"), "-s", "s").code == 0
    assert not is_alive(tool)
