"""What a stage gets of earlier artifacts: which of them, merged in which order, and what the engine adds."""

import copy
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.plans import block, event, nested, plan_of, stage

from agentforge.model import facts as f
from agentforge.model.artifact import INLINE_BYTES, Artifact, ArtifactRule, ItemAt, PlannedItem
from agentforge.model.cursor import Cursor
from agentforge.model.layout import RunLayout
from agentforge.model.place import Place
from agentforge.model.plan import FromParallel, InputSources, Items, Plan, Select
from agentforge.model.request import UserRequest
from agentforge.model.result import Decision, JSONObject, Result
from agentforge.model.task import PrepareTask
from agentforge.views.artifacts import (
    NO_INPUT,
    IterationInput,
    RunKeys,
    artifact_input,
    earlier_stages,
    run_keys,
)
from agentforge.views.files.context import context_file, from_parallel
from agentforge.views.history import History

RULE = ArtifactRule({"type": "object"})
KEYS = RunKeys("REQ-1", "a tool")
OWN = {"request_id": "REQ-1", "original_request": "a tool"}
LAYOUT = RunLayout("/run", "auth")


def left(value: JSONObject, item: str = "") -> Artifact:
    return Artifact(f"{item}/artifact.json".lstrip("/"), 2, "0", value=value, item=item)


class Told:
    """A history of artifacts."""

    def __init__(self, plan: Plan, initial: JSONObject | None = None) -> None:
        self.plan = plan
        self.history = History()
        self.seq = 0
        given = left(initial) if initial is not None else None
        self.add(f.SessionStarted("pipeline", "r", plan, "0.1.0", artifact=given), None)

    def add(self, fact: f.AnyFact, at: Cursor | None) -> "Told":
        self.seq += 1
        self.history.apply(event(self.seq, fact, at))
        return self

    def leaves(
        self, path: str, value: JSONObject | None, item: str = "", branch: str | None = None, visit: int = 1
    ) -> "Told":
        artifact = None if value is None else left(value, item)
        done = f.IterationCompleted(
            "x", 1, Decision.CONTINUE, "", "result.json", Result(), 1, artifact=artifact
        )
        return self.add(done, Cursor(path, visit, 1, branch))

    def planned(self, path: str, *ids: str) -> "Told":
        return self.add(f.ItemsPlanned(tuple(PlannedItem(id, id) for id in ids)), Cursor(path, 1, 0))

    def input(self, path: str, branch: str | None = None, item: str = "") -> IterationInput:
        node = self.plan.stage(path, branch)
        assert node is not None
        place = Place(path, 1, "stage", branch=branch)
        at = ItemAt(item, 1, 1) if item else None
        return artifact_input(
            self.plan, PrepareTask(place, node.id, 1, node=node, item=at), self.history, KEYS, value_of
        )


def value_of(artifact: Artifact) -> JSONObject:
    assert artifact.value is not None
    return artifact.value


THREE = plan_of(stage("a", artifact=RULE), stage("b", artifact=RULE), stage("c"))


def test_artifacts_are_merged_by_key_the_nearest_last() -> None:
    told = Told(THREE, {"x": 0, "w": 0}).leaves("1", {"x": 2, "y": 2}).leaves("0", {"x": 1, "z": {"k": 1}})
    assert told.input("2").merged == {"x": 2, "w": 0, "y": 2, "z": {"k": 1}, **OWN}
    assert told.input("1").merged == {"x": 1, "w": 0, "z": {"k": 1}, **OWN}
    assert told.input("0").merged == {"x": 0, "w": 0, **OWN}


def test_the_latest_artifact_of_each_stage_counts() -> None:
    told = (
        Told(THREE).leaves("0", {"x": 1, "old": 1}).leaves("0", {"x": 2}, visit=2).leaves("0", None, visit=2)
    )
    assert told.input("1").merged == {"x": 2, **OWN}


def test_without_an_artifact_there_is_nothing_not_even_what_the_engine_adds() -> None:
    assert Told(THREE).input("2") == NO_INPUT
    assert not NO_INPUT.is_large


def test_a_stage_that_is_visited_again_gets_its_own_last_artifact_beside_the_others() -> None:
    told = Told(THREE).leaves("0", {"x": 1}).leaves("1", {"y": 1})
    given = told.input("1")
    assert (given.merged, given.previous) == ({"x": 1, **OWN}, left({"y": 1}))
    assert told.input("2").previous is None


FILLED = plan_of(
    stage("a", artifact=ArtifactRule({}, fill={"goal": "request", "x": "request"})),
    stage("b", artifact=RULE),
    stage("c"),
)


def test_the_engine_fills_fields_that_later_stages_may_replace() -> None:
    told = Told(FILLED).leaves("0", {"x": 1, "y": 1})
    assert told.input("1").merged == {"goal": "a tool", "x": "a tool", "y": 1, **OWN}
    told.leaves("1", {"goal": "mine"})
    assert told.input("2").merged["goal"] == "mine"


