"""Eight processes answer a request at the same instant: one answer counts, and the run continues once."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from .answer_race import PROCESSES
from .projects import run_dir


@pytest.mark.skipif(sys.platform != "linux", reason="platform: forks")
@pytest.mark.parametrize("count", [10, pytest.param(50, marks=pytest.mark.soak)])
def test_one_of_eight_processes_wins_every_round(count: int, tmp_path: Path) -> None:
    here, project = Path(__file__).parents[2], tmp_path / "project"
    project.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tests.sdk.answer_race", str(count), "1"],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(here)},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    lines = (run_dir(project) / "events.jsonl").read_bytes().splitlines()
    events = [(event["type"], event["data"]) for event in map(json.loads, lines)]
    answered = {data["id"]: data["answer"] for kind, data in events if kind == "request_answered"}
    continued = Counter(id for kind, data in events if kind == "session_continued" for id in data["requests"])
    rounds = json.loads(done.stdout)
    assert len(rounds) == len({request for request, _, _ in rounds}) == count
    for request, answers, outcomes in rounds:
        told = Counter(outcomes)
        assert told.pop("already_answered") == PROCESSES - 1, outcomes
        (winner,) = told
        assert winner.startswith("continued until"), outcomes
        assert answered[request] == answers[outcomes.index(winner)]
        assert continued[request] == 1
    assert len(answered) == count
    kinds = Counter(kind for kind, _ in events)
    assert kinds["request_answered"] == kinds["request_resolved"] == kinds["session_continued"] == count
    # Every answer but "run the stage again" to an escalation is followed by one visit of a stage.
    assert kinds["node_start"] == kinds["awaiting_approval"] == count + 1 - kinds["session_paused"]
