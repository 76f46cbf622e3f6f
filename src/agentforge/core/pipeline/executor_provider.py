"""The provider of the stages that a program executes itself: its registered executors, each in a thread."""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from agentforge.core.pipeline.executor_runs import run_executor
from agentforge.core.pipeline.registry import StageExecutorRegistry
from agentforge.core.pipeline.stage_executor import StageExecutor
from agentforge.provider import Capabilities, ExecuteRequest, ExecuteResult, ProviderUnusable

STAGE = "stage"
"""The setting that names the executor."""


class ExecutorProvider:
    name = "executor"

    def __init__(self, registry: StageExecutorRegistry) -> None:
        self._registry = registry
        self._instances: dict[tuple[str, str], StageExecutor] = {}
        """One for each run and stage: executors keep what they like between two visits."""

    async def init(self) -> None:
        """Nothing to set up."""

    async def shutdown(self) -> None:
        """Runs that continue later get new instances."""
        self._instances.clear()

    def capabilities(self) -> Capabilities:
        return Capabilities(can_judge=False, reads_input=True)

    def validate(self) -> None:
        """Its executors are looked up when they are needed."""

    def lacks(self, stages: Sequence[str]) -> tuple[str, ...]:
        """The stages without an executor here."""
        return tuple(stage for stage in stages if not self._registry.has_stage(stage))

    def validate_settings(self, model: str, config: Mapping[str, Any]) -> None:  # noqa: ARG002 - no model
        stage = str(config.get(STAGE, ""))
        if not self._registry.has_stage(stage):
            raise ProviderUnusable(
                f"no executor is registered for stage {stage!r}",
                hint=f"register one with `stage_registry.register({stage!r}, …)`",
            )

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:
        assert request.given is not None
        stage, given = str(request.config[STAGE]), request.given

        def run() -> ExecuteResult:
            executor = self._instance(request.session, stage)
            return run_executor(
                executor, given, session=request.session, stage=request.stage, project=request.workdir
            )

        return await _in_daemon_thread(run)

    def _instance(self, session: str, stage: str) -> StageExecutor:
        key = (session, stage)
        if key not in self._instances:
            self._instances[key] = self._registry.create(stage)
        return self._instances[key]


async def _in_daemon_thread(run: Any) -> ExecuteResult:
    """A thread can't be ended: one whose stage has timed out must not keep the program from ending, as the
    threads of an event loop would."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[ExecuteResult] = loop.create_future()

    def settle(result: ExecuteResult | None, error: BaseException | None) -> None:
        if done.done():
            return  # The attempt has timed out, or was stopped.
        if error is not None:
            done.set_exception(error)
        elif result is not None:
            done.set_result(result)

    def work() -> None:
        result, problem = None, None
        try:
            result = run()
        except BaseException as error:
            problem = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, problem)

    threading.Thread(target=work, daemon=True, name="stage executor").start()
    return await done
