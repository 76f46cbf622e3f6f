"""The stages of a run as people and programs can follow them: in its logs, its status and its files."""

import json
from signal import SIGKILL
from typing import Any

import pytest
from tests.loop.stages import STAGES, first_then, logged, loop, says, transitions
from tests.surface.json_agents import WAIT
from tests.surface.terminal import Project, wait_for

KEYS = (
    *("event", "session_id", "from_stage", "to_stage", "duration_ms", "tokens_used"),
    *("cycle_count", "retry_count"),
)
LOG = ".claude/pipeline-runs/auth/events.jsonl"


def arrows(records: list[dict[str, Any]]) -> list[tuple[str | None, str]]:
    return [(record["from_stage"], record["to_stage"]) for record in records]


@pytest.mark.requirement("FR-014", "FR-018", "FR-029", "FR-082", "FR-083", "FR-084", "FR-085", "NFR-016")
def test_should_generate_events(project: Project) -> None:
    shells = {"verifier": first_then(says("fail", "a test fails"), says("pass"))}
    done = project.call("run", "-p", loop(project, shells), "-s", "auth", "--json")
    found = transitions(done)
    assert arrows(found) == [
        (None, "planner"),
        ("planner", "executor"),
        ("executor", "verifier"),
        ("verifier", "executor"),
        ("executor", "verifier"),
        ("verifier", "reviewer"),
        ("reviewer", "COMPLETE"),
    ]
    assert [record["cycle_count"] for record in found] == [1, 1, 1, 1, 2, 2, 1]
    assert all(set(KEYS) <= set(record) and record["session_id"] == "auth" for record in found)
    assert all(record["duration_ms"] > 0 for record in found[1:])
    back = found[3]
    assert (back["reason"], back["cycle"], back["cycle_limit"]) == ("fail: a test fails", 2, 3)
    assert back["msg"] == "verifier → executor (cycle 2 of 3): fail: a test fails"
    # Each record names a span of the run.
    spans = project.call("show", "auth", "--spans", "--json").json["spans"]
    known = {(span["trace_id"], span["span_id"]) for span in spans}
    assert {(record["trace_id"], record["span_id"]) for record in logged(done)} <= known
    assert [span["type"] for span in spans].count("visit") == 6


@pytest.mark.requirement("FR-005", "FR-057")
def test_should_track_current_stage(project: Project) -> None:
    done = project.call("run", "-p", loop(project, approve=True), "-s", "auth", "--json")
    for number, name in enumerate(STAGES):
        assert done.json["status"] == "awaiting_approval", done.err
        status = project.call("status", "auth", "--json").json
        assert status["node"]["id"] == name
        marks = ["done"] * number + ["stopped"] + ["waiting"] * (3 - number)
        assert [stage["mark"] for stage in status["stages"]] == marks
        done = project.call("approve", "auth", "--json")
        ahead = (*STAGES, "COMPLETE")[number + 1]
        assert arrows(transitions(done))[:2] == [("AWAITING_APPROVAL", name), (name, ahead)]
    assert done.json["status"] == "completed"


@pytest.mark.requirement("FR-015", "FR-054", "FR-055")
def test_should_persist_stage_changes(project: Project) -> None:
    """Each agent finds its stage entered in the log, and a new engine continues in the stage whose engine was
    killed."""
    shells = {id: f"cp {LOG} seen-{id}; {says('pass')}" for id in STAGES}
    shells["verifier"] = f"echo run >> count; touch up; {WAIT}; {shells['verifier']}"
    file = loop(project, shells)
    with project.started("run", "-p", file, "-s", "auth") as run:
        wait_for((project.root / "up").exists, "the verifier")
        run.signal(SIGKILL)
        run.process.wait(60)
    assert project.call("status", "auth", "--json").json["node"]["id"] == "verifier"
    (project.root / "go").touch()
    done = project.call("recover", "auth", "--json")
    assert done.code == 0, done.err
    assert (project.root / "count").read_text() == "run\n"
    assert arrows(transitions(done)) == [("verifier", "reviewer"), ("reviewer", "COMPLETE")]
    for number, id in enumerate(STAGES):
        lines = (project.root / f"seen-{id}").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        entered = [event["data"]["name"] for event in events if event["type"] == "node_start"]
        assert entered == list(STAGES[: number + 1])


def test_each_end_of_a_run_has_its_orchestration_code(project: Project) -> None:
    failing = {"verifier": says("fail", "a test fails")}
    done = project.call("run", "-p", loop(project, failing), "-s", "auth", "--json")
    assert (done.code, done.json["orchestration_code"]) == (21, "ACODE-ORCH-003")
    assert arrows(transitions(done))[-1] == ("verifier", "PAUSED")
    assert [record["orchestration_code"] for record in logged(done) if "orchestration_code" in record] == [
        "ACODE-ORCH-003"
    ]
    done = project.call("answer", "auth", "cancel", "--json")
    assert (done.code, done.json["orchestration_code"]) == (23, "ACODE-ORCH-007")
    assert arrows(transitions(done)) == [("PAUSED", "verifier"), ("verifier", "CANCELLED")]
    again = project.call("resume", "auth", "--json")
    assert (again.code, again.json["error"]["orchestration_code"]) == (1, "ACODE-ORCH-006")
