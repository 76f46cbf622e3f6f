"""The cleanup program: runs after the agent however it ended, with a timeout, before the exit record."""

import asyncio
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge.runtime.supervision import run_cleanup

from .attempt_run import ENV, AttemptRun, ManualClock, eventually, lives, no_leftover_processes, waits


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[AttemptRun]:
    with no_leftover_processes():
        run = AttemptRun(tmp_path)
        yield run
        run.close()


AGENT = "sed 's/[^0-9]*\\([0-9]*\\).*/\\1/' agent.json"
"""Prints the pid of the agent."""


def note(folder: Path, script: str = "") -> list[str]:
    """A program that says that it ran, and whether the agent's `sleep` was gone by then."""
    return [
        "sh",
        "-c",
        f"cd {folder}; {script or 'true'}; kill -0 $({AGENT}) 2>/dev/null; echo $? >> after",
    ]


@pytest.mark.parametrize(
    ("script", "changes", "status"),
    [
        ("exit 0", {}, "exited"),
        ("exit 3", {}, "exited"),
        ("kill -9 $$", {}, "signaled"),
        ("sleep 30", {"timeout": 0.3}, "timeout"),
        ("sleep 30", {"idle_timeout": 0.3}, "idle"),
        ("sleep 30", {"orphan_grace": 0.3}, "orphaned"),
        ("sleep 30 & exit 0", {}, "exited"),
    ],
)
def test_it_runs_once_when_the_agent_is_gone(
    attempt: AttemptRun, script: str, changes: dict[str, float], status: str
) -> None:
    record = attempt.shell(script, cleanup=note(attempt.folder), **changes)
    assert (record["status"], record["error"]) == (status, None)
    assert (attempt.folder / "after").read_text() == "1\n"


def test_it_runs_when_the_agent_is_ended_on_request(attempt: AttemptRun) -> None:
    supervisor = attempt.start("sleep", "30", cleanup=note(attempt.folder))
    attempt.agent_pid()
    supervisor.terminate()
    assert attempt.outcome()["status"] == "ended"
    assert (attempt.folder / "after").read_text() == "1\n"


def test_it_does_not_run_for_an_agent_that_never_started(attempt: AttemptRun) -> None:
    assert attempt.run("no-such-program", cleanup=note(attempt.folder))["status"] == "spawn_failed"
    assert not (attempt.folder / "after").exists()


def test_it_is_given_up_after_its_time_and_ended_with_all_it_started(attempt: AttemptRun) -> None:
    script = "trap '' TERM; echo $$ > late; (sleep 60) & sleep 60"
    clock = ManualClock(attempt.folder / "clock", CLEANUP_SECONDS=1)
    supervisor = attempt.start("true", cleanup=note(attempt.folder, script), program=clock.program)
    late = attempt.number_in("late")
    eventually(lambda: waits(supervisor.pid))
    clock.advance(10)
    record = attempt.outcome()
    assert (record["status"], record["exit_code"]) == ("exited", 0)
    assert "timed out after 1 s" in record["error"]
    assert not lives(late)


def test_one_that_is_missing_does_not_cost_the_outcome(attempt: AttemptRun) -> None:
    record = attempt.shell("exit 4", cleanup=["no-such-program"])
    assert (record["status"], record["exit_code"]) == ("exited", 4)
    assert "can't run cleanup program no-such-program" in record["error"]


def test_it_has_the_agents_environment_and_no_input(attempt: AttemptRun) -> None:
    script = f"cd {attempt.folder}; echo $WHO > who; cat > input; echo hidden"
    attempt.shell("true", cleanup=["sh", "-c", script], env={**ENV, "WHO": "me"})
    assert (attempt.folder / "who").read_text() == "me\n"
    assert (attempt.folder / "input").read_text() == ""
    assert attempt.output.read_text() == ""


def test_a_supervisor_killed_while_it_runs_leaves_no_exit_record(attempt: AttemptRun) -> None:
    script = "echo $$ > late; exec sleep 60"
    supervisor = attempt.start("true", cleanup=note(attempt.folder, script))
    late = attempt.number_in("late")
    supervisor.kill()
    supervisor.wait()
    assert not attempt.exit.exists()
    # It carries the attempt's mark, by which an engine finds and ends it; the kernel shows none in the
    # middle of exec.
    environ = Path(f"/proc/{late}/environ")
    eventually(lambda: attempt.mark.encode() in environ.read_bytes().split(b"\0"))
    os.kill(late, signal.SIGKILL)
    eventually(lambda: not lives(late))


# -- the engine's part


def test_the_engine_runs_it_for_a_supervisor_that_died(tmp_path: Path) -> None:
    argv = ("sh", "-c", f"echo ran >> {tmp_path}/after")
    asyncio.run(run_cleanup(argv))
    asyncio.run(run_cleanup(argv))
    assert (tmp_path / "after").read_text() == "ran\nran\n"


def test_an_attempt_without_one_has_nothing_to_run(caplog: pytest.LogCaptureFixture) -> None:
    asyncio.run(run_cleanup(()))
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("no-such-program",), "can't run cleanup program no-such-program"),
        (("sleep", "60"), "timed out after 0.2 s"),
    ],
)
def test_the_engine_continues_after_a_failed_cleanup(
    caplog: pytest.LogCaptureFixture, argv: tuple[str, ...], says: str
) -> None:
    with caplog.at_level(logging.WARNING), no_leftover_processes():
        asyncio.run(run_cleanup(argv, 0.2))
    assert says in caplog.text
