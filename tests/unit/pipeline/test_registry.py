"""The executors that a program registers."""

from pathlib import Path
from typing import Any

import pytest
from tests.unit.pipeline.states import state

from agentforge import InvalidRequest
from agentforge.core.pipeline import (
    PipelineState,
    StageContext,
    StageExecutor,
    StageExecutorRegistry,
    StageResult,
    StageStatus,
)
from agentforge.core.pipeline.registry import complete_executor


class Own(StageExecutor):
    def _execute(self, context: StageContext) -> StageResult:
        return StageResult(self.stage_name, StageStatus.COMPLETED, artifact={"a": 1})


class Plain:
    """Not derived from StageExecutor."""

    def __init__(self) -> None:
        self.given: list[tuple[dict[str, Any], PipelineState, Path]] = []

    def execute(
        self, input_artifact: dict[str, Any], pipeline_state: PipelineState, project_path: Path
    ) -> StageResult:
        self.given.append((input_artifact, pipeline_state, project_path))
        return StageResult("plain", StageStatus.COMPLETED, artifact={"a": 1})


def test_the_later_registration_counts() -> None:
    registry, first, second = StageExecutorRegistry(), Own(), Own()
    registry.register("a", first)
    assert registry.get("a") is registry.create("a") is first
    registry.register_factory("a", lambda: second)
    assert registry.get("a") is registry.create("a") is second
    registry.register("a", first)
    assert registry.get("a") is first


def test_a_factory_makes_an_executor_for_each_run() -> None:
    registry = StageExecutorRegistry()
    registry.register_factory("a", Own)
    assert registry.create("a") is not registry.create("a")
    assert registry.get("a") is registry.get("a")


def test_stages_are_listed() -> None:
    registry = StageExecutorRegistry()
    registry.register("b", Own())
    registry.register_factory("a", Own)
    assert (registry.list_stages(), registry.has_stage("a"), registry.has_stage("c")) == (
        ["a", "b"],
        True,
        False,
    )
    assert registry.get("c") is None
    with pytest.raises(InvalidRequest, match="No executor registered for stage: c"):
        registry.create("c")


def test_an_executor_without_a_name_gets_that_of_its_stage() -> None:
    registry = StageExecutorRegistry()
    registry.register_factory("a", Own)
    assert registry.create("a").stage_name == "a"


def test_what_is_not_an_executor_is_refused() -> None:
    registry: Any = StageExecutorRegistry()
    with pytest.raises(InvalidRequest, match="'a' \\(object\\) has no method `execute`"):
        registry.register("a", object())
    with pytest.raises(InvalidRequest, match="'a' is the class Own") as refused:
        registry.register("a", Own)
    assert "Own()" in refused.value.hint
    with pytest.raises(InvalidRequest, match="can't be called"):
        registry.register_factory("a", Own())
    registry.register_factory("a", object)
    with pytest.raises(InvalidRequest, match="has no method `execute`"):
        registry.create("a")


def test_an_executor_with_only_execute_gets_the_phases(tmp_path: Path) -> None:
    plain = Plain()
    before = state(iteration_count={"s": 1}, pending_feedback="more", completed_stages=["intake"])
    context = StageContext.from_pipeline_state(before, "s", {"x": 1}, tmp_path)
    assert complete_executor(plain, "s").run(context).artifact == {"a": 1}
    ((artifact, given, project),) = plain.given
    assert (artifact, project, given.current_stage) == ({"x": 1}, tmp_path, "s")
    assert (given.iteration_count, given.pending_feedback) == ({"s": 1}, "more")
    assert given.config.stages == ["intake", "s"]
