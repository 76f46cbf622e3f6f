"""Executors of stages: the phases, and what stages of models and contracts do with an answer."""

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.unit.pipeline.models import Models
from tests.unit.pipeline.states import ID, state

from agentforge.core.pipeline import (
    ContractStageExecutor,
    InputValidation,
    LLMStageExecutor,
    OutputValidation,
    StageArtifact,
    StageContext,
    StageExecutor,
    StageResult,
    StageStatus,
)

PHASES = ["initialize", "validate_input", "_execute", "validate_output", "finalize"]
CONTRACT = "inputs: {artifact: [text]}\nartifact: {type: object, required: [title]}\n"


class Noting(StageExecutor):
    """Notes its phases; its result is the artifact of the config."""

    stage_name, artifact_type = "intake", "intake_record"
    required_input_fields, output_fields = ["request_id"], ["scope"]

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self.noted: list[str] = []

    def initialize(self, context: StageContext) -> StageResult | None:
        self.noted.append("initialize")
        early: StageResult | None = self.config.get("early")
        return early

    def validate_input(self, context: StageContext) -> InputValidation:
        self.noted.append("validate_input")
        return super().validate_input(context)

    def _execute(self, context: StageContext) -> StageResult:
        self.noted.append("_execute")
        artifact = self.config.get("artifact", {"scope": "small"})
        return StageResult("intake", StageStatus.COMPLETED, artifact=artifact)

    def validate_output(self, artifact: dict[str, Any] | None) -> OutputValidation:
        self.noted.append("validate_output")
        return super().validate_output(artifact)

    def finalize(self, context: StageContext, result: StageResult) -> None:
        self.noted.append("finalize")
        super().finalize(context, result)


def execute(executor: StageExecutor, project: Path, artifact: dict[str, Any] | None = None) -> StageResult:
    return executor.execute({"request_id": "R"} if artifact is None else artifact, state(), project)


class TestStageExecutor:
    def test_execute_calls_lifecycle_methods_in_order(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.INFO, "agentforge.core.pipeline")
        executor = Noting()
        result = execute(executor, tmp_path)
        assert (result.success, result.artifact, executor.noted) == (True, {"scope": "small"}, PHASES)
        assert [line for line in caplog.messages if line.startswith("Stage ")] == [
            f"Stage intake: {phase}"
            for phase in ("Initializing", "Validating input", "Executing", "Validating output", "Finalizing")
        ]

    def test_execute_stops_on_input_validation_failure(self, tmp_path: Path) -> None:
        executor = Noting()
        result = execute(executor, tmp_path, {})
        assert result.error == "Input validation failed: ['Missing required field: request_id']"
        assert (result.status, executor.noted) == (StageStatus.FAILED, PHASES[:2])

    def test_execute_stops_on_output_validation_failure(self, tmp_path: Path) -> None:
        executor = Noting({"artifact": {"other": 1}})
        result = execute(executor, tmp_path)
        assert result.error == "Output validation failed: ['Missing output field: scope']"
        assert (result.artifact, executor.noted) == ({"other": 1}, PHASES[:4])

    @pytest.mark.parametrize("status", StageStatus)
    def test_initialize_failure_stops_execution(self, tmp_path: Path, status: StageStatus) -> None:
        executor = Noting({"early": StageResult("intake", status, error="not today")})
        assert execute(executor, tmp_path).error == "not today"
        assert executor.noted == PHASES[:1]

    def test_escalate_returns_pending_status(self, tmp_path: Path) -> None:
        context = StageContext.from_pipeline_state(state(), "intake", {}, tmp_path)
        result = Noting().escalate(context, "Which provider?", {"half": 1})
        assert (result.status, result.escalation_reason) == (StageStatus.PENDING, "Which provider?")
        assert (result.escalated, result.success, result.artifact) == (True, False, {"half": 1})

    def test_save_artifact_creates_yaml_file(self, tmp_path: Path) -> None:
        context = StageContext.from_pipeline_state(state(), "intake", {}, tmp_path)
        path = Noting()._save_artifact(context, {"scope": "small"})
        assert path == tmp_path / f".agentforge/artifacts/{ID}/00-intake.yaml"
        found = yaml.safe_load(path.read_text())
        assert (found["scope"], found["_artifact_meta"]["artifact_type"]) == ("small", "intake_record")
        assert found["_metadata"].keys() == {"pipeline_id", "iteration", "tokens_used", "duration_seconds"}


