"""The executors of the built-in stages, one after the other, with a model that is called directly."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.design.story import ARTIFACTS, QUESTION, REQUEST
from tests.unit.pipeline.scripted_stages import Analyze, Clarify, Intake, Spec, yaml_of
from tests.unit.pipeline.states import state

from agentforge.core.pipeline import PipelineController, PipelineStatus
from agentforge.core.pipeline.results import StageResult
from agentforge.core.pipeline.stages.analyze import create_analyze_executor
from agentforge.core.pipeline.stages.clarify import create_clarify_executor
from agentforge.core.pipeline.stages.intake import create_intake_executor
from agentforge.core.pipeline.stages.spec import create_spec_executor
from agentforge.testing.model_server import Call, ModelServer, Rule, Script, Turn

SUBMITTED = {
    "analysis_summary": "There is no login.",
    "affected_files": ["app.py"],
    "components": [{"name": "x"}],
}


def answers(stage: str, **changes: Any) -> tuple[Turn, ...]:
    return (Turn(f"```yaml\n{json.dumps({**ARTIFACTS[stage], **changes})}\n```"),)


ANSWERS = Script(
    rules=(
        Rule('"stage_name": "intake"', answers("intake", verdict="pass", initial_questions=[QUESTION])),
        Rule('"stage_name": "clarify"', answers("clarify")),
        Rule('"stage_name": "spec"', answers("spec")),
    )
)
SUBMITS = Script(
    (
        Turn("I read.", (Call("read_file", {"path": "app.py"}),)),
        Turn("I submit.", (Call("submit_analysis", SUBMITTED),)),
    )
)


def test_a_request_becomes_a_specification(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "of-nobody")
    (tmp_path / "app.py").write_text("print('hello')\n")
    with ModelServer() as server:
        llm = {"model": "anthropic:claude-sonnet-5-5", "api_key_env": "MY_KEY", "temperature": None}
        config = {"llm": {**llm, "base_url": server.url(ANSWERS, "answers")}}
        with_tools = {"llm": {**llm, "base_url": server.url(SUBMITS, "tools")}}
        artifact: dict[str, Any] = {}

        def execute(executor: Any, **more: Any) -> StageResult:
            result: StageResult = executor.execute(
                {**artifact, **more}, state(user_request=REQUEST), tmp_path
            )
            assert not result.error, result.error
            artifact.update(result.artifact or {})
            return result

        execute(create_intake_executor(config))
        clarify = create_clarify_executor(config)
        assert execute(clarify).escalated
        execute(clarify, question_answers={QUESTION["question"]: "GitHub"})
        execute(create_analyze_executor(with_tools))
        last = execute(create_spec_executor(config))
        assert last.usage is not None
        assert last.usage.input_tokens
        (read,) = server.requests("tools")[-1].replies
    assert read.calls == ("read_file",)
    assert artifact["clarified_requirements"] == "Log in with GitHub."
    assert artifact["affected_files"] == ["app.py"]
    assert (tmp_path / ".agentforge/specs" / f"{artifact['spec_id']}.yaml").exists()


def test_the_executors_run_the_pipeline_of_that_name(tmp_path: Path) -> None:
    made = PipelineController(tmp_path, config_override={"supervised": False})
    open_question = yaml_of(**{**ARTIFACTS["intake"], "verdict": None}, initial_questions=[QUESTION])
    scripted = {
        "intake": Intake().answers(open_question),
        "clarify": Clarify().answers(yaml_of(**ARTIFACTS["clarify"])),
        "analyze": Analyze().answers(SUBMITTED),
        "spec": Spec().answers(yaml_of(**ARTIFACTS["spec"])),
    }
    for stage, executor in scripted.items():
        made.stage_registry.register(stage, executor)
    asked = made.execute(REQUEST, "design")
    assert asked.status is PipelineStatus.PAUSED, asked.error
    assert made.provide_feedback(asked.pipeline_id, "GitHub")
    result = made.execute(resume_pipeline_id=asked.pipeline_id)
    assert result.status is PipelineStatus.COMPLETED, result.error
    assert result.stages_completed == list(scripted)
    assert "GitHub" in scripted["clarify"].answered_with
    (spec,) = (tmp_path / ".agentforge/specs").glob("SPEC-*.yaml")
    assert result.deliverable is not None
    assert result.deliverable["spec_id"] == spec.stem
    assert result.deliverable["clarified_requirements"] == "Log in with GitHub."
