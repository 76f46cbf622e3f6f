"""What a stage is given, and what the checks of its input and its output say."""

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentforge.core.pipeline.state import PipelineState

DEFAULT_TIMEOUT = 600
DEFAULT_TOKENS = 100_000


@dataclass
class StageContext:
    """What a stage is given: copies, so that it changes nothing of the pipeline."""

    pipeline_id: str
    pipeline_type: str
    stage_name: str
    stage_index: int
    input_artifact: dict[str, Any]
    """The artifacts of earlier stages, merged, with the ids of the engine; `question_answers` has the answers
    to what the stage has asked."""
    user_request: str
    project_path: Path
    agentforge_path: Path
    completed_stages: list[str] = field(default_factory=list)
    stage_artifacts: dict[str, dict[str, Any]] = field(default_factory=dict)
    iteration: int = 0
    """How often feedback has run the stage again."""
    previous_feedback: str | None = None
    previous_attempt: dict[str, Any] | None = None
    """The artifact that the feedback is about."""
    timeout_seconds: int = DEFAULT_TIMEOUT
    max_tokens: int = DEFAULT_TOKENS
    saves_artifact: bool = False
    """Whether `finalize` writes the artifact's file: in a run, the engine writes it."""

    def __post_init__(self) -> None:
        for name in ("input_artifact", "completed_stages", "stage_artifacts", "previous_attempt"):
            setattr(self, name, copy.deepcopy(getattr(self, name)))

    @classmethod
    def from_pipeline_state(
        cls,
        state: PipelineState,
        stage_name: str,
        input_artifact: dict[str, Any],
        project_path: str | os.PathLike[str],
        config: Mapping[str, Any] | None = None,
    ) -> "StageContext":
        """For a stage outside of a run. `config`: may have `timeout_seconds` and `max_tokens`."""
        project, limits = Path(project_path), config or {}
        return cls(
            pipeline_id=state.pipeline_id,
            pipeline_type=state.pipeline_type,
            stage_name=stage_name,
            stage_index=state.current_stage_index,
            input_artifact=input_artifact,
            user_request=state.user_request,
            project_path=project,
            agentforge_path=project / ".agentforge",
            completed_stages=state.completed_stages,
            stage_artifacts=state.stage_artifacts,
            iteration=state.iteration_count.get(stage_name, 0),
            previous_feedback=state.pending_feedback,
            previous_attempt=state.pending_artifact or state.stage_artifacts.get(stage_name),
            timeout_seconds=limits.get("timeout_seconds", min(DEFAULT_TIMEOUT, state.config.timeout_seconds)),
            max_tokens=limits.get("max_tokens", DEFAULT_TOKENS),
            saves_artifact=True,
        )


@dataclass
class InputValidation:
    valid: bool
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass
class OutputValidation:
    valid: bool
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
