"""An orderly shutdown of the machine: SIGTERM to processes of the run, then SIGKILL to what is left. Recovery
at the next boot continues the run."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from . import victims
from .case import CrashRun
from .checks import violations
from .points import baseline
from .scenarios import SCENARIOS, SESSION

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]

PLAIN = SCENARIOS["plain"]


def attempt_in_flight(tmp_path: Path, **agent: str) -> tuple[CrashRun, subprocess.Popen[bytes]]:
    """A run whose agent works, on a machine that is shutting down."""
    run = CrashRun(tmp_path / "run", PLAIN)
    systemctl = run.story.base / "bin" / "systemctl"
    systemctl.write_text("#!/bin/sh\necho stopping\nexit 1\n")
    systemctl.chmod(0o755)
    engine = run.start("engine", PLAIN.command, run.environment(1) | agent)
    until = time.monotonic() + 60
    while not run.story.notes() and time.monotonic() < until:
        time.sleep(0.01)
    run.turns = 1
    return run, engine


def terminate(run: CrashRun, *roles: str) -> None:
    for pid, role in sorted(victims.processes(run.story.run).items()):
        if role in roles:
            if role != "engine":
                run.story.killed.append((role, victims.attempt_of(pid)))
            with suppress(ProcessLookupError):  # Those that were told before may have ended it.
                os.kill(pid, signal.SIGTERM)


def recovered(run: CrashRun) -> list[str]:
    """The types of all events, after the next boot."""
    (run.story.base / "bin" / "systemctl").write_text("#!/bin/sh\necho running\n")
    run.turn(("recover",))
    assert violations(run.story, baseline("plain").state) == []
    return [event["type"] for event in run.story.events()]


def test_the_agent_may_finish_its_iteration_and_recovery_continues_with_the_next(tmp_path: Path) -> None:
    run, engine = attempt_in_flight(tmp_path, AGENT_UNTIL="0/1:pause_requested")
    terminate(run, "engine")
    assert engine.wait(60) == 128 + signal.SIGTERM
    state = json.loads((run.story.run_dir / "state.json").read_text())
    assert (state["status"], state["pause_reason"]) == ("paused", "machine_shutdown")
    types = recovered(run)
    assert types.count("session_recovered") == 1
    assert types.count("attempt_start") == 3


def test_an_agent_that_the_shutdown_ended_is_not_an_error_and_is_repeated(tmp_path: Path) -> None:
    run, engine = attempt_in_flight(tmp_path, AGENT_SECONDS="60")
    terminate(run, "engine", "supervisor", "agent", "tool")
    assert engine.wait(60) == 128 + signal.SIGTERM
    assert run.story.status() == "paused"
    types = recovered(run)
    assert "error" not in types
    assert types.count("attempt_lost") == 1


def test_what_is_killed_before_it_has_stopped_is_interrupted_and_recovered(tmp_path: Path) -> None:
    run, engine = attempt_in_flight(tmp_path, AGENT_SECONDS="60")
    terminate(run, "engine")
    until = time.monotonic() + 60
    while "pause_requested" not in [e["type"] for e in run.story.events()] and time.monotonic() < until:
        time.sleep(0.01)
    roles = ["engine", "supervisor", "agent", "tool"]
    notes = tmp_path / "killed"
    victims.kill_processes(run.story.run, roles, str(notes))
    engine.wait(60)
    run.story.killed += [(role, attempt) for role, attempt in json.loads(notes.read_text())]
    assert run.story.status() == "running"
    types = recovered(run)
    assert types.count("attempt_lost") == 1


def test_a_run_that_a_person_stopped_stays_stopped_after_the_boot(tmp_path: Path) -> None:
    run, engine = attempt_in_flight(tmp_path, AGENT_UNTIL="0/1:pause_requested")
    os.kill(engine.pid, signal.SIGINT)
    assert engine.wait(60) == 128 + signal.SIGINT
    before = run.story.events()
    run.turn(("recover",))
    assert run.story.events() == before
    run.turn(("resume", SESSION))
    assert violations(run.story, baseline("plain").state) == []
