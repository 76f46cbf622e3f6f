"""A run that agent-pipelines' own engine began, as ours takes it up: where it stood and what it left."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from agentforge.model.result import Decision


class DoneStage(Struct, frozen=True):
    name: str
    path: str
    iterations: int
    completed_at: datetime
    reason: str


class StagePosition(Struct, frozen=True, omit_defaults=True):
    """How far a stage was that hadn't ended."""

    path: str
    completed: int
    last_decision: Decision | None = None
    judged: int = 0
    stops: int = 0
    plateaus: int = 0
    judge_failures: int = 0


class BranchPosition(Struct, frozen=True, omit_defaults=True):
    provider: str
    status: Literal["pending", "running", "completed", "failed"]
    stages: tuple[DoneStage, ...] = ()
    stage: StagePosition | None = None
    started_at: datetime | None = None


class BlockPosition(Struct, frozen=True):
    path: str
    branches: tuple[BranchPosition, ...]


class StageLeft(Struct, frozen=True, omit_defaults=True):
    """What the iterations of one stage left behind."""

    path: str
    iterations: int
    outputs: tuple[str, ...]
    """Every output.md that exists, oldest first; the latest ones, if they are many."""
    omitted: int = 0
    result_file: str = ""
    reason: str = ""
    provider: str | None = None
