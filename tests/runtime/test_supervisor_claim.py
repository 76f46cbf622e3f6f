"""The claim and the lease: which process owns an attempt, and when it is orphaned."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge.runtime.supervisor import Lease

from .attempt_run import (
    SUPERVISOR,
    AttemptRun,
    ManualClock,
    eventually,
    no_leftover_processes,
    stat,
    supervise_with,
)


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[AttemptRun]:
    with no_leftover_processes():
        (tmp_path / "attempt").mkdir()
        run = AttemptRun(tmp_path / "attempt")
        yield run
        run.close()


def test_claim_identifies_the_supervisor(attempt: AttemptRun) -> None:
    supervisor = attempt.start("sleep", "60")
    attempt.agent_pid()
    assert json.loads(attempt.claim.read_text()) == {
        "pid": supervisor.pid,
        "start_time": stat(supervisor.pid)[19],
        "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        "host": os.uname().nodename,
        "mark": attempt.mark,
        "place": {
            "path": str(attempt.folder),
            "device": attempt.folder.stat().st_dev,
            "inode": attempt.folder.stat().st_ino,
        },
    }


def test_claim_exists_before_the_agent_runs(attempt: AttemptRun) -> None:
    attempt.run("cat", "claim")
    assert attempt.output.read_bytes() == attempt.claim.read_bytes() != b""


def test_of_several_supervisors_one_runs_the_agent(attempt: AttemptRun) -> None:
    for _ in range(5):
        attempt.start("sh", "-c", "echo ran >> runs; sleep 0.3")
    attempt.outcome()
    codes = sorted(supervisor.wait(60) for supervisor in attempt.supervisors)
    assert codes == [0, 3, 3, 3, 3]
    assert (attempt.folder / "runs").read_text() == "ran\n"


def test_late_supervisor_leaves_without_a_trace(attempt: AttemptRun) -> None:
    """Recovery claimed the attempt because none had started."""
    attempt.claim.write_text("recovered")
    before = sorted(attempt.folder.iterdir())
    supervisor = attempt.start("touch", "ran")
    assert supervisor.wait(60) == 3
    assert sorted(attempt.folder.iterdir()) == before
    assert attempt.claim.read_text() == "recovered"


def test_agent_is_orphaned_when_no_engine_holds_the_lease(attempt: AttemptRun) -> None:
    record = attempt.run("sleep", "60", orphan_grace=0.4)
    assert (record["status"], record["signal"]) == ("orphaned", 15)
    assert record["duration_ms"] >= 400


def test_agent_is_orphaned_when_the_log_is_missing(attempt: AttemptRun) -> None:
    attempt.lease.unlink()
    assert attempt.run("sleep", "60", orphan_grace=0.2)["status"] == "orphaned"


def test_held_lease_keeps_the_agent_and_its_loss_ends_it(attempt: AttemptRun) -> None:
    with attempt.lease.open("a") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        attempt.start("sh", "-c", "while :; do echo; sleep 0.1; done", orphan_grace=0.3)
        # Between two lines the supervisor looks at the lease: its period is a quarter of the grace.
        eventually(lambda: attempt.agent.exists() and len(attempt.output.read_bytes()) >= 10)
        assert not attempt.exit.exists()
    assert attempt.outcome()["status"] == "orphaned"


def test_engine_that_returns_within_the_grace_keeps_the_agent(attempt: AttemptRun) -> None:
    clock = ManualClock(attempt.folder / "clock")

    def pass_time(tenths: int) -> None:
        """Until the supervisor, which reads a line in each of its rounds, has noticed."""
        clock.advance(tenths)
        known = attempt.output.stat().st_size
        eventually(lambda: attempt.output.stat().st_size > known + 3 or attempt.exit.exists())

    lines = "while [ ! -e go ]; do echo; sleep 0.05; done; exit 6"
    with attempt.lease.open("a") as log:
        fcntl.flock(log, fcntl.LOCK_EX)  # However long it takes to start.
        attempt.start("sh", "-c", lines, program=clock.program, orphan_grace=2.5)
        eventually(attempt.output.exists)
    pass_time(8)  # So long it is unattended, which counts towards the grace.
    with attempt.lease.open("a") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        for _ in range(4):
            pass_time(8)
        (attempt.folder / "go").touch()
        assert attempt.outcome()["exit_code"] == 6


def test_held_lease_resets_the_orphan_grace(attempt: AttemptRun) -> None:
    began = 100.0
    lease = Lease(str(attempt.lease), grace=4.0, now=began)
    assert not any(lease.abandoned(began + second) for second in (1, 2, 3))
    with attempt.lease.open("a") as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        assert not lease.abandoned(began + 4)
    assert not any(lease.abandoned(began + second) for second in (5, 6, 7))
    assert lease.abandoned(began + 8)


def test_agent_outlives_the_engine_that_started_it(attempt: AttemptRun) -> None:
    spec = attempt.spec(
        "sh", "-c", "echo $$ > up; while [ ! -e go ]; do sleep 0.02; done; echo finished; exit 8"
    )
    engine = f"""
