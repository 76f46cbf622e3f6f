"""What executes a stage in Python: a class with one method to write, `_execute`. The other phases check what
the stage gets and leaves."""

import logging
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentforge import InvalidRequest, UnusableFile
from agentforge.core.pipeline.results import StageResult, StageStatus
from agentforge.core.pipeline.stage_artifact import StageArtifact
from agentforge.core.pipeline.stage_context import InputValidation, OutputValidation, StageContext
from agentforge.core.pipeline.state import PipelineState

if TYPE_CHECKING:
    from agentforge.core.harness.minimal_context import MinimalContextExecutor
    from agentforge.provider import Usage

__all__ = [
    "InputValidation",
    "OutputValidation",
    "StageArtifact",
    "StageContext",
    "StageExecutor",
    "StagePhase",
    "StageResult",
    "StageStatus",
    "failure_text",
]

logger = logging.getLogger("agentforge.core.pipeline")

DEFAULT_ITERATIONS = 10
"""How often a model may answer in one task."""


class StagePhase(Enum):
    INITIALIZE = "initialize"
    VALIDATE_INPUT = "validate_input"
    EXECUTE = "execute"
    VALIDATE_OUTPUT = "validate_output"
    FINALIZE = "finalize"


_LOGGED = {
    StagePhase.INITIALIZE: "Initializing",
    StagePhase.VALIDATE_INPUT: "Validating input",
    StagePhase.EXECUTE: "Executing",
    StagePhase.VALIDATE_OUTPUT: "Validating output",
    StagePhase.FINALIZE: "Finalizing",
}


