"""The stage `spec`: what is to be built, so that its tests and its code can be written."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from agentforge import artifact_id, write_yaml
from agentforge.core.pipeline.results import StageResult
from agentforge.core.pipeline.stage_context import StageContext
from agentforge.core.pipeline.stages.packaged import PackagedStage

SPEC_ID = "spec_id"


class SpecExecutor(PackagedStage, folder="spec"):
    artifact_type = "specification"

    def given_fields(self, context: StageContext) -> dict[str, Any]:
        given = super().given_fields(context)
        # The same as the engine gives it, so that both name the same specification.
        return {**given, SPEC_ID: artifact_id(SPEC_ID, context.stage_name, given["request_id"])}

    def artifact_of(self, found: Mapping[str, Any], context: StageContext) -> dict[str, Any]:
        return super().artifact_of({"created_at": datetime.now(UTC).isoformat(), **found}, context)

    def finalize(self, context: StageContext, result: StageResult) -> None:
        """Outside of a run, the specification is saved, too."""
        super().finalize(context, result)
        if context.saves_artifact and result.artifact:
            spec_id = result.artifact[SPEC_ID]
            write_yaml(context.agentforge_path / "specs" / f"{spec_id}.yaml", result.artifact)

    def warnings_of(self, artifact: dict[str, Any]) -> list[str]:
        empty = {"test_cases": "No test cases", "acceptance_criteria": "No acceptance criteria"}
        return [
            *(f"Component {one['name']} has no file path" for one in _without_path(artifact)),
            *(warning for field, warning in empty.items() if not artifact.get(field)),
        ]


def _without_path(artifact: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for one in artifact["components"] if not one.get("file_path")]


def create_spec_executor(config: Mapping[str, Any] | None = None) -> SpecExecutor:
    return SpecExecutor(config)