import os, socket, subprocess, sys
ours, theirs = socket.socketpair()
argv = [sys.executable, "-I", "-S", {str(SUPERVISOR)!r}, {str(attempt.folder)!r}]
subprocess.Popen(argv, cwd={str(attempt.folder)!r}, env={{}}, stdin=theirs, start_new_session=True)
theirs.close()
ours.recv(1)
ours.sendall({spec!r})
ours.close()
while not os.path.exists({str(attempt.agent)!r}): pass
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", engine], check=False, timeout=60).returncode == -9
    assert not attempt.exit.exists()
    (attempt.folder / "go").touch()
    record = attempt.outcome()
    assert (record["status"], record["exit_code"]) == ("exited", 8)
    assert attempt.output.read_text() == "finished\n"


@pytest.mark.parametrize("sent", [0, 1, 0.5, -1])
def test_an_engine_that_dies_during_the_handover_starts_nothing(attempt: AttemptRun, sent: float) -> None:
    """`sent`: bytes of the specification, or its half, or all but the last."""
    spec = attempt.spec("touch", "ran")
    supervisor, connection = attempt.spawn()
    with connection:
        connection.recv(1)
        connection.sendall(spec[: len(spec) // 2 if sent == 0.5 else int(sent)])
    assert supervisor.wait(60) == 4
    assert not attempt.claim.exists()
    assert not (attempt.folder / "ran").exists()


def test_an_engine_that_dies_before_the_supervisor_is_ready_starts_nothing(attempt: AttemptRun) -> None:
    supervisor, connection = attempt.spawn()
    connection.close()
    assert supervisor.wait(60) == 4
    assert not attempt.claim.exists()


def test_an_engine_that_dies_after_the_handover_has_started_the_agent(attempt: AttemptRun) -> None:
    attempt.start("touch", "ran")
    assert attempt.outcome()["exit_code"] == 0
    assert (attempt.folder / "ran").exists()


def test_a_supervisor_in_another_folder_than_it_is_meant_for_claims_nothing(attempt: AttemptRun) -> None:
    other = {"path": str(attempt.folder), "device": attempt.folder.stat().st_dev, "inode": 1}
    assert attempt.start("touch", "ran", place=other).wait(60) == 3
    assert not attempt.claim.exists()


def test_records_are_written_to_the_folder_wherever_it_is_moved(attempt: AttemptRun) -> None:
    home = attempt.folder.parent
    script = "while [ ! -e go ]; do sleep 0.02; done; echo finished; exit 8"
    attempt.start("sh", "-c", script, cwd=str(home))
    attempt.agent_pid()
    moved = attempt.folder.rename(home / "moved")
    attempt.folder.mkdir()
    (home / "go").touch()
    eventually((moved / "exit.json").exists)
    assert json.loads((moved / "exit.json").read_text())["exit_code"] == 8
    assert (moved / "output.log").read_text() == "finished\n"
    assert list(attempt.folder.iterdir()) == []


def test_the_exit_record_survives_a_folder_that_is_deleted_and_restored(attempt: AttemptRun) -> None:
    """As `git stash --include-untracked` and `git stash pop` do it."""
    home = attempt.folder.parent
    script = "while [ ! -e go ]; do sleep 0.02; done; exit 8"
    attempt.start("sh", "-c", script, cwd=str(home))
    attempt.agent_pid()
    shutil.copytree(attempt.folder, home / "kept")
    shutil.rmtree(attempt.folder)
    (home / "kept").rename(attempt.folder)
    (home / "go").touch()
    assert attempt.outcome()["exit_code"] == 8


def test_the_exit_record_is_not_written_to_the_folder_of_another_attempt(attempt: AttemptRun) -> None:
    home = attempt.folder.parent
    supervisor = attempt.start(
        *("sh", "-c", "while [ ! -e go ]; do sleep 0.02; done"),
        cwd=str(home),
        orphan_grace=900,
        program=supervise_with(RECORD_TRIES=2),
    )
    attempt.agent_pid()
    shutil.rmtree(attempt.folder)
    attempt.folder.mkdir()
    attempt.claim.write_text("another")
    (home / "go").touch()
    assert supervisor.wait(60) == 1
    assert list(attempt.folder.iterdir()) == [attempt.claim]


def test_request_to_end_before_the_agent_starts_is_honoured(attempt: AttemptRun) -> None:
    supervisor, connection = attempt.spawn()
    with connection:
        connection.recv(1)
        supervisor.terminate()
        connection.sendall(attempt.spec("touch", "ran"))
    record = attempt.outcome()
    assert (record["status"], record["exit_code"]) == ("ended", None)
    assert not (attempt.folder / "ran").exists()


def test_nothing_of_the_engine_reaches_the_supervisors_environment(attempt: AttemptRun) -> None:
    supervisor = attempt.start("sleep", "60", env={**os.environ, "MY_API_KEY": "sk-0123456789"})
    attempt.agent_pid()
    assert Path(f"/proc/{supervisor.pid}/environ").read_bytes() == b""
    assert b"sk-0123456789" not in Path(f"/proc/{supervisor.pid}/cmdline").read_bytes()
