"""The state of a pipeline as plain data, and back."""

from contextlib import suppress
from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.pipeline.states import MAPPINGS, NAMES, PLAIN, state

from agentforge import InvalidRequest
from agentforge.core.pipeline import PipelineConfig, PipelineState, PipelineStatus

AT = datetime(2026, 1, 2, 15, 30, tzinfo=UTC)
FULL = state(
    config=PipelineConfig("design", ["intake", "spec"], "spec", True, False, 5, 60),
    context={"files": ["a.py"]},
    status=PipelineStatus.AWAITING_APPROVAL,
    current_stage_index=1,
    current_stage="spec",
    error="none yet",
    completed_stages=["intake"],
    approved_stages=["intake"],
    stage_artifacts={"intake": {"request_id": "REQ-1"}},
    iteration_count={"intake": 2},
    pending_feedback="shorter",
    pending_artifact={"spec_id": "SPEC-1"},
    created_at=AT,
    updated_at=AT + timedelta(seconds=1),
    completed_at=AT + timedelta(seconds=2),
    total_tokens_used=7,
    total_cost_usd=0.5,
)


class TestPipelineState:
    def test_to_dict_serializes_all_fields(self) -> None:
        found = FULL.to_dict()
        assert found.keys() == {one.name for one in fields(PipelineState)} - {"unknown"}
        assert found["config"].keys() == {one.name for one in fields(PipelineConfig)}
        assert found["status"] == "awaiting_approval"
        assert found["created_at"] == AT.isoformat()
        assert found["pending_artifact"] == {"spec_id": "SPEC-1"}
        assert found["schema_version"] == 1

    def test_from_dict_deserializes_correctly(self) -> None:
        found = PipelineState.from_dict(FULL.to_dict())
        assert (found.status, found.config, found.created_at) == (FULL.status, FULL.config, AT)
        assert found.pending_artifact == {"spec_id": "SPEC-1"}

    def test_round_trip_preserves_state(self) -> None:
        assert PipelineState.from_dict(FULL.to_dict()) == FULL


@given(context=MAPPINGS, artifacts=st.dictionaries(NAMES, MAPPINGS, max_size=3), pending=MAPPINGS | st.none())
def test_any_plain_data_survives(context: Any, artifacts: Any, pending: Any) -> None:
    before = state(context=context, stage_artifacts=artifacts, pending_artifact=pending)
    assert PipelineState.from_dict(before.to_dict()) == before


@given(PLAIN, st.sampled_from([one.name for one in fields(PipelineState)]))
def test_any_value_of_a_field_is_read_or_refused(value: Any, name: str) -> None:
    with suppress(InvalidRequest):
        PipelineState.from_dict({**FULL.to_dict(), name: value})


def test_times_without_a_zone_are_in_utc() -> None:
    local = datetime(2026, 1, 2, 15, 30)
    found = PipelineState.from_dict(
        {**FULL.to_dict(), "created_at": "2026-01-02T15:30:00", "updated_at": local}
    )
    assert (found.created_at, found.updated_at) == (AT, AT)
    assert state(created_at=local).created_at == AT
    assert state().created_at.tzinfo is not None


def test_values_that_yaml_has_not_become_plain() -> None:
    class Colour(Enum):
        RED = "red"

    odd = {
        "path": Path("a/b"),
        "pair": (1, 2),
        "colour": Colour.RED,
        "at": AT,
        1: {"x": {3}},
        "text": "\udcff",
    }
    found = state(stage_artifacts={"intake": odd}).to_dict()["stage_artifacts"]["intake"]
    plain = {"path": "a/b", "pair": [1, 2], "colour": "red", "1": {"x": [3]}, "text": "?"}
    assert found == {**plain, "at": "2026-01-02T15:30:00Z"}


def test_a_reference_to_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["itself"] = endless
    with pytest.raises(InvalidRequest, match="nested deeper than"):
        state(context=endless).to_dict()


def test_what_is_null_has_its_default() -> None:
    nulls = dict.fromkeys(("context", "completed_stages", "iteration_count", "total_tokens_used"))
    config = {"pipeline_type": "fix", "stages": [], "supervised": None}
    found = PipelineState.from_dict({**FULL.to_dict(), **nulls, "config": config})
    assert (found.context, found.completed_stages, found.iteration_count) == ({}, [], {})
    assert found.config == PipelineConfig("fix", [])


def test_neither_side_changes_the_other() -> None:
    before = replace(FULL, completed_stages=["intake"], stage_artifacts={"intake": {"files": ["a"]}})
    shown = before.to_dict()
    shown["completed_stages"].append("x")
    shown["stage_artifacts"]["intake"]["files"].append("x")
    after = PipelineState.from_dict(shown)
    shown["stage_artifacts"]["intake"]["files"].append("y")
    assert (before.completed_stages, before.stage_artifacts) == (["intake"], {"intake": {"files": ["a"]}})
    assert after.stage_artifacts == {"intake": {"files": ["a", "x"]}}


def test_fields_of_other_versions_are_kept() -> None:
    given = {**FULL.to_dict(), "schema_version": 2, "owner": {"name": "anna"}}
    given["config"] = {**given["config"], "colour": "red"}
    assert PipelineState.from_dict(given).to_dict() == given


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"status": "asleep"}, "status"), ({"config": None}, "config"), ({"current_stage_index": "x"}, "index")],
)
def test_a_wrong_field_is_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest, match=named):
        PipelineState.from_dict({**FULL.to_dict(), **changes})