def test_an_id_is_that_of_the_field_the_stage_and_the_run() -> None:
    rule = ArtifactRule({}, fill={"spec_id": "id", "goal": "request"})
    keys = run_keys(datetime(2026, 1, 15, 14, tzinfo=UTC), "r", None)
    found = keys.filled(rule, "spec")
    assert re.fullmatch("SPEC-20260115T140000Z-[0-9a-f]{8}", found["spec_id"])
    assert (found, keys.filled(rule, "spec")) == ({"spec_id": found["spec_id"]}, found)
    others = [("spec", "codex"), ("again", None)]
    assert len({found["spec_id"], *(keys.filled(rule, *other)["spec_id"] for other in others)}) == 3
    assert keys.filled(None, "spec") == {}


def test_nothing_is_filled_without_a_user_request() -> None:
    told = Told(FILLED).leaves("0", {"x": 1})
    node = told.plan.stage("1")
    assert node is not None
    task = PrepareTask(Place("1", 1, "stage"), "b", 1, node=node)
    given = artifact_input(told.plan, task, told.history, RunKeys("REQ-1"), value_of)
    assert given.merged == {"x": 1, "request_id": "REQ-1"}


OVER_ITEMS = plan_of(
    stage("plan", artifact=RULE),
    stage("build", artifact=RULE, termination=Items(9, "plan.steps")),
    stage("verify"),
)


def test_a_stage_over_items_contributes_its_id_with_the_artifact_of_each_item() -> None:
    told = Told(OVER_ITEMS).leaves("0", {"steps": []}).planned("1", "s1", "s2")
    told.leaves("1", {"n": 1}, "s1").leaves("1", {"n": 2}, "s2").leaves("1", {"n": 3}, "s1")
    assert told.input("2").merged == {"steps": [], "build": {"s1": {"n": 3}, "s2": {"n": 2}}, **OWN}
    assert told.input("1", item="s2").previous == left({"n": 2}, "s2")
    assert told.input("1", item="s3").previous is None
    told.planned("1", "s2", "s3")
    assert told.input("2").merged["build"] == {"s2": {"n": 2}}


def test_a_stage_over_no_items_contributes_an_empty_field() -> None:
    told = Told(OVER_ITEMS).leaves("0", {"steps": []})
    assert "build" not in told.input("2").merged
    assert told.planned("1").input("2").merged == {"steps": [], "build": {}, **OWN}


def test_a_stage_that_is_no_longer_over_items_contributes_what_it_leaves() -> None:
    told = Told(OVER_ITEMS).planned("1", "s1").leaves("1", {"n": 1}, "s1").leaves("1", {"n": 2})
    told.plan = THREE
    assert told.input("2").merged == {"n": 2, **OWN}


def test_a_damaged_log_may_lack_where_items_were_planned() -> None:
    told = Told(OVER_ITEMS).add(f.ItemsPlanned((PlannedItem("s1", "1"),)), None)
    assert told.input("2") == NO_INPUT


BLOCK = plan_of(
    stage("before", artifact=RULE),
    block("claude codex", stage("draft", artifact=RULE), stage("revise", artifact=RULE)),
    nested("inner", stage("deep", artifact=RULE), stage("deeper")),
    stage("last"),
)


def test_branches_get_no_artifacts_of_each_other_and_later_stages_none_of_them() -> None:
    told = Told(BLOCK).leaves("0", {"x": 0}).leaves("1.0", {"by": "claude"}, branch="claude")
    told.leaves("1.0", {"by": "codex"}, branch="codex").leaves("1.1", {"end": 1}, branch="codex")
    assert told.input("1.1", "claude").merged == {"x": 0, "by": "claude", **OWN}
    assert told.input("1.1", "codex").merged == {"x": 0, "by": "codex", **OWN}
    assert told.input("1.1", "codex").previous == left({"end": 1})
    assert told.input("2.0").merged == {"x": 0, **OWN}
    told.leaves("2.0", {"deep": 1})
    assert told.input("2.1").merged == told.input("3").merged == {"x": 0, "deep": 1, **OWN}


def test_all_stages_are_before_one_that_is_not_in_the_plan() -> None:
    """A damaged log may name one that isn't in the plan."""
    assert [path for path, _, _ in earlier_stages(THREE, "9")] == ["0", "1"]


def test_stages_after_a_block_get_the_paths_of_its_artifacts() -> None:
    told = Told(BLOCK).leaves("1.0", {"by": "claude"}, branch="claude").leaves("1.0", None, branch="codex")
    sources = InputSources((), (FromParallel("draft", "duel", "1", ("claude", "codex")),))
    found = from_parallel(sources, told.history, BLOCK, LAYOUT)
    assert isinstance(found, dict)
    artifacts = {name: one.get("artifact") for name, one in found["providers"].items()}
    assert artifacts == {"claude": "/run/artifact.json", "codex": None}


