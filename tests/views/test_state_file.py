"""state.json at every stage of a run: the fields that users of agent-pipelines know."""

from hashlib import sha256
from typing import Any

import msgspec
from tests.engine.plans import plan_of, stage
from tests.engine.playbook import play

from agentforge.model.plan import Judgment, Plan
from agentforge.ports.event_log import BufferHealth, Head
from agentforge.views.files.state import SNAPSHOT_VERSION, StateSnapshot, state_file
from agentforge.views.history import History
from agentforge.views.run_model import Summary, fold

TWO = plan_of(stage("plan", runs=2), stage("build"))
BEGIN = """
    > start
    < node_start plan
    ? prepare plan 1
"""
AT_WORK = f"""{BEGIN}
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
"""
SECOND_STAGE = f"""{AT_WORK}
    @ 60
    > completed
    ? prepare plan 2
    > prepared
    < attempt_start 1
    ? execute plan 2 attempt 1
    > completed
    < node_complete plan: Completed 2 iterations (max: 2)
    < node_start build
    ? prepare build 1
"""


def written(plan: Plan, script: str) -> dict[str, Any]:
    """state.json after the conversation, as a reader finds it."""
    conversation = play(plan, script)
    summary, history = Summary(), History()
    for event in conversation.events:
        summary = fold(summary, event)
        history.apply(event)
    assert conversation.state is not None
    view = state_file(
        plan,
        conversation.state,
        summary,
        history,
        head=Head(0, "abc", 4711),
        buffer=BufferHealth(2, 40, 3, 1.5),
    )
    state: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(view))
    return state


def test_state_file_has_all_fields_while_an_agent_works() -> None:
    state = written(TWO, AT_WORK)
    snapshot = state.pop("snapshot")
    assert state == {
        "session": "auth",
        "type": "pipeline",
        "pipeline": "refine.yaml",
        "status": "running",
        "iteration": 1,
        "iteration_completed": 0,
        "iteration_started": "2026-01-15T12:00:00Z",
        "started_at": "2026-01-15T12:00:00Z",
        "completed_at": None,
        "current_stage": "stage-00-plan",
        "stages": [
            {
                "name": "plan",
                "index": 0,
                "iterations": 0,
                "completed_at": None,
                "status": "running",
                "timestamp": "2026-01-15T12:00:00Z",
                "judge_failures": 0,
            }
        ],
        "history": [],
        "history_omitted": 0,
        "event_offset": 4,
        "error": None,
        "error_type": None,
        "current_attempt": 1,
        "paused_at": None,
        "pause_reason": None,
        "completion_reason": None,
        "requests": [],
        "wake_at": None,
        "cursor": {"node_path": "0", "node_run": 1, "iteration": 1},
        "failed_at": None,
        "resumed_at": None,
        "resume_from": 1,
    }
    assert (snapshot["length"], snapshot["hash"], snapshot["state"]["seq"]) == (4711, "abc", 4)
    assert snapshot["buffer"]["events_buffered"] == 2


def test_gap_between_started_and_completed_shows_an_iteration_in_progress() -> None:
    before, during = written(TWO, BEGIN), written(TWO, AT_WORK)
    assert (before["iteration"], before["iteration_started"]) == (0, None)
    assert (during["iteration"], during["iteration_completed"]) == (1, 0)
    assert during["iteration_started"] is not None


def test_stages_and_history_of_a_multi_stage_run() -> None:
    state = written(TWO, SECOND_STAGE)
    assert [(entry["name"], entry["status"], entry["iterations"]) for entry in state["stages"]] == [
        ("plan", "completed", 2),
        ("build", "running", 0),
    ]
    assert state["stages"][0]["completed_at"] == "2026-01-15T12:01:00Z"
    assert state["current_stage"] == "stage-01-build"
    assert [(entry["iteration"], entry["stage"], entry["summary"]) for entry in state["history"]] == [
        (1, "plan", "done"),
        (2, "plan", "done"),
    ]
    assert set(state["history"][0]) == {
        "iteration",
        "timestamp",
        "stage",
        "decision",
        "reason",
        "summary",
        "files_touched",
        "items_completed",
        "signals",
        "plateau",
        "risk",
    }


