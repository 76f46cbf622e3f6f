"""Lock files: who drives a session, what dead owners leave, and what --force does about living ones."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.surface.terminal import WRITE_RESULT, Project, wait_for

from agentforge.system.folders import draft_name

DEAD = 4_190_001
"""Beyond every pid that a system hands out by default."""

FAKE_BD = """#!/bin/sh
echo "$*" >> bd-calls
case "$*" in
  "list "*) echo '[{"id": "b-1", "title": "x"}, {"id": "b-2"}]' ;;
  "ready "*) ;;
esac
"""


def leave_lock(project: Project, session: str, pid: int = DEAD) -> Path:
    path = project.lock(session)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"session": session, "pid": pid, "started_at": "2026-01-15T12:00:00Z"}))
    return path


def with_bd(project: Project) -> dict[str, str]:
    tools = project.home / "tools"
    tools.mkdir()
    (tools / "bd").write_text(FAKE_BD)
    (tools / "bd").chmod(0o755)
    return {"PATH": f"{tools}:{os.environ['PATH']}"}


def bd_calls(project: Project) -> list[str]:
    path = project.root / "bd-calls"
    return path.read_text().splitlines() if path.exists() else []


def test_lock_names_the_session_its_pid_and_start_time(project: Project) -> None:
    file = project.pipeline("plan=cp .claude/locks/auth.lock seen; " + WRITE_RESULT)
    with project.started("run", "-p", file, "-s", "auth") as run:
        assert run.end().code == 0
        seen: Any = json.loads((project.root / "seen").read_text())
        assert (seen["session"], seen["pid"]) == ("auth", run.process.pid)
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d.*Z", seen["started_at"])
    assert not project.lock("auth").exists()


def test_lock_is_released_on_failure(project: Project) -> None:
    file = project.pipeline("plan=exit 3", extra="    retry: {max_attempts: 1}\n")
    assert project.call("run", "-p", file, "-s", "auth").code == 1
    assert not project.lock("auth").exists()


def test_stale_lock_of_any_session_is_removed_at_start(project: Project) -> None:
    stale, own = leave_lock(project, "dead1"), leave_lock(project, "auth")
    file = project.pipeline(f"plan={WRITE_RESULT}")
    done = project.call("run", "-p", file, "-s", "auth", "--log-level", "info")
    assert done.code == 0
    assert not stale.exists()
    assert not own.exists()
    assert f"Removing stale lock: dead1 (PID {DEAD})" in done.logged()
    assert f"Removing stale lock: auth (PID {DEAD})" in done.logged()


def test_lock_of_a_living_process_is_left_alone(project: Project) -> None:
    other = leave_lock(project, "other", os.getpid())
    assert project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", "auth").code == 0
    assert other.exists()


def test_unreadable_lock_files_do_no_harm(project: Project) -> None:
    leave_lock(project, "x").write_text("{")
    leave_lock(project, "a b")
    assert project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", "auth").code == 0


def test_stale_lock_releases_the_orphaned_beads_of_its_session(project: Project) -> None:
    env = with_bd(project)
    leave_lock(project, "dead1")
    file = project.pipeline(f"plan={WRITE_RESULT}")
    done = project.call("run", "-p", file, "-s", "auth", "--log-level", "info", env=env)
    assert done.code == 0
    assert "Releasing orphaned beads for session 'dead1'" in done.logged()
    assert bd_calls(project) == [
        "list --label=pipeline/dead1 --status=in_progress --json",
        "update b-1 --status=open",
        "update b-2 --status=open",
    ]


def test_beads_are_kept_while_the_agent_of_a_dead_engine_is_running(project: Project) -> None:
    """It is reattached to and finishes what it took; when it died too, its beads are given back."""
    env = with_bd(project)
    file = project.pipeline(f"plan=echo $$ > up; while [ ! -e go ]; do sleep 0.02; done; {WRITE_RESULT}")
    with project.started("run", "-p", file, "-s", "auth") as run:
        wait_for((project.root / "up").exists, "the agent")
        run.signal(signal.SIGKILL)
        run.end()
    other = project.pipeline(f"plan={WRITE_RESULT}", name="o.yaml")
    assert project.call("run", "-p", other, "-s", "other", env=env).code == 0
    assert not project.lock("auth").exists()
    assert bd_calls(project) == []
    project.end_agents()
    wait_for(lambda: not _lives(project), "the agent's end")
    (project.root / "go").touch()
    assert project.call("recover", "auth", env=env).code == 0
    assert bd_calls(project)[0] == "list --label=pipeline/auth --status=in_progress --json"


def _lives(project: Project) -> bool:
    pid = int((project.root / "up").read_text())
    return Path(f"/proc/{pid}/stat").exists()


def test_lock_contention_names_the_pid_and_force(project: Project) -> None:
    file = project.pipeline("plan=touch up; sleep 60")
    with project.started("run", "-p", file, "-s", "auth") as run:
        wait_for((project.root / "up").exists, "the agent")
        done = project.call("pipeline", file, "auth", "--foreground")
        assert done.code == 1
        assert f"Error: Session 'auth' is already running (PID {run.process.pid})" in done.err
        assert "--force" in done.err
        project.call("cancel", "auth")
        run.end()


LOCKED = """
import fcntl, sys
file = open(sys.argv[1], "r+")
fcntl.flock(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_lock_held_by_the_bash_engine_is_respected_and_force_overrides(project: Project) -> None:
    """The shell engine locks the lock file; an unlocked file with a live PID is ignored."""
    file = project.pipeline(f"plan={WRITE_RESULT}")
    path = leave_lock(project, "auth", os.getpid())
    holder = subprocess.Popen(
        [sys.executable, "-c", LOCKED, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        done = project.call("run", "-p", file, "-s", "auth")
        assert done.code == 1
        assert f"Session 'auth' is already running (PID {os.getpid()})" in done.err
        forced = project.call("run", "-p", file, "-s", "auth", "--force")
        assert forced.code == 0
        assert f"Overriding existing lock for session 'auth' (PID {os.getpid()})" in forced.logged()
    finally:
        holder.communicate()
    leave_lock(project, "free", os.getpid())
    with project.lock("free").open() as unlocked:
        fcntl.flock(unlocked, fcntl.LOCK_UN)
    assert project.call("run", "-p", file, "-s", "free").code == 0


def test_lock_that_its_owner_died_writing_is_tidied_up(project: Project) -> None:
    file = project.pipeline(f"plan={WRITE_RESULT}")
    assert project.call("run", "-p", file, "-s", "auth").code == 0
    draft = project.lock("auth").with_name(draft_name("auth.lock"))
    draft.write_text("{")
    assert project.call("recover").code == 0
    assert not draft.exists()
    assert not project.lock("auth").exists()


def test_warning_at_the_start_names_the_session_that_works_in_the_same_folder(project: Project) -> None:
    waiting = f"touch up; while [ ! -e go ]; do sleep 0.02; done; {WRITE_RESULT}"
    with project.started("run", "-p", project.pipeline(f"plan={waiting}"), "-s", "first") as first:
        wait_for((project.root / "up").exists, "the agent")
        file = project.pipeline(f"plan={WRITE_RESULT}", name="q.yaml")
        second = project.call("run", "-p", file, "-s", "second")
        assert second.code == 0
        (warning,) = second.logged()
        assert warning == (
            f"Session 'first' is running in the same folder (PID {first.process.pid}): "
            "the agents of both sessions can change the same files"
        )
        (project.root / "go").touch()
        assert first.end().code == 0
    assert project.call("run", "-p", file, "-s", "third").logged() == []


@pytest.mark.parametrize(
    "arguments", [("status", "auth"), ("list",), ("tail", "auth", "--no-follow"), ("top", "--once")]
)
def test_commands_that_show_a_run_repair_what_a_dead_engine_left(
    project: Project, arguments: tuple[str, ...]
) -> None:
    assert project.call("run", "-p", project.pipeline(f"plan={WRITE_RESULT}"), "-s", "auth").code == 0
    (project.run_dir("auth") / "state.json").unlink()
    lock = project.lock("auth")
    lock.write_text("{")
    assert project.call(*arguments).code == 0
    assert project.state("auth")["status"] == "completed"
    assert not lock.exists()
