"""The names of an orchestrator over the engine."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from agentforge import DefinitionError, Engine, RunStatus, plan
from agentforge.core.orchestration import (
    Orchestrator,
    OrchestratorOptions,
    OrchestratorResult,
    Stage,
    StageContext,
    StageResult,
    StageStatus,
    StageType,
)

OPTIONS = OrchestratorOptions(planner_timeout=timedelta(seconds=7), cycle_limit=2, token_budget=9_000)


class Noted(Stage):
    def __init__(self, name: str, *, fails: bool = False, asks: bool = False) -> None:
        self.name, self.fails, self.asks = name, fails, asks
        self.noted: list[str] = []

    def on_enter(self, context: StageContext) -> None:
        self.noted.append(f"enter {context.stage_name}")

    def execute(self, context: StageContext) -> StageResult:
        self.noted.append("execute")
        if self.asks and "question_answers" not in context.input_artifact:
            return StageResult(self.name, StageStatus.PENDING, escalation_reason="Which?")
        if self.fails:
            return StageResult(self.name, StageStatus.FAILED, error="no plan")
        return StageResult(self.name, StageStatus.COMPLETED, artifact={self.name: True})

    def on_exit(self, context: StageContext, result: StageResult) -> None:
        self.noted.append(f"exit {result.success}")


def orchestrator(project: Path, **stages: Noted) -> Orchestrator:
    nodes = [{"id": kind.value, "stage": kind.value} for kind in StageType]
    content = {"name": "quad", "request": "required", "settings": "orchestration", "nodes": nodes}
    (project / "quad.yaml").write_text(yaml.safe_dump(content))
    own = {kind: stages.get(kind.value) or Noted(kind.value) for kind in StageType}
    return Orchestrator(project, "quad.yaml", own)


def ran(made: Orchestrator, options: OrchestratorOptions | None = None) -> OrchestratorResult:
    return asyncio.run(made.run("s", options, request="do it"))


def test_stages_are_entered_executed_and_left_in_order(tmp_path: Path) -> None:
    planner = Noted("planner")
    result = ran(orchestrator(tmp_path, planner=planner))
    assert (result.success, result.final_state) == (True, RunStatus.COMPLETED)
    assert planner.noted == ["enter planner", "execute", "exit True"]
    assert [one.stage_name for one in result.stage_results] == [kind.value for kind in StageType]
    assert all(one.status is StageStatus.COMPLETED for one in result.stage_results)
    assert (result.stage_results[0].artifact or {})["planner"] is True
    assert [one.stage for one in result.metrics] == [kind.value for kind in StageType]


def test_options_are_settings_of_the_pipeline(tmp_path: Path) -> None:
    ran(orchestrator(tmp_path), OPTIONS)
    first, second = Engine(tmp_path).status("s").plan.stages[:2]
    assert (first.timeout, second.timeout) == (7, None)
    assert (first.limits, first.tokens) == (plan.Limits(cycles=2), plan.TokenBudget(total=9_000))


def test_bad_options_start_nothing(tmp_path: Path) -> None:
    planner = Noted("planner")
    with pytest.raises(DefinitionError, match="cycle_limit"):
        ran(orchestrator(tmp_path, planner=planner), OrchestratorOptions(cycle_limit=11))
    assert planner.noted == []


def test_failure_ends_the_session_and_resume_repeats_the_stage(tmp_path: Path) -> None:
    planner = Noted("planner", fails=True)
    made = orchestrator(tmp_path, planner=planner)
    result = ran(made)
    (only,) = result.stage_results
    assert (result.final_state, only.status, only.error) == (RunStatus.FAILED, StageStatus.FAILED, "no plan")
    planner.fails = False
    assert asyncio.run(made.resume("s")).success
    assert planner.noted.count("execute") == 2


def test_session_that_waits_is_cancelled(tmp_path: Path) -> None:
    made = orchestrator(tmp_path, planner=Noted("planner", asks=True))
    assert ran(made).final_state is RunStatus.AWAITING_APPROVAL
    asyncio.run(made.cancel("s", "not needed"))
    assert Engine(tmp_path).status("s").status == "aborted"
