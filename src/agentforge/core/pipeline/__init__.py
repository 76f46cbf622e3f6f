"""Pipelines of stages that are Python classes: what programs import. Names are loaded on first use."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentforge.core.pipeline.artifacts import AnalyzeArtifact as AnalyzeArtifact
    from agentforge.core.pipeline.artifacts import ClarifyArtifact as ClarifyArtifact
    from agentforge.core.pipeline.artifacts import DeliverArtifact as DeliverArtifact
    from agentforge.core.pipeline.artifacts import GreenArtifact as GreenArtifact
    from agentforge.core.pipeline.artifacts import IntakeArtifact as IntakeArtifact
    from agentforge.core.pipeline.artifacts import RedArtifact as RedArtifact
    from agentforge.core.pipeline.artifacts import RefactorArtifact as RefactorArtifact
    from agentforge.core.pipeline.artifacts import SpecArtifact as SpecArtifact
    from agentforge.core.pipeline.contract_stage_executor import (
        ContractStageExecutor as ContractStageExecutor,
    )
    from agentforge.core.pipeline.controller import PipelineController as PipelineController
    from agentforge.core.pipeline.escalation import ApprovalResult as ApprovalResult
    from agentforge.core.pipeline.escalation import DefaultEscalationHandler as DefaultEscalationHandler
    from agentforge.core.pipeline.escalation import EscalationHandler as EscalationHandler
    from agentforge.core.pipeline.escalation import EscalationResolution as EscalationResolution
    from agentforge.core.pipeline.llm_stage_executor import LLMStageExecutor as LLMStageExecutor
    from agentforge.core.pipeline.llm_stage_executor import ToolBasedStageExecutor as ToolBasedStageExecutor
    from agentforge.core.pipeline.registry import StageExecutorRegistry as StageExecutorRegistry
    from agentforge.core.pipeline.results import PipelineConfig as PipelineConfig
    from agentforge.core.pipeline.results import PipelineResult as PipelineResult
    from agentforge.core.pipeline.results import PipelineStatus as PipelineStatus
    from agentforge.core.pipeline.results import StageResult as StageResult
    from agentforge.core.pipeline.results import StageStatus as StageStatus
    from agentforge.core.pipeline.stage_executor import InputValidation as InputValidation
    from agentforge.core.pipeline.stage_executor import OutputValidation as OutputValidation
    from agentforge.core.pipeline.stage_executor import StageArtifact as StageArtifact
    from agentforge.core.pipeline.stage_executor import StageContext as StageContext
    from agentforge.core.pipeline.stage_executor import StageExecutor as StageExecutor
    from agentforge.core.pipeline.stage_executor import StagePhase as StagePhase
    from agentforge.core.pipeline.stages.analyze import AnalyzeExecutor as AnalyzeExecutor
    from agentforge.core.pipeline.stages.analyze import create_analyze_executor as create_analyze_executor
    from agentforge.core.pipeline.stages.clarify import ClarifyExecutor as ClarifyExecutor
    from agentforge.core.pipeline.stages.clarify import create_clarify_executor as create_clarify_executor
    from agentforge.core.pipeline.stages.green import GreenPhaseExecutor as GreenPhaseExecutor
    from agentforge.core.pipeline.stages.green import create_green_executor as create_green_executor
    from agentforge.core.pipeline.stages.intake import IntakeExecutor as IntakeExecutor
    from agentforge.core.pipeline.stages.intake import create_intake_executor as create_intake_executor
    from agentforge.core.pipeline.stages.red import RedPhaseExecutor as RedPhaseExecutor
    from agentforge.core.pipeline.stages.red import create_red_executor as create_red_executor
    from agentforge.core.pipeline.stages.refactor import RefactorPhaseExecutor as RefactorPhaseExecutor
    from agentforge.core.pipeline.stages.refactor import create_refactor_executor as create_refactor_executor
    from agentforge.core.pipeline.stages.spec import SpecExecutor as SpecExecutor
    from agentforge.core.pipeline.stages.spec import create_spec_executor as create_spec_executor
    from agentforge.core.pipeline.state import PipelineState as PipelineState
    from agentforge.core.pipeline.state_store import PipelineStateStore as PipelineStateStore
    from agentforge.core.pipeline.templates import PipelineTemplateLoader as PipelineTemplateLoader
    from agentforge.core.pipeline.validator import ArtifactValidator as ArtifactValidator
    from agentforge.core.pipeline.validator import ValidationResult as ValidationResult

_HOME = {
    "artifacts": (
        "AnalyzeArtifact",
        "ClarifyArtifact",
        "DeliverArtifact",
        "GreenArtifact",
        "IntakeArtifact",
        "RedArtifact",
        "RefactorArtifact",
        "SpecArtifact",
    ),
    "controller": ("PipelineController",),
    "escalation": (
        *("ApprovalResult", "DefaultEscalationHandler", "EscalationHandler", "EscalationResolution"),
    ),
    "contract_stage_executor": ("ContractStageExecutor",),
    "llm_stage_executor": ("LLMStageExecutor", "ToolBasedStageExecutor"),
    "registry": ("StageExecutorRegistry",),
    "results": (
        "PipelineConfig",
        "PipelineResult",
        "PipelineStatus",
        "StageResult",
        "StageStatus",
    ),
    "stage_executor": (
        *("InputValidation", "OutputValidation", "StageArtifact", "StageContext", "StageExecutor"),
        "StagePhase",
    ),
    "state": ("PipelineState",),
    "state_store": ("PipelineStateStore",),
    "stages.analyze": ("AnalyzeExecutor", "create_analyze_executor"),
    "stages.clarify": ("ClarifyExecutor", "create_clarify_executor"),
    "stages.green": ("GreenPhaseExecutor", "create_green_executor"),
    "stages.red": ("RedPhaseExecutor", "create_red_executor"),
    "stages.refactor": ("RefactorPhaseExecutor", "create_refactor_executor"),
    "stages.intake": ("IntakeExecutor", "create_intake_executor"),
    "stages.spec": ("SpecExecutor", "create_spec_executor"),
    "templates": ("PipelineTemplateLoader",),
    "validator": (
        "ArtifactValidator",
        "ValidationResult",
    ),
}
_MODULES = {name: f"{__name__}.{module}" for module, names in _HOME.items() for name in names}

__all__ = [*_MODULES]  # noqa: PLE0604 - a list of strings


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
