"""The executors that a program registered for the stages of its pipelines, by name."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from agentforge import InvalidRequest
from agentforge.core.pipeline.results import PipelineConfig, PipelineStatus, StageResult
from agentforge.core.pipeline.stage_executor import StageContext, StageExecutor
from agentforge.core.pipeline.state import PipelineState

logger = logging.getLogger("agentforge.core.pipeline")


class ExecutesStages(Protocol):
    """What a registered executor must have; `StageExecutor` is one."""

    def execute(
        self, input_artifact: dict[str, Any], pipeline_state: PipelineState, project_path: Path
    ) -> StageResult: ...


Factory = Callable[[], ExecutesStages]


class StageExecutorRegistry:
    """The latest registration of a stage counts."""

    def __init__(self) -> None:
        self._factories: dict[str, Factory] = {}
        self._instances: dict[str, ExecutesStages] = {}
        """Those that `get` returned."""

    def register(self, stage_name: str, executor: ExecutesStages) -> None:
        """An instance, which all runs share. Raises InvalidRequest if it isn't an executor."""
        _refuse_others(executor, stage_name)
        self._put(stage_name, lambda: executor)

    def register_factory(self, stage_name: str, factory: Factory) -> None:
        """Called once for each run, whose executor then keeps nothing of another run."""
        if not callable(factory):
            what = f"the factory for the stage {stage_name!r} can't be called"
            raise InvalidRequest(what, hint="pass a class or a function without arguments")
        self._put(stage_name, factory)

    def _put(self, stage_name: str, factory: Factory) -> None:
        self._factories[stage_name] = factory
        self._instances.pop(stage_name, None)
        logger.debug("Registered executor for stage: %s", stage_name)

    def get(self, stage_name: str) -> ExecutesStages | None:
        """What was registered, or what its factory made first; None for other stages."""
        if stage_name not in self._instances and stage_name in self._factories:
            self._instances.setdefault(stage_name, self._factories[stage_name]())
        return self._instances.get(stage_name)

    def create(self, stage_name: str) -> StageExecutor:
        """The executor for one run. Raises InvalidRequest if nothing usable is registered."""
        if stage_name not in self._factories:
            what = f"No executor registered for stage: {stage_name}"
            raise InvalidRequest(what, hint=f"register one with `register({stage_name!r}, …)`")
        return complete_executor(self._factories[stage_name](), stage_name)

    def list_stages(self) -> list[str]:
        return sorted(self._factories)

    def has_stage(self, stage_name: str) -> bool:
        return stage_name in self._factories


def complete_executor(executor: object, stage_name: str) -> StageExecutor:
    """An executor as the engine runs it: one that only has `execute` gets the phases around it. Raises
    InvalidRequest if it lacks that method."""
    _refuse_others(executor, stage_name)
    complete = executor if isinstance(executor, StageExecutor) else _Adapted(executor)
    if complete.stage_name == StageExecutor.stage_name:
        complete.stage_name = stage_name
    return complete


class _Adapted(StageExecutor):
    def __init__(self, executor: Any) -> None:
        super().__init__()
        self._inner: ExecutesStages = executor

    def _execute(self, context: StageContext) -> StageResult:
        return self._inner.execute(context.input_artifact, _state(context), context.project_path)


def _state(context: StageContext) -> PipelineState:
    stages = [*context.completed_stages, context.stage_name]
    return PipelineState(
        pipeline_id=context.pipeline_id,
        pipeline_type=context.pipeline_type,
        config=PipelineConfig(context.pipeline_type, stages, timeout_seconds=context.timeout_seconds),
        user_request=context.user_request,
        context={},
        status=PipelineStatus.RUNNING,
        current_stage_index=context.stage_index,
        current_stage=context.stage_name,
        completed_stages=context.completed_stages,
        stage_artifacts=context.stage_artifacts,
        iteration_count={context.stage_name: context.iteration},
        pending_feedback=context.previous_feedback,
        pending_artifact=context.previous_attempt,
    )


def _refuse_others(executor: object, stage_name: str) -> None:
    what = f"the executor of the stage {stage_name!r}"
    if isinstance(executor, type):
        hint = f"register an instance, {executor.__name__}(), or the class as a factory"
        raise InvalidRequest(f"{what} is the class {executor.__name__}", hint=hint)
    if not callable(getattr(executor, "execute", None)):
        hint = "derive its class from StageExecutor"
        raise InvalidRequest(f"{what} ({type(executor).__name__}) has no method `execute`", hint=hint)
