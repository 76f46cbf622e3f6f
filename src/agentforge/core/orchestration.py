"""The loop as an orchestrator: thin names over `Engine`. Plan, execute, verify and review are stages of the
pipeline `loop`; the engine counts cycles, retries stages and asks people."""

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from typing import Any

from agentforge import Engine, RunResult, RunStatus, StageMetrics, StageVisit
from agentforge.core.pipeline.executor_provider import ExecutorProvider
from agentforge.core.pipeline.registry import StageExecutorRegistry
from agentforge.core.pipeline.results import StageResult, StageStatus
from agentforge.core.pipeline.stage_executor import StageContext, StageExecutor

__all__ = [
    "Orchestrator",
    "OrchestratorOptions",
    "OrchestratorResult",
    "Stage",
    "StageContext",
    "StageMetrics",
    "StageResult",
    "StageStatus",
    "StageType",
]

PIPELINE = "loop"


class StageType(Enum):
    """The stages of the loop, by their ids."""

    PLANNER = "planner"
    EXECUTOR = "executor"
    VERIFIER = "verifier"
    REVIEWER = "reviewer"


@dataclass(frozen=True)
class OrchestratorOptions:
    """What is None is as the pipeline and the settings say."""

    planner_timeout: timedelta | None = None
    executor_timeout: timedelta | None = None
    verifier_timeout: timedelta | None = None
    reviewer_timeout: timedelta | None = None
    cycle_limit: int | None = None
    token_budget: int | None = None
    """The tokens that an iteration may be given."""

    @property
    def settings(self) -> dict[str, Any]:
        """Below `orchestration`."""
        timeouts = {f"{stage.value}_timeout": getattr(self, f"{stage.value}_timeout") for stage in StageType}
        found: dict[str, Any] = {
            name: value.total_seconds() for name, value in timeouts.items() if value is not None
        }
        others = {"cycle_limit": self.cycle_limit, "token_budget.total": self.token_budget}
        return found | {name: value for name, value in others.items() if value is not None}


@dataclass(frozen=True)
class OrchestratorResult:
    success: bool
    final_state: RunStatus
    metrics: tuple[StageMetrics, ...]
    """Of each stage that was visited."""
    stage_results: tuple[StageResult, ...]
    """Of each visit, in their order."""


class Stage(ABC):
    """A stage of one's own, for `Orchestrator(stages=…)`. An exception is retried, as in any executor."""

    def on_enter(self, context: StageContext) -> None:  # noqa: B027 - few stages need it
        """Before the work."""

    @abstractmethod
    def execute(self, context: StageContext) -> StageResult:
        """The work. Its artifact must be what the next stages of the pipeline need."""

    def on_exit(self, context: StageContext, result: StageResult) -> None:  # noqa: B027 - as above
        """After work that succeeded."""


class _Executor(StageExecutor):
    """A `Stage` as the engine runs it."""

    def __init__(self, stage: Stage, name: str) -> None:
        super().__init__()
        self.stage_name, self._stage = name, stage

    def initialize(self, context: StageContext) -> None:
        self._stage.on_enter(context)

    def _execute(self, context: StageContext) -> StageResult:
        return self._stage.execute(context)

    def finalize(self, context: StageContext, result: StageResult) -> None:
        self._stage.on_exit(context, result)


class Orchestrator:
    def __init__(
        self,
        project_path: str | os.PathLike[str] = ".",
        pipeline: str = PIPELINE,
        stages: Mapping[StageType, Stage] | None = None,
    ) -> None:
        """`stages`: what runs in place of the agents of these stages."""
        self._project, self._pipeline = project_path, pipeline
        self._registry = StageExecutorRegistry()
        for kind, stage in (stages or {}).items():
            self._registry.register(kind.value, _Executor(stage, kind.value))

    async def run(
        self, session: str, options: OrchestratorOptions | None = None, *, request: str
    ) -> OrchestratorResult:
        """Start the session, and return when it ends or needs a person."""
        settings = (options or OrchestratorOptions()).settings
        async with self._engine() as engine:
            await engine.run(
                self._pipeline,
                session=session,
                request=request,
                orchestration=settings,
                executors=tuple(self._registry.list_stages()),
            )
            return _result(engine, session)

    async def pause(self, session: str) -> None:
        """After the current iteration."""
        async with self._engine() as engine:
            await engine.pause(session)

    async def resume(self, session: str) -> OrchestratorResult:
        async with self._engine() as engine:
            await engine.resume(session)
            return _result(engine, session)

    async def cancel(self, session: str, reason: str) -> None:
        async with self._engine() as engine:
            await engine.cancel(session, reason)

    def _engine(self) -> Engine:
        return Engine(self._project, providers={"executor": ExecutorProvider(self._registry)})


def _result(engine: Engine, session: str) -> OrchestratorResult:
    work, found = engine.work(session), engine.status(session).result
    left = {(one.path, one.visit): one for one in engine.artifacts(session)}
    results = []
    for visit in work.record.visits:
        artifact = left.get((visit.path, visit.visit))
        status = _status(visit, found)
        seconds = ((visit.ended_at or visit.started_at) - visit.started_at).total_seconds()
        error = found.error if status is StageStatus.FAILED else None
        results.append(
            StageResult(visit.stage, status, artifact.value if artifact else None, error, None, seconds)
        )
    return OrchestratorResult(found.completed, found.status, tuple(work.metrics()), tuple(results))


def _status(visit: StageVisit, run: RunResult) -> StageStatus:
    if visit.skipped_by:
        return StageStatus.SKIPPED
    if visit.ended_at is None:
        return StageStatus.FAILED if run.status is RunStatus.FAILED else StageStatus.RUNNING
    return StageStatus.FAILED if visit.verdict in ("fail", "reject") else StageStatus.COMPLETED
