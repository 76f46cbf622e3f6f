"""Others on the scene of a crash: a stopped engine, a second one, a rebooted host, a pid given away."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from . import victims
from .case import Case, CrashRun, Cut
from .checks import violations
from .points import baseline
from .scenarios import SCENARIOS, SESSION

BEGIN = SCENARIOS["plain"].command

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]

ALL_DIE = Cut("agent", "note", 1, "after", "engine+supervisor+agent")
ENGINE_DIES = Cut("agent", "note", 1, "after", "engine")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[CrashRun]:
    run = CrashRun(tmp_path / "run", SCENARIOS["plain"])
    yield run
    victims.kill_processes(run.story.run, list(victims.ROLES), os.devnull)


def eventually(what: Callable[[], object], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it didn't happen in time"
        time.sleep(0.01)


def seen(run: CrashRun) -> Counter[str]:
    return Counter(event["type"] for event in run.story.events())


def expect_sound(run: CrashRun) -> None:
    assert violations(run.story, baseline("plain").state) == []


@contextmanager
def innocent() -> Iterator[subprocess.Popen[bytes]]:
    """A process of another program, which must not be touched."""
    process = subprocess.Popen(["sleep", "60"])
    try:
        yield process
        assert process.poll() is None, "a stranger's process was killed"
    finally:
        process.kill()
        process.wait()


def start_time(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode().split()[19]


def forge_claim(run: CrashRun, **changes: object) -> None:
    """The claim of the first attempt, as if another process had made it, or at another time."""
    claim = next(run.story.run_dir.glob("stage-*/iterations/001/attempt-1/claim"))
    claim.write_text(json.dumps(json.loads(claim.read_text()) | changes))


def test_claim_of_before_a_host_reboot_is_lost_and_not_reattached_to(run: CrashRun) -> None:
    run.turn(BEGIN, ALL_DIE)
    with innocent() as stranger:
        boot = "00000000-1111-2222-3333-444444444444"
        forge_claim(run, pid=stranger.pid, start_time=start_time(stranger.pid), boot_id=boot)
        run.play(())
    assert (seen(run)["attempt_lost"], seen(run)["attempt_reattached"]) == (1, 0)
    expect_sound(run)


def test_claim_of_another_host_is_lost_and_not_reattached_to(run: CrashRun) -> None:
    run.turn(BEGIN, ALL_DIE)
    with innocent() as stranger:
        forge_claim(run, pid=stranger.pid, start_time=start_time(stranger.pid), host="elsewhere")
        run.play(())
    assert (seen(run)["attempt_lost"], seen(run)["attempt_reattached"]) == (1, 0)
    expect_sound(run)


def test_pid_reuse_is_noticed_and_the_other_process_is_never_signalled(run: CrashRun) -> None:
    run.turn(BEGIN, ALL_DIE)
    with innocent() as stranger:
        forge_claim(run, pid=stranger.pid)  # With the start time of the supervisor that died.
        run.play(())
    assert (seen(run)["attempt_lost"], seen(run)["attempt_reattached"]) == (1, 0)
    expect_sound(run)


def test_pid_reuse_of_an_agent_to_be_cancelled_never_signals_the_other_process(run: CrashRun) -> None:
    run.turn(BEGIN, ALL_DIE)
    with innocent() as stranger:
        forge_claim(run, pid=stranger.pid)
        run.turn(("cancel", SESSION))
    assert run.story.status() == "aborted"


def test_exit_record_of_before_a_host_reboot_counts(run: CrashRun) -> None:
    run.turn(BEGIN, Cut("agent", "note", 2, "after", "engine"))
    exit_record = next(run.story.run_dir.glob("stage-*/iterations/001/attempt-1"))
    eventually((exit_record / "exit.json").exists)
    forge_claim(run, boot_id="00000000-1111-2222-3333-444444444444")
    run.play(())
    assert seen(run)["attempt_lost"] == 0
    expect_sound(run)


def test_stopped_engine_keeps_its_lease_and_others_are_refused(tmp_path: Path) -> None:
    go = tmp_path / "go"
    run = CrashRun(tmp_path / "run", replace(SCENARIOS["pause"], agent={"AGENT_UNTIL": f"0/2:{go}"}))
    env = run.environment(1)
    engine = run.start("engine", BEGIN, env)
    eventually(lambda: any(note["attempt"].startswith("0/2/") for note in run.story.notes()))
    os.kill(engine.pid, signal.SIGSTOP)
    eventually(lambda: Path(f"/proc/{engine.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    go.touch()
    log = run.story.log.read_bytes()
    try:
        for command in (("resume", SESSION), ("recover", SESSION), BEGIN):
            other = run.start("other", command, env)
            assert other.wait(timeout=60) == (0 if command[0] == "recover" else 1)
        assert run.story.log.read_bytes() == log
    finally:
        os.kill(engine.pid, signal.SIGCONT)
    assert engine.wait(timeout=60) == 0
    said = (run.story.base / "other-0.txt").read_text()
    assert said.count(f"Session '{SESSION}' is already running (PID {engine.pid})") == 2
    assert violations(run.story, baseline("pause").state) == []


def test_several_recover_at_once_and_one_drives(run: CrashRun) -> None:
    run.turn(BEGIN, ENGINE_DIES)
    env = run.environment(2)
    others = [run.start("other", ("recover", SESSION), env) for _ in range(3)]
    assert [other.wait(timeout=60) for other in others] == [0, 0, 0]
    assert seen(run)["session_recovered"] == 1
    expect_sound(run)


def test_recover_changes_nothing_in_a_run_that_is_over(run: CrashRun) -> None:
    run.play(())
    log = run.story.log.read_bytes()
    run.turn(("recover", SESSION))
    assert run.story.log.read_bytes() == log
    expect_sound(run)


def test_ctrl_c_pauses_and_recover_does_not_restart_it(run: CrashRun) -> None:
    env = run.environment(1) | {"AGENT_UNTIL": "0/1:pause_requested"}
    engine = run.start("engine", BEGIN, env)
    eventually(run.story.notes)
    engine.send_signal(signal.SIGINT)
    assert engine.wait(timeout=60) == 130
    assert run.story.status() == "paused"
    log = run.story.log.read_bytes()
    assert run.start("other", ("recover", SESSION), env).wait(timeout=60) == 0
    assert run.story.log.read_bytes() == log
    run.play(())
    expect_sound(run)


def test_killed_while_the_agent_has_all_of_its_grace_after_ctrl_c(tmp_path: Path) -> None:
    run = CrashRun(tmp_path / "run", SCENARIOS["pause"])
    engine = run.start("engine", BEGIN, run.environment(1))
    eventually(lambda: any(note["attempt"].startswith("0/2/") for note in run.story.notes()))
    engine.send_signal(signal.SIGINT)
    eventually(lambda: seen(run)["pause_requested"])
    engine.kill()
    engine.wait()
    run.turns, run.was_killed = 1, True
    run.story.killed.append(("engine", ""))
    run.turn(("recover", SESSION))
    assert run.story.status() == "paused"  # What a person asked for is carried out, and nothing more.
    run.play(())
    assert violations(run.story, baseline("pause").state) == []


def test_case_text_is_what_repeats_it() -> None:
    text = "plain engine:append:2:during:engine+agent @0.250:supervisor"
    assert str(Case.parse(text)) == text
