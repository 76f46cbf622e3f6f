"""The stage `intake`: what a request asks for, and what it leaves open."""

from collections.abc import Mapping
from typing import Any

from agentforge.core.pipeline.stages.packaged import PackagedStage

PRIORITIES = ("low", "medium", "high", "critical")
BLOCKING = "blocking"


class IntakeExecutor(PackagedStage, folder="intake"):
    artifact_type = "intake_record"

    def warnings_of(self, artifact: dict[str, Any]) -> list[str]:
        found = []
        if artifact["priority"] not in PRIORITIES:
            found.append(f"Invalid priority: {artifact['priority']}")
        if artifact["detected_scope"] == "unclear" and not artifact.get("initial_questions"):
            found.append("The scope is unclear, and there are no questions")
        return found


def create_intake_executor(config: Mapping[str, Any] | None = None) -> IntakeExecutor:
    return IntakeExecutor(config)