class Scripted:
    """Stands for a MinimalContextExecutor: returns the replies of the test, one after the other."""

    def __init__(self, *texts: str) -> None:
        self.replies = [{"response": text} for text in texts]
        self.tasks: list[dict[str, Any]] = []

    def execute_task(
        self,
        task_description: str,
        system_prompt: str = "",
        context: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        max_iterations: int = 10,
    ) -> dict[str, Any]:
        self.tasks.append(
            {"task": task_description, "system": system_prompt, "tools": tools, **(context or {})}
        )
        return self.replies.pop(0)


class Summary(LLMStageExecutor):
    stage_name = "summary"

    def get_system_prompt(self, context: StageContext) -> str:
        return "You summarize."

    def get_user_message(self, context: StageContext) -> str:
        return f"Summarize {context.user_request}"

    def parse_response(self, llm_result: dict[str, Any], context: StageContext) -> dict[str, Any] | None:
        return self.extract_yaml_from_response(llm_result["response"])


def summary(*texts: str) -> tuple[Summary, Scripted]:
    executor, scripted = Summary(), Scripted(*texts)
    executor._executor = scripted  # type: ignore[assignment]
    return executor, scripted


class TestLLMStageExecutor:
    def test_execute_calls_get_prompts_and_parse(self, tmp_path: Path) -> None:
        executor, scripted = summary("title: OAuth2")
        assert execute(executor, tmp_path).artifact == {"title": "OAuth2"}
        (task,) = scripted.tasks
        assert (task["task"], task["system"]) == ("Summarize Add OAuth2 authentication", "You summarize.")
        assert (task["pipeline_id"], task["input_artifact"], task["tools"]) == (ID, {"request_id": "R"}, None)

    def test_extract_yaml_from_response_handles_code_block(self) -> None:
        text = "For example:\n```yaml\na: 1\n```\nHere:\n```yaml\na: 2\n```\nDone."
        assert Summary().extract_yaml_from_response(text) == {"a": 2}

    def test_extract_yaml_from_response_handles_raw_yaml(self) -> None:
        assert Summary().extract_yaml_from_response("a: 1\nb: [x]\n") == {"a": 1, "b": ["x"]}


@pytest.fixture
def contract(tmp_path: Path) -> str:
    folder = tmp_path / "contracts/my.title.v1"
    folder.mkdir(parents=True)
    (folder / "stage.yaml").write_text(CONTRACT)
    (folder / "prompt.md").write_text("Find a title.\n\n${BRIEFING}\n")
    return "my.title.v1"


class TestContractStageExecutor:
    def test_input_mapping_transforms_artifact(self, tmp_path: Path, models: Models, contract: str) -> None:
        models.answer('{"title": "OAuth2"}')
        mapping = {"text": "user_request", "scope": "detected_scope", "all": None}
        executor = ContractStageExecutor("title", contract, mapping, config={"defaults": {"scope": "none"}})
        assert execute(executor, tmp_path, {"detected_scope": "bug_fix"}).success
        (asked,) = models.requests
        assert '"text": "Add OAuth2 authentication"' in asked.prompts[0]
        assert '"scope": "bug_fix"' in asked.prompts[0]
        assert '"detected_scope": "bug_fix"' in asked.prompts[0]

    def test_output_mapping_transforms_result(self, tmp_path: Path, models: Models, contract: str) -> None:
        models.answer('{"title": "OAuth2", "why": "it says so"}')
        executor = ContractStageExecutor("title", contract, {"text": "user_request"}, {"title": "heading"})
        result = execute(executor, tmp_path, {"request_id": "R", "kept": 1})
        assert result.artifact == {"request_id": "R", "kept": 1, "heading": "OAuth2"}


class TestStageArtifact:
    def test_to_dict_includes_metadata(self) -> None:
        at = datetime(2026, 1, 2, tzinfo=UTC)
        found = StageArtifact("intake", "intake_record", created_at=at, data={"a": 1}, metadata={"b": 2})
        assert found.to_dict() == {
            "_artifact_meta": {
                "stage_name": "intake",
                "artifact_type": "intake_record",
                "version": "1.0",
                "created_at": "2026-01-02T00:00:00+00:00",
            },
            "a": 1,
            "_metadata": {"b": 2},
        }

    def test_from_dict_restores_artifact(self) -> None:
        before = StageArtifact("intake", "intake_record", data={"a": [1]}, metadata={"iteration": 0})
        given = before.to_dict()
        assert StageArtifact.from_dict(given) == before
        assert given == before.to_dict()

    def test_save_and_load_roundtrip(self, tmp_path: Path) -> None:
        before = StageArtifact("intake", "intake_record", data={"text": "two\nlines"}, metadata={"tokens": 1})
        before.save(tmp_path / "00-intake.yaml")
        assert StageArtifact.load(tmp_path / "00-intake.yaml") == before
