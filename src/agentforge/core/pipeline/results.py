"""The status of a pipeline and of its stages, and what they return. Imports nothing of the package, so that
every module of it can import this one."""

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentforge.provider import Usage


class PipelineStatus(Enum):
    PENDING = "pending"
    """Created, but not started."""
    RUNNING = "running"
    PAUSED = "paused"
    """A person must answer a question or an escalation."""
    AWAITING_APPROVAL = "awaiting_approval"
    """A stage is complete, and a person must approve it."""
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"
    """A person ended it."""

    @property
    def is_final(self) -> bool:
        """Whether the pipeline has ended; one that failed can be resumed."""
        return self in (PipelineStatus.COMPLETED, PipelineStatus.FAILED, PipelineStatus.ABORTED)


class StageStatus(Enum):
    PENDING = "pending"
    """Also of a stage that waits for a person."""
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass
class StageResult:
    stage_name: str
    status: StageStatus
    artifact: dict[str, Any] | None = None
    error: str | None = None
    escalation_reason: str | None = None
    """What a person must decide before the stage can continue."""
    duration_seconds: float = 0.0
    warnings: list[str] = field(default_factory=list)
    """Of the validation of its input and its output."""
    usage: "Usage | None" = None
    """What its models used."""

    @property
    def success(self) -> bool:
        return self.status is StageStatus.COMPLETED

    @property
    def escalated(self) -> bool:
        return self.escalation_reason is not None


@dataclass
class PipelineResult:
    success: bool
    pipeline_id: str
    status: PipelineStatus
    current_stage: str | None = None
    deliverable: dict[str, Any] | None = None
    error: str | None = None
    stages_completed: list[str] = field(default_factory=list)
    total_duration_seconds: float = 0.0

    def __post_init__(self) -> None:
        # A result doesn't change with the state that it was made from.
        self.stages_completed = list(self.stages_completed)


@dataclass
class PipelineConfig:
    pipeline_type: str
    """Such as design, implement, fix, test, or a template of the project."""
    stages: list[str]
    """In their order."""
    exit_after: str | None = None
    """The stage after which the pipeline completes."""
    supervised: bool = False
    """Whether a person must approve each stage."""
    iteration_enabled: bool = True
    """Whether feedback runs a stage again; without, it is a rejection."""
    max_iterations_per_stage: int = 3
    timeout_seconds: int = 3600