def test_failed_run_names_its_error_and_the_stage_that_failed() -> None:
    state = written(TWO, f"{AT_WORK}\n> error provider_missing\n< session_failed provider_missing")
    assert (state["status"], state["error_type"], state["error"]) == (
        "failed",
        "provider_missing",
        "it went wrong",
    )
    assert state["stages"][-1]["status"] == "failed"
    assert state["resume_from"] == 1
    assert state["iteration_started"] is None
    assert state["completed_at"] is not None


def test_paused_run_shows_time_reason_and_requests() -> None:
    script = f"""{BEGIN}
        > recover
        ? prepare plan 1
        > recover
        ? prepare plan 1
        @ 5
        > recover
        < request_opened recoveries_without_progress-6
        < session_paused recoveries_without_progress
    """
    state = written(TWO, script)
    assert (state["status"], state["pause_reason"]) == ("paused", "recoveries_without_progress")
    assert state["paused_at"] == "2026-01-15T12:00:05Z"
    assert [request["id"] for request in state["requests"]] == ["recoveries_without_progress-6"]


def test_completed_single_stage_run() -> None:
    plan = plan_of(stage("work"), mode="loop")
    script = AT_WORK.replace("plan", "work") + (
        "> completed\n"
        "< node_complete work: Completed 1 iterations (max: 1)\n"
        "< session_complete Completed 1 iterations (max: 1)"
    )
    state = written(plan, script)
    assert (state["type"], state["pipeline"], state["status"]) == ("work", None, "completed")
    assert state["completion_reason"] == "Completed 1 iterations (max: 1)"
    assert (state["iteration"], state["iteration_completed"], state["resume_from"]) == (1, 1, None)
    assert state["current_stage"] == "stage-00-work"


def test_only_a_run_that_has_ended_has_no_iteration_to_resume_from() -> None:
    assert written(TWO, SECOND_STAGE)["resume_from"] == 1
    second = "\n".join(SECOND_STAGE.splitlines()[:-4])
    assert written(TWO, second)["resume_from"] == 2
    cancelled = written(TWO, f"{BEGIN}\n> cancel later\n< session_aborted later")
    assert (cancelled["status"], cancelled["resume_from"]) == ("aborted", None)


def test_single_stage_run_lists_its_stage_while_it_runs() -> None:
    plan = plan_of(stage("work"), mode="loop")
    (listed,) = written(plan, AT_WORK.replace("plan", "work"))["stages"]
    assert (listed["name"], listed["status"]) == ("work", "running")


def test_ended_stage_keeps_the_count_of_judge_failures() -> None:
    plan = plan_of(stage("plan", termination=Judgment(1, 1, 1)))
    script = f"""{AT_WORK}
    > completed
    < judge_start 1
    ? judge plan 1 attempt 1
    > judged failed invalid_json
    < node_complete plan: max_iterations
    < session_complete all_loops_complete
    """
    assert [entry["judge_failures"] for entry in written(plan, script)["stages"]] == [1]


def test_plan_without_nodes_has_no_current_stage() -> None:
    state = written(plan_of(), "> start\n< session_complete all_loops_complete")
    assert (state["current_stage"], state["iteration"], state["stages"]) == (None, 0, [])


def test_only_a_failed_run_says_when_it_failed() -> None:
    done = f"""{AT_WORK}
    > completed
    < node_complete plan: Completed 1 iterations (max: 1)
    < session_complete all_loops_complete
    """
    completed = written(plan_of(stage("plan")), done)
    assert completed["completed_at"] is not None
    assert completed["failed_at"] is None
    failed = written(TWO, f"{AT_WORK}\n> error provider_missing\n< session_failed provider_missing")
    assert failed["failed_at"] is not None


def test_the_version_of_the_snapshot_changes_with_its_shape() -> None:
    """Another version of AgentForge reads the snapshot, or ignores it. After a change of the state or of the
    summary, increase SNAPSHOT_VERSION and write the new hash here."""
    shape = msgspec.json.encode(without_texts(msgspec.json.schema(StateSnapshot)), order="deterministic")
    assert (SNAPSHOT_VERSION, sha256(shape).hexdigest()[:16]) == (26, "36f1e6e63d4ccda9")


def without_texts(schema: Any) -> Any:
    """The schema without the docstrings of its types."""
    if isinstance(schema, list):
        return [without_texts(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    is_text = {key: isinstance(value, str) and key == "description" for key, value in schema.items()}
    return {key: without_texts(value) for key, value in schema.items() if not is_text[key]}
