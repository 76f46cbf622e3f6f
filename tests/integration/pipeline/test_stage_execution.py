"""Stages outside of a run: a model on loopback, real files, and what is left in the project."""

from pathlib import Path
from typing import Any

import yaml
from tests.unit.pipeline.models import Models
from tests.unit.pipeline.states import ID, state

from agentforge.core.pipeline import (
    ArtifactValidator,
    ContractStageExecutor,
    IntakeArtifact,
    LLMStageExecutor,
    StageArtifact,
    StageContext,
)

RECORD = """\
Here is the record.

```yaml
request_id: REQ-1
original_request: Add OAuth2 authentication
detected_scope: feature_addition
priority: high
initial_questions:
  - question: Which provider?
    priority: blocking
```
"""


class Intake(LLMStageExecutor):
    stage_name, artifact_type = "intake", "intake_record"
    output_fields = ("request_id", "detected_scope")

    def get_system_prompt(self, context: StageContext) -> str:
        return "You record requests."

    def get_user_message(self, context: StageContext) -> str:
        return f"Record this request: {context.user_request}"

    def parse_response(self, llm_result: dict[str, Any], context: StageContext) -> dict[str, Any] | None:
        return self.extract_yaml_from_response(llm_result["response"])


class TestStageExecution:
    def test_llm_stage_produces_artifact(self, models: Models, tmp_path: Path) -> None:
        models.answer(RECORD)
        result = Intake().execute({}, state(), tmp_path)
        assert result.artifact is not None
        assert IntakeArtifact(**result.artifact).initial_questions[0]["question"] == "Which provider?"
        assert ArtifactValidator().validate_transition("intake", "clarify", result.artifact).valid

    def test_contract_stage_executes_contract(self, models: Models, tmp_path: Path) -> None:
        models.answer('{"detected_scope": "bug_fix", "priority": "high", "initial_questions": []}')
        executor = ContractStageExecutor(
            stage_name="intake",
            contract_id="spec.intake.v1",
            input_mapping={"raw_request": "user_request"},
            output_mapping={"intake_record": None},
        )
        result = executor.execute({"request_id": "REQ-1"}, state(), tmp_path)
        assert result.artifact is not None
        assert result.artifact.items() >= {"request_id": "REQ-1", "detected_scope": "bug_fix"}.items()
        assert ArtifactValidator().validate_transition("intake", "clarify", result.artifact).valid

    def test_stage_saves_artifact_to_disk(self, models: Models, tmp_path: Path) -> None:
        models.answer(RECORD)
        result = Intake().execute({}, state(), tmp_path)
        path = tmp_path / f".agentforge/artifacts/{ID}/00-intake.yaml"
        found = yaml.safe_load(path.read_text())
        assert found["_artifact_meta"]["artifact_type"] == "intake_record"
        assert (found["_metadata"]["tokens_used"], found["_metadata"]["iteration"]) == (1050, 0)
        assert StageArtifact.load(path).data == result.artifact
