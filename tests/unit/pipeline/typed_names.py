"""Every public name of the controller, as a program with strict types uses it; `make types` checks it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agentforge.core.contracts import execute_contract
from agentforge.core.harness.minimal_context import MinimalContextExecutor
from agentforge.core.orchestration import (
    Orchestrator,
    OrchestratorOptions,
    OrchestratorResult,
    Stage,
    StageMetrics,
    StageType,
)
from agentforge.core.pipeline import (
    AnalyzeArtifact,
    AnalyzeExecutor,
    ApprovalResult,
    ArtifactValidator,
    ClarifyArtifact,
    ClarifyExecutor,
    ContractStageExecutor,
    DefaultEscalationHandler,
    DeliverArtifact,
    EscalationHandler,
    EscalationResolution,
    GreenArtifact,
    GreenPhaseExecutor,
    InputValidation,
    IntakeArtifact,
    IntakeExecutor,
    LLMStageExecutor,
    OutputValidation,
    PipelineConfig,
    PipelineController,
    PipelineResult,
    PipelineState,
    PipelineStateStore,
    PipelineStatus,
    PipelineTemplateLoader,
    RedArtifact,
    RedPhaseExecutor,
    RefactorArtifact,
    RefactorPhaseExecutor,
    SpecArtifact,
    SpecExecutor,
    StageArtifact,
    StageContext,
    StageExecutor,
    StageExecutorRegistry,
    StagePhase,
    StageResult,
    StageStatus,
    ToolBasedStageExecutor,
    ValidationResult,
    create_analyze_executor,
    create_clarify_executor,
    create_green_executor,
    create_intake_executor,
    create_red_executor,
    create_refactor_executor,
    create_spec_executor,
)

ARTIFACTS: tuple[Callable[..., object], ...] = (
    *(IntakeArtifact, ClarifyArtifact, AnalyzeArtifact, SpecArtifact),
    *(RedArtifact, GreenArtifact, RefactorArtifact, DeliverArtifact),
)
EXECUTORS: tuple[type[StageExecutor], ...] = (
    *(LLMStageExecutor, ToolBasedStageExecutor),
    *(IntakeExecutor, ClarifyExecutor, AnalyzeExecutor, SpecExecutor, ContractStageExecutor),
    *(RedPhaseExecutor, GreenPhaseExecutor, RefactorPhaseExecutor),
)
FACTORIES: tuple[Callable[[], StageExecutor], ...] = (
    *(create_intake_executor, create_clarify_executor, create_analyze_executor, create_spec_executor),
    *(create_red_executor, create_green_executor, create_refactor_executor),
)


class Own(StageExecutor):
    def validate_input(self, context: StageContext) -> InputValidation:
        return InputValidation(valid=bool(context.input_artifact))

    def _execute(self, context: StageContext) -> StageResult:
        answer: dict[str, Any] = MinimalContextExecutor(context.project_path).execute_task("Work.")
        return StageResult(self.stage_name, StageStatus.COMPLETED, artifact=answer)

    def validate_output(self, artifact: dict[str, Any] | None) -> OutputValidation:
        return OutputValidation(valid=artifact is not None)

    @property
    def phase(self) -> StagePhase:
        return self._phase


class Handler(EscalationHandler):
    def wait_for_resolution(
        self, pipeline_id: str, stage: str, issue: str, context: dict[str, Any] | None = None
    ) -> EscalationResolution:
        return EscalationResolution(context={"answer": f"{pipeline_id} {stage} {issue} {context}"})

    def request_approval(
        self, pipeline_id: str, stage: str, artifact: dict[str, Any] | None
    ) -> ApprovalResult:
        return ApprovalResult(artifact is not None, f"{pipeline_id} {stage}")


class Planner(Stage):
    def execute(self, context: StageContext) -> StageResult:
        return StageResult(context.stage_name, StageStatus.COMPLETED, artifact={})


def controlled(project: Path, handler: EscalationHandler | None) -> PipelineStatus:
    override: Mapping[str, Any] = {"supervised": True}
    controller = PipelineController(project, handler or DefaultEscalationHandler(60), override)
    store: PipelineStateStore = controller.state_store
    registry: StageExecutorRegistry = controller.stage_registry
    validator: ArtifactValidator = controller.artifact_validator
    loader: PipelineTemplateLoader = controller.pipeline_templates
    config: PipelineConfig = loader.load("design")
    registry.register_factory(config.stages[0], Own)
    result: PipelineResult = controller.execute("Add a login", config.pipeline_type, {"ticket": 7})
    state: PipelineState | None = controller.get_status(result.pipeline_id)
    checked: ValidationResult = validator.validate_transition("intake", "clarify", result.deliverable)
    left = StageArtifact.from_dict(state.stage_artifacts["intake"] if state else {})
    left.data |= execute_contract("spec.intake.v1", {"user_request": str(checked.errors)})
    return state.status if state and store.get_active_count() else result.status


async def orchestrated(project: Path) -> tuple[StageMetrics, ...]:
    orchestrator = Orchestrator(project, stages={StageType.PLANNER: Planner()})
    result: OrchestratorResult = await orchestrator.run(
        "s", OrchestratorOptions(cycle_limit=2), request="Add a login"
    )
    return result.metrics
