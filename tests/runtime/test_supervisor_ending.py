"""How an attempt ends: by its limits, on request, and always with everything that it started."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from .attempt_run import AttemptRun, ManualClock, eventually, lives, no_leftover_processes, python, stat

DAEMON = """
import os, signal, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
for fd in range(3): os.close(fd)
if os.environ:
    os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", '''
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("daemon", "w").write(f"{os.getpid()}\\\\n")
time.sleep(60)
'''], {})
"""
"""Forks twice, in a new session, with nothing in its environment, deaf to TERM."""

COMET = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("comet", "w").write(f"{os.getpid()}\\n")
end = time.monotonic() + 12
while time.monotonic() < end:
    if os.fork(): os._exit(0)
    os.setsid()
"""
"""Never the same process for longer than a blink."""

TREE = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for depth in range(6):
    if not os.fork():
        os.setpgid(0, 0)
os.write(os.open("up", os.O_WRONLY | os.O_APPEND | os.O_CREAT), b".")
time.sleep(60)
"""


def read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


@pytest.fixture
def attempt(tmp_path: Path) -> Iterator[AttemptRun]:
    with no_leftover_processes():
        run = AttemptRun(tmp_path)
        yield run
        run.close()


def test_timeout_ends_the_agent(attempt: AttemptRun) -> None:
    record = attempt.run("sleep", "600", timeout=0.3)
    assert (record["status"], record["exit_code"], record["signal"]) == ("timeout", None, 15)
    assert record["duration_ms"] >= 300
    assert record["killed"] == 1


def test_agent_that_ends_itself_on_term_keeps_its_exit_code(attempt: AttemptRun) -> None:
    clock = ManualClock(attempt.folder / "clock")
    script = "trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"
    attempt.start("sh", "-c", script, program=clock.program, timeout=0.3)
    eventually(lambda: attempt.has_printed("up\n"))
    clock.advance(3)
    record = attempt.outcome()
    assert (record["status"], record["exit_code"], record["signal"]) == ("timeout", 7, None)
    assert attempt.output.read_text().endswith("bye\n")


@pytest.mark.parametrize(
    ("is_shutdown", "signal_or_exit", "status"),
    [
        (True, "kill -TERM $$", "ended"),
        (True, "exit 3", "ended"),
        (True, "exit 0", "exited"),
        (False, "kill -TERM $$", "signaled"),
        (False, "exit 3", "exited"),
    ],
)
def test_agent_that_dies_before_the_supervisor_hears_of_a_shutdown(
    attempt: AttemptRun, is_shutdown: bool, signal_or_exit: str, status: str
) -> None:
    """At a shutdown both get the signal; what the agent does then isn't its own failure."""
    wait = f"echo up; while [ ! -e go ]; do sleep 0.02; done; {signal_or_exit}"
    supervisor = attempt.start("sh", "-c", wait)
    eventually(lambda: attempt.has_printed("up\n"))
    agent = attempt.agent_pid()
    supervisor.send_signal(signal.SIGSTOP)
    eventually(lambda: stat(supervisor.pid)[0] == "T")
    (attempt.folder / "go").touch()
    eventually(lambda: stat(agent)[0] == "Z")
    if is_shutdown:
        supervisor.terminate()
    supervisor.send_signal(signal.SIGCONT)
    assert attempt.outcome()["status"] == status


def test_agent_that_ignores_term_is_killed_after_the_grace(attempt: AttemptRun) -> None:
    clock = ManualClock(attempt.folder / "clock")
    script = "trap 'echo heard' TERM; echo up; while :; do sleep 0.05; done"
    attempt.start("sh", "-c", script, program=clock.program, timeout=0.3, term_grace=0.4)
    eventually(lambda: attempt.has_printed("up\n"))
    clock.advance(3)
    eventually(lambda: attempt.has_printed("heard\n"))
    assert not attempt.exit.exists()
    clock.advance(4)
    record = attempt.outcome()
    assert (record["status"], record["signal"]) == ("timeout", 9)
    assert record["duration_ms"] == 700


def test_idle_limit_ends_a_silent_agent(attempt: AttemptRun) -> None:
    clock = ManualClock(attempt.folder / "clock")
    lines = "for i in 1 2 3; do while [ ! -e go-$i ]; do sleep 0.02; done; echo $i; done; sleep 600"
    attempt.start("sh", "-c", lines, program=clock.program, idle_timeout=0.5)
    attempt.agent_pid()
    for number in range(1, 4):
        clock.advance(4)
        (attempt.folder / f"go-{number}").touch()
        eventually(lambda said=f"{number}\n": attempt.exit.exists() or attempt.has_printed(said))
    clock.advance(6)
    record = attempt.outcome()
    assert record["status"] == "idle"
    assert record["duration_ms"] == 1800  # Each line restarted the wait.
    assert attempt.output.read_text().split() == ["1", "2", "3"]


def test_steady_output_keeps_an_agent_from_being_idle(attempt: AttemptRun) -> None:
    clock = ManualClock(attempt.folder / "clock")
    lines = "for i in 1 2 3 4 5 6; do while [ ! -e go-$i ]; do sleep 0.02; done; echo $i; done"
    attempt.start("sh", "-c", lines, program=clock.program, idle_timeout=1.5)
    attempt.agent_pid()
    for number in range(1, 7):
        clock.advance(8)
        (attempt.folder / f"go-{number}").touch()
        eventually(lambda said=f"{number}\n": said in attempt.output.read_text() or attempt.exit.exists())
    record = attempt.outcome()
    assert (record["status"], record["exit_code"]) == ("exited", 0)
    assert record["duration_ms"] == 4800


@pytest.mark.parametrize("limit", ["timeout", "idle_timeout", "orphan_grace"])
def test_time_in_which_the_attempt_was_stopped_counts_towards_no_limit(
    attempt: AttemptRun, limit: str
) -> None:
    """Also if its limit would have been reached in that time."""
    clock = ManualClock(attempt.folder / "clock", STOPPED_SECONDS=1)
    silent = "echo up; while [ ! -e go ]; do sleep 0.02; done"
    supervisor = attempt.start("sh", "-c", silent, program=clock.program, **{limit: 1.5})
    agent = attempt.agent_pid()
    eventually(lambda: attempt.output.read_text() and stat(supervisor.pid)[0] == "S")
    clock.advance(5)
    eventually(lambda: stat(supervisor.pid)[0] == "S")
    for pid in (supervisor.pid, agent):
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda pid=pid: stat(pid)[0] == "T")
    clock.advance(100)
    # That its agent was stopped wakes the supervisor: it sees how late it is, then waits again.
    supervisor.send_signal(signal.SIGCONT)
    eventually(lambda: not lives(supervisor.pid) or stat(supervisor.pid)[0] == "S")
    os.kill(agent, signal.SIGCONT)
    (attempt.folder / "go").touch()
    record = attempt.outcome()
    assert (record["status"], record["exit_code"]) == ("exited", 0)
    assert record["duration_ms"] <= 500


def test_grace_is_the_agents_own_time(attempt: AttemptRun) -> None:
    clock = ManualClock(attempt.folder / "clock", STOPPED_SECONDS=1)
    stops = "echo heard; while [ ! -e go ]; do sleep 0.02; done; exit 7"
    script = f"trap '{stops}' TERM; echo up; while :; do sleep 0.05; done"
    supervisor = attempt.start("sh", "-c", script, program=clock.program, term_grace=0.8)
    agent = attempt.agent_pid()
    eventually(lambda: attempt.has_printed("up\n"))
    supervisor.terminate()
    eventually(lambda: attempt.has_printed("heard\n"))
    for pid in (supervisor.pid, agent):
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda pid=pid: stat(pid)[0] == "T")
    clock.advance(100)
    supervisor.send_signal(signal.SIGCONT)
    eventually(lambda: not lives(supervisor.pid) or stat(supervisor.pid)[0] == "S")
    os.kill(agent, signal.SIGCONT)
    (attempt.folder / "go").touch()
    record = attempt.outcome()
    assert (record["status"], record["exit_code"], record["signal"]) == ("ended", 7, None)


def test_term_to_the_supervisor_ends_everything(attempt: AttemptRun) -> None:
    """Also a tool in a session of its own."""
    supervisor = attempt.start("sh", "-c", "setsid sh -c 'echo $$ > tool; exec sleep 60' & sleep 60")
    tool = attempt.number_in("tool")
    supervisor.terminate()
    record = attempt.outcome()
    assert (record["status"], record["signal"]) == ("ended", 15)
    assert not lives(tool)
    assert supervisor.wait(60) == 0


def test_second_term_cuts_the_grace_short(attempt: AttemptRun) -> None:
    supervisor = attempt.start(
        "sh", "-c", "trap 'touch heard' TERM; echo $$ > up; while :; do sleep 0.1; done", term_grace=300
    )
    attempt.number_in("up")
    supervisor.terminate()
    eventually((attempt.folder / "heard").exists)
    assert not attempt.exit.exists()
    supervisor.terminate()
    assert attempt.outcome()["status"] == "ended"


def test_hangup_and_interrupt_do_not_touch_the_supervisor(attempt: AttemptRun) -> None:
    supervisor = attempt.start("sh", "-c", "while [ ! -e go ]; do sleep 0.02; done; exit 3")
    attempt.agent_pid()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        supervisor.send_signal(number)
    (attempt.folder / "go").touch()
    assert attempt.outcome()["exit_code"] == 3


def test_stopped_agent_hears_the_term(attempt: AttemptRun) -> None:
    clock = ManualClock(attempt.folder / "clock")
    script = "trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done"
    attempt.start("sh", "-c", script, program=clock.program, timeout=0.3)
    agent = attempt.agent_pid()
    eventually(lambda: attempt.has_printed("up\n"))
    os.kill(agent, signal.SIGSTOP)
    eventually(lambda: stat(agent)[0] == "T")
    clock.advance(3)
    record = attempt.outcome()
    assert (record["status"], record["exit_code"]) == ("timeout", 9)


def test_grandchild_holding_the_pipe_open_does_not_hold_up_the_outcome(attempt: AttemptRun) -> None:
    record = attempt.shell("sleep 600 & echo $! > tool; echo done; exit 0")
    assert (record["status"], record["exit_code"], record["killed"]) == ("exited", 0, 1)
    assert attempt.output.read_text() == "done\n"
    assert not lives(attempt.number_in("tool"))


def test_daemon_in_a_new_session_with_scrubbed_environment_is_ended(attempt: AttemptRun) -> None:
    (attempt.folder / "daemon.py").write_text(DAEMON)
    script = f"{' '.join(python('')[:3])} daemon.py; while ! test -s daemon; do sleep 0.02; done; exit 4"
    record = attempt.shell(script, term_grace=0.3)
    daemon = attempt.number_in("daemon")
    assert (record["status"], record["exit_code"]) == ("exited", 4)
    assert record["killed"] >= 1
    assert not lives(daemon)


def test_agent_that_daemonises_itself_is_ended(attempt: AttemptRun) -> None:
    (attempt.folder / "daemon.py").write_text(DAEMON)
    record = attempt.run(*python("")[:3], "daemon.py", term_grace=0.3)
    assert (record["status"], record["exit_code"]) == ("exited", 0)


def test_process_that_forks_and_exits_all_the_time_is_caught(attempt: AttemptRun) -> None:
    supervisor = attempt.start(*python(COMET), term_grace=0.2)
    attempt.number_in("comet")
    record = attempt.outcome()
    assert record["status"] == "exited"
    assert record["error"] is None
    assert supervisor.wait(60) == 0


def test_wide_tree_of_deaf_processes_is_ended(attempt: AttemptRun) -> None:
    supervisor = attempt.start(*python(TREE), term_grace=0.2)
    eventually(lambda: attempt.agent.exists() and len(read(attempt.folder / "up")) == 64)
    supervisor.terminate()
    record = attempt.outcome()
    assert (record["status"], record["signal"], record["killed"]) == ("ended", 9, 64)


def test_exit_record_comes_last(attempt: AttemptRun) -> None:
    """When it exists, it is complete, no process is left, and the output is complete."""
    deaf = "import os, signal, time; signal.signal(15, signal.SIG_IGN); print(os.getpid(), flush=True)"
    deaf += "; open('deaf', 'w').close(); time.sleep(60)"
    (attempt.folder / "deaf.py").write_text(deaf)
    waits = "while [ ! -e deaf ]; do sleep 0.02; done"
    attempt.start("sh", "-c", f"setsid {' '.join(python('')[:3])} deaf.py & {waits}; echo end; exit 0")
    while not attempt.exit.exists():
        pass
    record = attempt.outcome()
    tool, end = attempt.output.read_text().split()
    assert end == "end"
    assert not lives(int(tool))
    assert record["output_bytes"] == attempt.output.stat().st_size
    assert sorted(path.name for path in attempt.folder.iterdir() if path.suffix == ".draft") == []


def test_killed_supervisor_takes_the_agent_with_it(attempt: AttemptRun) -> None:
    supervisor = attempt.start("sleep", "60")
    agent = attempt.agent_pid()
    supervisor.kill()
    supervisor.wait(60)
    eventually(lambda: not lives(agent))
    assert not attempt.exit.exists()
    assert attempt.claim.exists()


def test_supervisor_is_a_session_leader_apart_from_its_agent(attempt: AttemptRun) -> None:
    supervisor = attempt.start("sleep", "60")
    agent = attempt.agent_pid()
    assert stat(supervisor.pid)[3] == str(supervisor.pid)
    assert stat(agent)[3] == str(agent)