@pytest.mark.parametrize("select", ["latest", "all"])
def test_of_a_stage_over_items_in_a_block_there_is_the_path_of_each_item(select: Select) -> None:
    over = stage("draft", artifact=RULE, termination=Items(9, "plan.steps"))
    plan = plan_of(stage("plan", artifact=RULE), block("claude codex", over), stage("last"))
    told = Told(plan)
    told.add(f.ItemsPlanned((PlannedItem("s1", "1"), PlannedItem("s2", "2"))), Cursor("1.0", 1, 0, "claude"))
    for item in ("s1", "s2"):
        told.leaves("1.0", {"of": item}, item, branch="claude")
    told.add(f.ItemsPlanned(()), Cursor("1.0", 1, 0, "codex"))
    sources = InputSources((), (FromParallel("draft", "duel", "1", ("claude", "codex"), select),))
    found = from_parallel(sources, told.history, plan, LAYOUT)
    assert isinstance(found, dict)
    artifacts = {name: one.get("artifact") for name, one in found["providers"].items()}
    each = {"s1": "/run/s1/artifact.json", "s2": "/run/s2/artifact.json"}
    assert artifacts == {"claude": each, "codex": {}}


def context_of(given: IterationInput) -> Any:
    node = stage("a", artifact=RULE)
    task = PrepareTask(Place("0", 1, "stage-00-a"), "a", 1, node=node)
    return context_file(task, plan_of(node), LAYOUT, History(), given=given)


@pytest.mark.parametrize("value", [{"x": 1}, {}])
def test_what_was_left_before_is_in_the_context(value: JSONObject) -> None:
    assert context_of(IterationInput({}, left(value))).previous == value


def test_large_artifacts_are_files() -> None:
    large = {"x": "x" * INLINE_BYTES}
    given = IterationInput(large, Artifact("a/artifact.json", 10**6, "0"))
    assert given.is_large
    context = context_of(given)
    assert context.previous == "/run/a/artifact.json"
    assert context.artifact == LAYOUT.iteration("stage-00-a", 1).input
    assert context_of(IterationInput({"x": 1})).artifact == {"x": 1}


# -- what only the engine sets


def test_the_id_of_a_request_is_from_the_time_and_the_run() -> None:
    noon = datetime(2026, 1, 15, 14, 0, 5, tzinfo=timezone(timedelta(hours=2)))
    keys = run_keys(noon, "0af7651916cd43dd", UserRequest("a tool"))
    assert keys.request_id.startswith("REQ-20260115T120005Z-")
    assert len(keys.request_id.rpartition("-")[2]) == 8
    assert keys == run_keys(noon.astimezone(UTC), "0af7651916cd43dd", UserRequest("a tool"))
    assert keys != run_keys(noon, "another", UserRequest("a tool"))
    assert keys.values == {"request_id": keys.request_id, "original_request": "a tool"}
    assert run_keys(noon, "r", None).values.keys() == {"request_id"}


@pytest.mark.parametrize(
    ("artifact", "foreign"),
    [
        ({}, []),
        ({"goal": 1}, []),
        (OWN, []),
        ({"request_id": "REQ-2"}, ["request_id"]),
        ({"request_id": None}, ["request_id"]),
        ({"original_request": "another tool"}, ["original_request"]),
        ({"_anything": 1, "__x": 1, "x_": 1}, ["_anything", "__x"]),
    ],
)
def test_keys_of_the_engine_can_not_be_set_by_agents(artifact: JSONObject, foreign: list[str]) -> None:
    assert KEYS.foreign(artifact) == foreign


def test_without_a_request_no_artifact_has_one() -> None:
    assert RunKeys("REQ-1").foreign({"original_request": ""}) == ["original_request"]


_values = st.dictionaries(
    st.sampled_from(["a", "b", "request_id", "original_request", "goal", "build"]),
    st.integers(0, 3),
    max_size=4,
)


@given(st.lists(st.tuples(st.sampled_from("012"), _values), max_size=6), st.none() | _values)
def test_any_merge_changes_no_artifact_and_keeps_the_keys_of_the_engine(
    story: list[tuple[str, JSONObject]], initial: JSONObject | None
) -> None:
    plan = plan_of(
        stage("a", artifact=RULE), stage("b", artifact=RULE), stage("c", artifact=RULE), stage("d")
    )
    told, before = Told(plan, initial), copy.deepcopy((story, initial))
    for path, value in story:
        told.leaves(path, value)
    merged = told.input("3").merged
    assert told.input("3").merged == merged
    assert (story, initial) == before
    latest = dict(story)
    expected = {
        key: value
        for one in (initial or {}, *(latest.get(at, {}) for at in "012"))
        for key, value in one.items()
    }
    assert merged == ({**expected, **OWN} if expected else {})
    merged["a"] = "changed"
    assert (story, initial) == before


def test_what_an_agent_repeated_of_the_keys_of_the_engine_is_left_out() -> None:
    repeated = {"a": 1, **KEYS.values}
    assert KEYS.without(repeated) == {"a": 1}
    assert KEYS.without({"a": 1, "request_id": "REQ-2"}) == {"a": 1, "request_id": "REQ-2"}
