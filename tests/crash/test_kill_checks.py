"""The judge of the crash runs can say no: each thing that must hold is broken once, by hand."""

import fcntl
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from . import checks
from .case import Case, CrashRun, play
from .checks import final_state, violations
from .scenarios import SCENARIOS
from .story import Story

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Story, dict]:
    story = play(tmp_path_factory.mktemp("crash") / "run", Case("plain", ())).story
    return story, final_state(story)


@pytest.fixture
def report(finished: tuple[Story, dict]) -> Iterator[Callable[[], str]]:
    """What the judge says; whatever the test breaks is mended afterwards."""
    story, expected = finished
    kept = {path: path.read_bytes() for path in story.base.rglob("*") if path.is_file()}
    yield lambda: "\n".join(violations(story, expected))
    for path in [path for path in story.base.rglob("*") if path.is_file()]:
        path.write_bytes(kept[path]) if path in kept else path.unlink()


def test_an_untouched_run_is_found_good(report: Callable[[], str]) -> None:
    assert report() == ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines[:4] + lines[5:], "breaks the chain"),
        (lambda lines: [*lines, lines[-1]], "recorded 2 times"),
        (lambda lines: lines[:-2], "are gone"),
    ],
    ids=["a lost event", "a doubled event", "a shortened log"],
)
def test_the_log_is_watched(finished, report, change, words: str) -> None:
    log = finished[0].log
    log.write_bytes(b"".join(change(log.read_bytes().splitlines(keepends=True))))
    assert words in report()


@pytest.mark.parametrize("what", ["start", "end"])
def test_an_agent_that_runs_twice_is_noticed(finished, report, what: str) -> None:
    with finished[0].ledger.open("a") as ledger:
        ledger.write(json.dumps({"what": what, "attempt": "0/1/1", "pid": 1}) + "\n")
    assert f"attempt 0/1/1: {what} 2 times" in report()


def test_a_process_left_running_is_noticed_and_ended(
    finished, report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "DEATH_SECONDS", 0.5)
    left = subprocess.Popen(["sleep", "600"], env={"CRASH_RUN": finished[0].run, "PATH": os.environ["PATH"]})
    assert "left running: ['tool']" in report()
    assert left.wait(timeout=60) == -9


def test_a_held_lease_and_a_left_lock_file_are_noticed(finished, report) -> None:
    lock = finished[0].project / ".claude" / "locks" / "night.lock"
    lock.write_text("{}")
    with finished[0].log.open() as log:
        fcntl.flock(log, fcntl.LOCK_EX)
        assert "the lease is held\nthe lock file still exists" in report()


def test_another_result_is_noticed(finished, report) -> None:
    result = next(finished[0].run_dir.glob("stage-*/iterations/002/result.json"))
    result.write_text("{}")
    assert "iterations/002/result.json: '{}' instead of" in report()


def test_a_left_over_draft_is_noticed(finished, report) -> None:
    (finished[0].run_dir / "state.json.tmp").touch()
    assert "left over: .claude/pipeline-runs/night/state.json.tmp" in report()


def test_the_injector_kills_in_the_middle_of_a_line(tmp_path: Path) -> None:
    run = CrashRun(tmp_path / "run", SCENARIOS["plain"])
    run.turn(
        ("run", "-p", "p.yaml", "-s", "night"),
        Case.parse("plain engine:append:2:during:engine").planned_kills[0],
    )
    assert run.story.killed == [("engine", "")]
    assert not run.story.log.read_bytes().endswith(b"\n")
    assert run.play(()).status() == "completed"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: [*lines, lines[1]], "too many"),
        (lambda lines: lines[:-1], "missing: "),
        (lambda lines: [*lines[:-1], lines[-1][:-9]], "the cassette ends in a torn line"),
        (
            lambda lines: [line.replace(b"done 0/2", b"lost 0/2") for line in lines],
            "played, the files are",
        ),
    ],
    ids=["kept twice", "not kept", "torn", "other files"],
)
def test_the_cassette_is_watched(recorded: Story, change, words: str) -> None:
    cassette = recorded.run_dir / "cassette.jsonl"
    whole = cassette.read_bytes()
    cassette.write_bytes(b"".join(change(whole.splitlines(keepends=True))))
    try:
        assert words in "\n".join(violations(recorded, final_state(recorded)))
    finally:
        cassette.write_bytes(whole)
    assert violations(recorded, final_state(recorded)) == []


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return play(tmp_path_factory.mktemp("crash") / "run", Case("record", ())).story