class StageExecutor(ABC):
    """The phases: initialize, validate_input, _execute, validate_output, finalize. A subclass writes
    `_execute`, and overrides the others as it needs; it doesn't override `execute`, which runs them."""

    stage_name: str = "unknown"
    artifact_type: str = "generic"
    required_input_fields: Sequence[str] = ()
    output_fields: Sequence[str] = ()

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        self.config: dict[str, Any] = dict(config or {})
        self._executor: MinimalContextExecutor | None = None
        self._phase = StagePhase.INITIALIZE
        self._began = time.monotonic()
        self._usage: Usage | None = None

    # -- running

    def execute(
        self,
        input_artifact: dict[str, Any],
        pipeline_state: PipelineState,
        project_path: str | os.PathLike[str],
    ) -> StageResult:
        """Execute the stage without a run of the engine. An exception is a failed result here."""
        try:
            return self.run(
                StageContext.from_pipeline_state(
                    pipeline_state, self.stage_name, input_artifact, project_path, self.config
                )
            )
        except Exception as error:
            logger.exception("Stage %s failed", self.stage_name)
            return self._complete(self._failed(failure_text(error)))

    def run(self, context: StageContext) -> StageResult:
        """All phases. What the subclass raises is raised, with a note that names the phase."""
        self._began, self._usage, self._phase = time.monotonic(), None, StagePhase.INITIALIZE
        try:
            result = self._phases(context)
        except Exception as error:
            error.add_note(f"in the phase {self._phase.value}")
            raise
        return self._complete(result)

    def _phases(self, context: StageContext) -> StageResult:
        self._enter(StagePhase.INITIALIZE)
        if (early := self.initialize(context)) is not None:
            return early
        self._enter(StagePhase.VALIDATE_INPUT)
        given = self.validate_input(context)
        if not given.valid:
            return self._failed(f"Input validation failed: {given.errors}", given.warnings)
        self._enter(StagePhase.EXECUTE)
        result: object = self._execute(context)
        if not isinstance(result, StageResult):
            kind = type(result).__name__
            raise TypeError(f"{type(self).__name__}._execute returned {kind}, not a StageResult")
        result.warnings = [*given.warnings, *result.warnings]
        if not result.success or result.escalated:
            return result
        self._enter(StagePhase.VALIDATE_OUTPUT)
        left = self.validate_output(result.artifact)
        result.warnings += left.warnings
        if not left.valid:
            result.status, result.error = StageStatus.FAILED, f"Output validation failed: {left.errors}"
            return result
        self._enter(StagePhase.FINALIZE)
        self.finalize(context, result)
        return result

    def _enter(self, phase: StagePhase) -> None:
        self._phase = phase
        logger.info("Stage %s: %s", self.stage_name, _LOGGED[phase])

    def _complete(self, result: StageResult) -> StageResult:
        result.duration_seconds = time.monotonic() - self._began
        result.usage = result.usage or self._usage
        return result

    def _failed(self, error: str, warnings: Sequence[str] = ()) -> StageResult:
        return StageResult(self.stage_name, StageStatus.FAILED, error=error, warnings=list(warnings))

    # -- the phases

    def initialize(self, context: StageContext) -> StageResult | None:  # noqa: ARG002 - for subclasses
        """Set up what the stage needs. A result ends the stage with it."""
        return None

    def validate_input(self, context: StageContext) -> InputValidation:
        missing = _missing(self.required_input_fields, context.input_artifact)
        errors = [f"Missing required field: {name}" for name in missing]
        return InputValidation(not errors, errors)

    @abstractmethod
    def _execute(self, context: StageContext) -> StageResult:
        """The work of the stage."""

    def validate_output(self, artifact: dict[str, Any] | None) -> OutputValidation:
        if artifact is None:
            return OutputValidation(valid=False, errors=["No artifact produced"])
        errors = [f"Missing output field: {name}" for name in _missing(self.output_fields, artifact)]
        return OutputValidation(not errors, errors)

    def finalize(self, context: StageContext, result: StageResult) -> None:
        """Clean up. Outside of a run, the artifact is saved here."""
        if context.saves_artifact and result.success and result.artifact:
            self._save_artifact(context, result.artifact)

    # -- for subclasses

    def escalate(
        self, context: StageContext, reason: str, partial_artifact: dict[str, Any] | None = None
    ) -> StageResult:
        """The stage waits for a person: its next attempt gets the answer."""
        logger.info("Stage %s of %s escalates: %s", self.stage_name, context.pipeline_id, reason)
        return StageResult(
            self.stage_name, StageStatus.PENDING, artifact=partial_artifact, escalation_reason=reason
        )

    def _save_artifact(self, context: StageContext, artifact: dict[str, Any]) -> Path:
        """`NN-stage.yaml`; that of an earlier attempt is kept as `NN-stage.itK.yaml`."""
        folder = context.agentforge_path / "artifacts" / context.pipeline_id
        path = folder / f"{context.stage_index:02d}-{self.stage_name}.yaml"
        _keep_earlier(path, context.iteration)
        usage = self._usage
        metadata = {
            "pipeline_id": context.pipeline_id,
            "iteration": context.iteration,
            "tokens_used": (usage.input_tokens or 0) + (usage.output_tokens or 0) if usage else 0,
            "duration_seconds": round(time.monotonic() - self._began, 3),
        }
        StageArtifact(self.stage_name, self.artifact_type, data=artifact, metadata=metadata).save(path)
        logger.info("Saved artifact: %s", path)
        return path

    def _get_executor(self, context: StageContext) -> "MinimalContextExecutor":
        """For models: made once, with the settings of the stage."""
        if self._executor is None:
            from agentforge.core.harness.minimal_context import MinimalContextExecutor

            model, config = self._model_settings()
            self._executor = MinimalContextExecutor(
                project_path=context.project_path,
                task_type=f"stage_{self.stage_name}",
                model=model,
                config=config,
                on_usage=self._count,
            )
        return self._executor

    def _model_settings(self) -> tuple[str, dict[str, Any]]:
        """The model, or an empty text for that of the project's settings; and settings of the provider
        `api`, which the stage has in `llm`."""
        config = dict(self.config.get("llm") or {})
        return str(config.pop("model", "")), config

    def _count(self, used: "Usage") -> None:
        self._usage = used if self._usage is None else _sum(self._usage, used)

    def _run_with_llm(
        self,
        context: StageContext,
        system_prompt: str,
        user_message: str,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """What `MinimalContextExecutor.execute_task` returns. The model is also told what a person said about
        the previous attempt."""
        task_context: dict[str, Any] = {
            "pipeline_id": context.pipeline_id,
            "stage_name": self.stage_name,
            "input_artifact": context.input_artifact,
            "user_request": context.user_request,
        }
        if context.previous_feedback:
            task_context |= {
                "feedback": context.previous_feedback,
                "previous_attempt": context.previous_attempt,
            }
            user_message += "\n\nTake the `feedback` on the `previous_attempt` into account."
        return self._get_executor(context).execute_task(
            task_description=user_message,
            system_prompt=system_prompt,
            context=task_context,
            tools=tools,
            max_iterations=int(self.config.get("max_iterations", DEFAULT_ITERATIONS)),
        )


def failure_text(error: BaseException) -> str:
    """What an executor raised, with its phase."""
    notes = getattr(error, "__notes__", ())
    return " ".join([str(error) or type(error).__name__, *(f"({note})" for note in dict.fromkeys(notes))])


def _keep_earlier(path: Path, iteration: int) -> None:
    try:
        before = StageArtifact.load(path) if os.path.lexists(path) else None
    except (InvalidRequest, UnusableFile):
        return  # What can't be read is replaced.
    number = before.metadata.get("iteration") if before else None
    if before and isinstance(number, int) and number != iteration:
        before.save(path.with_suffix(f".it{number}.yaml"))


def _sum(one: "Usage", other: "Usage") -> "Usage":
    def added(name: str) -> Any:
        known = [value for value in (getattr(one, name), getattr(other, name)) if value is not None]
        return sum(known) if known else None

    counts = ("input_tokens", "output_tokens", "cached_tokens", "cost_usd")
    return type(one)(**{name: added(name) for name in counts}, model=other.model)


def _missing(names: Sequence[str], artifact: Mapping[str, Any]) -> list[str]:
    return [name for name in names if artifact.get(name) is None]
