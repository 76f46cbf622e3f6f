"""The stage `analyze`: the code that a change touches, what depends on it, and what could go wrong."""

from collections.abc import Mapping
from typing import Any

from agentforge.core.contracts import READING
from agentforge.core.pipeline.llm_stage_executor import ToolBasedStageExecutor
from agentforge.core.pipeline.results import StageResult, StageStatus
from agentforge.core.pipeline.stage_context import StageContext
from agentforge.core.pipeline.stages.packaged import PackagedStage

SUBMIT = "submit_analysis"
MAX_ITERATIONS = 25
INCOMPLETE = "Analysis incomplete - tool not used"


class AnalyzeExecutor(PackagedStage, ToolBasedStageExecutor, folder="analyze"):
    """The model reads the project with tools, and submits what it found with another one."""

    artifact_type = "analysis_result"
    artifact_tool_name = SUBMIT
    carried = ("clarified_requirements", "priority")
    answer = f"call the tool `{SUBMIT}` with what you found. It ends your work."

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        super().__init__({"max_iterations": MAX_ITERATIONS, **(config or {})})
        self._said = ""
        """The text of the latest answer."""
        own = self.contract.schema["properties"]
        parts = own["analysis"]["properties"]
        fields = {name: own[name] for name in ("affected_files", "components", "dependencies", "risks")}
        summed = {"analysis_summary": parts["summary"]}
        details = {name: parts[name] for name in ("complexity", "estimated_effort")}
        schema = {
            "type": "object",
            "properties": {**summed, **fields, **details},
            "required": ["analysis_summary", "affected_files", "components"],
        }
        submit = {"name": SUBMIT, "description": "Submit the analysis.", "input_schema": schema}
        self.tools = (*READING, submit)

    def _execute(self, context: StageContext) -> StageResult:
        result = super()._execute(context)
        if result.success or not self._said.strip():
            return result
        # What the model found out isn't lost, and people see what is missing.
        found = {
            "analysis": {"summary": self._said.strip()},
            "affected_files": [],
            "components": [],
            "risks": [{"description": INCOMPLETE, "severity": "high"}],
        }
        artifact = self.artifact_of(found, context)
        return StageResult(
            self.stage_name,
            StageStatus.COMPLETED,
            artifact=artifact,
            warnings=[f"{INCOMPLETE}: {result.error}"],
        )

    def get_user_message(self, context: StageContext) -> str:  # noqa: ARG002 - the tool has the schema
        return f"Do this for the request in the context below. At the end, {self.answer}"

    def read_answer(self, llm_result: dict[str, Any], context: StageContext) -> dict[str, Any] | None:
        self._said = str(llm_result.get("response") or "")
        found = ToolBasedStageExecutor.parse_response(self, llm_result, context)
        found = found or super().read_answer(llm_result, context)
        return found and _nested(found)

    def warnings_of(self, artifact: dict[str, Any]) -> list[str]:
        empty = {"affected_files": "No affected files", "components": "No components"}
        return [warning for field, warning in empty.items() if not artifact[field]]


def _nested(found: Mapping[str, Any]) -> dict[str, Any]:
    """As the artifact has it: the summary with what belongs to it."""
    parts = {
        "summary": found.get("analysis_summary"),
        "complexity": found.get("complexity"),
        "estimated_effort": found.get("estimated_effort"),
    }
    rest = {name: value for name, value in found.items() if name not in ("analysis_summary", *parts)}
    known = {name: value for name, value in parts.items() if value is not None}
    return {**rest, "analysis": known} if known else rest


def create_analyze_executor(config: Mapping[str, Any] | None = None) -> AnalyzeExecutor:
    return AnalyzeExecutor(config)
