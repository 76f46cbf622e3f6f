"""Stages whose work is a task for a model: its settings, wrong answers, tools and feedback."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.unit.pipeline.models import AGAIN, Models
from tests.unit.pipeline.states import state

from agentforge import ProviderUnusable
from agentforge.core.harness.minimal_context import DEFAULT_MODEL, ModelFailed
from agentforge.core.pipeline import (
    LLMStageExecutor,
    StageContext,
    StageResult,
    ToolBasedStageExecutor,
)
from agentforge.testing.model_server import Call, Fault, Script, Turn

SUBMIT = {
    "name": "submit",
    "description": "Submit the analysis.",
    "input_schema": {"type": "object", "required": ["files"], "properties": {"files": {"type": "array"}}},
}


class Summary(LLMStageExecutor):
    stage_name = "summary"

    def get_system_prompt(self, context: StageContext) -> str:
        return "You summarize."

    def get_user_message(self, context: StageContext) -> str:
        return "Summarize it."

    def parse_response(self, llm_result: dict[str, Any], context: StageContext) -> dict[str, Any] | None:
        return self.extract_json_from_response(llm_result["content"])


class Analysis(ToolBasedStageExecutor):
    stage_name, artifact_tool_name = "analysis", "submit"
    tools = (SUBMIT, {"name": "read_file"}, {"name": "note", "handler": lambda text: f"noted {text}"})
    get_system_prompt, get_user_message = Summary.get_system_prompt, Summary.get_user_message


def run(executor: LLMStageExecutor, project: Path, **changes: Any) -> StageResult:
    return executor.execute({"request_id": "R"}, state(**changes), project)


def test_the_settings_of_a_stage_reach_the_model(models: Models, tmp_path: Path) -> None:
    class Tuned(Summary):
        model, max_tokens, temperature = "claude-haiku-4-5", 1234, 0.25

    models.answer('{"title": "x"}')
    assert run(Tuned(), tmp_path).artifact == {"title": "x"}
    (asked,) = models.requests
    assert asked.body is not None
    assert (asked.model, asked.tools) == ("claude-haiku-4-5", ())
    assert (asked.body["max_tokens"], asked.body["temperature"]) == (1234, 0.25)
    assert asked.body["system"][-1]["text"] == "You summarize."


def test_the_config_of_a_stage_is_stronger_than_its_class(models: Models, tmp_path: Path) -> None:
    models.answer('{"title": "x"}')
    llm = {"model": "claude-opus-4-5", "max_tokens": 99}
    assert run(Summary({"llm": llm}), tmp_path).success
    (asked,) = models.requests
    assert asked.body is not None
    assert (asked.model, asked.body["max_tokens"], asked.body["temperature"]) == ("claude-opus-4-5", 99, 0.7)


@pytest.mark.parametrize(
    ("settings", "model"),
    [
        ("provider: api\nmodel: claude-haiku-4-5\n", "claude-haiku-4-5"),
        ("provider: claude\nmodel: opus\n", DEFAULT_MODEL),
        ("", DEFAULT_MODEL),
    ],
)
def test_the_settings_of_the_project_name_the_model(
    models: Models, tmp_path: Path, settings: str, model: str
) -> None:
    (tmp_path / ".agentforge/config").mkdir(parents=True)
    (tmp_path / ".agentforge/config/settings.yaml").write_text(settings)
    models.answer('{"title": "x"}')
    assert run(Summary(), tmp_path).success
    assert models.requests[-1].model == model


def test_a_wrong_answer_is_sent_back_once(models: Models, tmp_path: Path) -> None:
    models.answer("I would say ```so```.", '{"title": "x"}')
    result = run(Summary(), tmp_path)
    assert result.artifact == {"title": "x"}
    first, second = models.requests
    assert AGAIN not in first.prompts[-1]
    assert f"{AGAIN}: no mapping could be read from it." in second.prompts[-1]
    assert "````\nI would say ```so```.\n````" in second.prompts[-1]
    assert result.usage is not None
    assert result.usage.input_tokens == 2000


def test_a_second_wrong_answer_fails_the_stage(models: Models, tmp_path: Path) -> None:
    models.answer("Prose.", "More prose.")
    result = run(Summary(), tmp_path)
    problem = "Failed to parse LLM response into artifact: no mapping could be read from it"
    assert (result.error, len(models.requests)) == (problem, 2)


def test_feedback_reaches_the_model(models: Models, tmp_path: Path) -> None:
    models.answer('{"title": "x"}')
    run(Summary(), tmp_path, pending_feedback="Be shorter!", stage_artifacts={"summary": {"title": "long"}})
    (asked,) = models.requests
    assert '"feedback": "Be shorter!"' in asked.prompts[0]
    assert '"title": "long"' in asked.prompts[0]


def test_the_last_valid_call_of_the_tool_is_the_artifact(models: Models, tmp_path: Path) -> None:
    models.follow(
        Script(
            (
                Turn("", (Call("note", {"text": "a"}),)),
                Turn("", (Call("submit", {"wrong": 1}),)),
                Turn("", (Call("submit", {"files": ["a.py"]}),)),
            )
        )
    )
    assert run(Analysis(), tmp_path).artifact == {"files": ["a.py"]}
    asked = models.requests
    assert set(asked[0].tools) == {"submit", "read_file", "note"}
    assert (asked[1].results, len(asked)) == (("noted a",), 3)


def test_a_tool_that_is_not_called_is_asked_for(models: Models, tmp_path: Path) -> None:
    models.answer("Done, I think.", "Still done.")
    result = run(Analysis(), tmp_path)
    assert result.error is not None
    assert result.error.endswith("the tool `submit` was not called with a result")
    assert "the tool `submit` was not called with a result" in models.requests[1].prompts[-1]


@pytest.mark.parametrize(
    ("results", "artifact"),
    [
        ([{"tool_name": "submit", "input": {"a": 1}, "result": "recorded"}], {"a": 1}),
        (
            [
                {"tool_name": "submit", "input": {"a": 1}, "result": {"ignored": 1}},
                {"tool_name": "submit", "input": {"a": 2}, "result": "error: $: no"},
                {"tool_name": "other", "input": {"a": 3}, "result": ""},
                {"tool_name": "submit", "input": {}, "result": ""},
                {"tool_name": "submit", "input": "text", "result": ""},
            ],
            {"a": 1},
        ),
        ([], {"final": 1}),
        (None, {"final": 1}),
    ],
)
def test_calls_are_read(tmp_path: Path, results: Any, artifact: dict[str, Any]) -> None:
    context = StageContext.from_pipeline_state(state(), "analysis", {}, tmp_path)
    reply = {"tool_results": results, "final_artifact": {"final": 1}}
    assert Analysis().parse_response(reply, context) == artifact


def test_a_stage_without_that_tool_gets_one(models: Models, tmp_path: Path) -> None:
    class Bare(Analysis):
        tools, artifact_tool_name = (), "complete"

    models.call("complete", {"title": "x"})
    assert run(Bare(), tmp_path).artifact == {"title": "x"}


def test_a_failure_of_the_model_is_final_unless_it_may_pass(models: Models, tmp_path: Path) -> None:
    models.follow(Script((Turn("x"),), faults=(Fault(401),)))
    result = run(Summary(), tmp_path)
    assert result.error is not None
    assert re.match("LLM execution failed: .* rejected the key in ANTHROPIC_API_KEY", result.error)
    models.follow(Script((Turn("x"),), faults=(Fault(429, retry_after=3600),)))
    context = StageContext.from_pipeline_state(state(), "summary", {}, tmp_path)
    with pytest.raises(ModelFailed, match="rate limited") as raised:
        Summary().run(context)
    assert raised.value.is_transient
    assert raised.value.__notes__ == ["LLM execution failed", "in the phase execute"]


def test_without_a_key_the_hint_is_shown(
    models: Models, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models.answer("x")
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    context = StageContext.from_pipeline_state(state(), "summary", {}, tmp_path)
    with pytest.raises(ProviderUnusable, match="ANTHROPIC_API_KEY is not set"):
        Summary().run(context)
