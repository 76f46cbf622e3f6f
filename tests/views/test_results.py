"""A run as the SDK returns it: `outcome` is for people, `reason` is what the log has."""

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace
from tests.engine.plans import plan_of, stage
from tests.views.samples import history, plan

from agentforge.model import facts as f
from agentforge.model.failure import FailureKind
from agentforge.model.request import Request
from agentforge.model.state import RunSettings, StageRecord
from agentforge.model.status import RunStatus
from agentforge.views.results import RunInfo, RunResult, result_of
from agentforge.views.run_model import fold_events

ASKED = Request("r-1", "question", "k", "question", "Which\none?", (), datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("status", "reason", "outcome"),
    [
        ("completed", "all_loops_complete", "completed: reached the end of the pipeline"),
        ("completed", "Completed 3 iterations (max: 3)", "completed 3 iterations (max: 3)"),
        ("paused", "provider_limit", "paused: a provider's limit resets too late"),
        ("aborted", "requested", "cancelled: on request"),
        ("awaiting_approval", "awaiting_approval", "waiting for an answer"),
    ],
)
def test_outcome_is_text_for_people(status: str, reason: str, outcome: str) -> None:
    assert RunResult("auth", RunStatus(status), reason, 3, "/run").outcome == outcome


def test_outcome_has_the_error_or_the_question() -> None:
    failed = RunResult("auth", RunStatus.FAILED, "boom", 0, "/run", "boom", "provider_crashed")
    assert failed.outcome == "failed: provider_crashed: boom"
    waits = RunResult("auth", RunStatus.AWAITING_APPROVAL, "awaiting_approval", 1, "/run", requests=(ASKED,))
    assert waits.outcome == "waiting for an answer: Which one?"


def test_info_of_a_run_has_its_result_and_knows_that_it_was_archived() -> None:
    settings = RunSettings(record=True)
    started = f.SessionStarted("pipeline", "run-1", plan(), "1.0", settings=settings, format=f.LOG_FORMAT)
    failed = f.SessionFailed(FailureKind.PROVIDER_CRASHED, "boom", "plan")
    model = fold_events(history((started, None), (failed, None)))
    assert model.plan is not None
    assert model.state is not None
    info = RunInfo("auth", "failed", "/runs/auth", model.plan, model.state, model.summary)
    assert not info.is_archived
    assert replace(info, session="auth-2").is_archived
    result = info.result
    assert (result.completed, result.error, result.reason) == (False, "boom", "boom")
    assert (result.cassette, result.duration_seconds) == ("/runs/auth/cassette.jsonl", 1.0)
    unrecorded = replace(model.state, settings=RunSettings(), failure=None, pause_reason="requested")
    result = replace(info, state=unrecorded).result
    assert (result.cassette, result.error, result.reason) == (None, None, "requested")


def test_a_result_names_a_stage_as_unverified_when_it_has_run() -> None:
    reader = plan_of(stage("reader", left_out={"test": "there is none"}))
    started = f.SessionStarted("pipeline", "run-1", reader, "1.0", format=f.LOG_FORMAT)
    model = fold_events(history((started, None)))
    assert model.state is not None
    for iterations, expected in ((None, ()), (0, ()), (1, ("reader",))):
        records = (
            ()
            if iterations is None
            else (StageRecord("reader", "0", iterations, datetime(2026, 1, 1, tzinfo=UTC), "done"),)
        )
        state = replace(model.state, stages=records)
        found = result_of("auth", reader, state, model.summary, "/runs/auth", artifact=None)
        assert found.unverified == expected
