"""Real runs keep the order: what must be durable is, before anybody acts upon it."""

import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.crash.case import CrashRun
from tests.crash.points import baseline
from tests.crash.scenarios import SESSION
from tests.sampling import one_in

from agentforge.model.layout import RunLayout
from agentforge.runtime.answers import Answer, give_answer

from .recorded import PLAYED, judged, recorded
from .rules import PROOF, read_log, read_trace, unsynced_claims

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]

LOST = "agent:note:1:after:engine+supervisor+agent"
CASES = {
    "a cancel": "cancel",
    "the cancel of a judge": "judge-cancel",
    "the cancel of a script": "script-cancel",
    "a block": "block",
    "a retry and an output path": "retry",
    "a torn line": "plain engine:append=attempt_start:1:during:engine",
    "an intent that was written and not synced": "plain engine:append=attempt_start:2:after:engine",
    "a reattached agent": "plain agent:note:3:after:engine",
    "a control that an earlier engine had recorded": "pause engine:drop:1:before:engine",
    "a question and its answer": f"delay {LOST} {LOST} {LOST}",
    "a webhook that is repeated": "webhook-asks engine:post:2:after:engine",
    "a function that is repeated": "program engine:note:1:after:engine",
    "a check that is reattached to": "checked agent:note:5:after:engine",
    "trees of the workspace": "tracked",
    "a payload": "large",
    "a large artifact": "items",
    "requests in files": "shown",
    "a script that is reattached to": "script agent:note:3:after:engine",
}


@pytest.mark.parametrize("case", one_in(3, CASES))
def test_order_is_kept_in(case: str, tmp_path: Path) -> None:
    run = recorded(tmp_path / "run", CASES[case])
    assert run.story.status() == run.story.scenario.ends
    assert run.story.trouble == []
    assert judged(run) == []


def test_order_is_kept_when_an_end_that_was_written_and_not_synced_is_put_right(tmp_path: Path) -> None:
    last = baseline("stage").counts["engine", "append"]
    run = recorded(tmp_path / "run", f"stage engine:append:{last}:after:engine")
    assert run.story.killed
    assert run.story.commands == ["loop", "recover"]
    assert judged(run) == []


@pytest.mark.parametrize(
    ("folder", "number", "has_earlier_run"),
    [
        ("pipeline-runs", 1, False),
        ("night", 1, True),
        ("state", 5, True),
        ("agentforge", 6, True),
        ("runs", 7, True),
    ],
)
def test_name_of_a_folder_is_synced_although_its_creator_was_killed(
    folder: str, number: int, has_earlier_run: bool, tmp_path: Path
) -> None:
    case = f"stage engine:mkdir:{number}:after:engine"
    run = recorded(tmp_path / "run", case, has_earlier_run=has_earlier_run)
    made = [call for call in read_trace(run.story.trace) if call["call"] == "mkdir"]
    first = [call["path"] for call in made if call["pid"] == made[0]["pid"]]
    assert first[-1].endswith(f"/{folder}"), "the last folder before the kill"
    assert run.story.commands == ["loop", "loop"]
    assert run.story.status() == "completed"
    assert judged(run) == []


@pytest.mark.parametrize(("scenario", "folder"), [("once", "/iterations/"), ("paused", "/hooks/")])
def test_names_of_the_folders_of_an_attempt_that_is_not_repeated_are_synced(
    scenario: str, folder: str, tmp_path: Path
) -> None:
    run = recorded(tmp_path / "run", scenario)
    assert run.story.status() == "completed"
    claims = unsynced_claims(read_trace(run.story.trace), run.story.log)
    assert [unsynced for claim, unsynced in claims.items() if folder in claim] == ["", ""]


def test_answer_that_a_list_of_requests_records_is_synced_before_state_json_shows_it(tmp_path: Path) -> None:
    run = CrashRun(tmp_path / "run", PLAYED["shown"])
    run.turn(run.story.scenario.command)
    ((request,), started) = run.story.open_requests(), run.story.events()[0]
    answer = Answer(request["id"], "approve", "ada", started["trace_id"], datetime.now(UTC))
    assert give_answer(RunLayout(str(run.story.run_dir), SESSION), answer) is None
    run.turn(("inbox",))
    assert run.story.events()[-1]["type"] == "request_answered"
    assert judged(run) == []


def test_name_of_a_removed_run_is_synced_before_its_proof_is_forgotten(tmp_path: Path) -> None:
    """Otherwise it could exist again after a power failure, as a foreign run."""
    run = recorded(tmp_path / "run", "stage")
    log = run.story.log
    run.turn(("rm", SESSION, "--yes"))
    assert not log.parent.exists()
    trace = read_trace(run.story.trace)
    places = {
        "moved": [call.get("source") == str(log.parent) for call in trace],
        "synced": [call["call"] == "sync" and call["path"] == str(log.parent.parent) for call in trace],
        "forgotten": [call["call"] == "unlink" and bool(PROOF.search(call["path"])) for call in trace],
    }
    last = {name: len(found) - found[::-1].index(True) for name, found in places.items()}
    assert last["moved"] < last["synced"] < last["forgotten"]


def test_a_large_event_has_a_payload(tmp_path: Path) -> None:
    events = read_log(recorded(tmp_path / "run", "large").story.log)
    assert [event.type for event in events if event.payload] == ["session_start"]


def test_the_trace_has_every_kind_of_call(tmp_path: Path) -> None:
    trace = read_trace(recorded(tmp_path / "run", "cancel").story.trace)
    calls = Counter((call["role"], call["call"]) for call in trace)
    for call in ("write", "overwrite", "sync", "create", "mkdir", "rename", "unlink"):
        assert calls["engine", call], call
    for call in ("spawn", "kill", "exit"):
        assert calls["engine", call], call
    sent = Counter(call["call"] for call in read_trace(recorded(tmp_path / "hooks", "webhook").story.trace))
    assert sent["send"] == 2 * 8, "headers and body of every webhook"
    for call in ("sync", "create", "link", "rename", "unlink", "fork", "kill", "exit"):
        assert calls["supervisor", call], call
    for call in ("mkdir", "sync", "link", "unlink", "exit"):
        assert calls["sender", call], call
