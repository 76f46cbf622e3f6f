"""The decorators that register hooks: functions that an engine calls at the points of its runs."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, overload

from agentforge.app.hooks import HookFunction, HookRegistry
from agentforge.model.hook import HookPoint, OnLost

F = TypeVar("F", bound=HookFunction)


class HookDecorator:
    """Registers a function at one point: `@engine.on_stage_end`, or with options
    `@engine.on_stage_end(stage="build")`."""

    def __init__(self, add: Callable[..., None]) -> None:
        """`add` registers a function with options."""
        self._add = add

    @overload
    def __call__(self, function: F, /) -> F: ...

    @overload
    def __call__(
        self,
        /,
        *,
        stage: str | None = None,
        name: str | None = None,
        timeout: float | None = None,
        on_lost: OnLost = "repeat",
    ) -> Callable[[F], F]: ...

    def __call__(
        self,
        function: Any = None,
        /,
        *,
        stage: str | None = None,
        name: str | None = None,
        timeout: float | None = None,
        on_lost: OnLost = "repeat",
    ) -> Any:
        """`stage`: call it only for the node with this id. `name`: the function's by default; the log names
        the hook by its point and its name. `timeout`: in seconds. `on_lost`: whether a call is repeated after
        the engine died in it, or a person is asked."""

        def register(function: F) -> F:
            self._add(function, stage=stage, name=name, timeout=timeout, on_lost=on_lost)
            return function

        return register if function is None else register(function)


class HookDecorators:
    """The decorators of an engine. A hook is called for the runs that this engine compiles from then on."""

    _hooks: HookRegistry

    @property
    def on_session_start(self) -> HookDecorator:
        """Before the first stage."""
        return self._at("session_start")

    @property
    def on_session_end(self) -> HookDecorator:
        """After the last stage, before the run is completed."""
        return self._at("session_end")

    @property
    def on_stage_start(self) -> HookDecorator:
        """Before a stage or block, on each visit."""
        return self._at("stage_start")

    @property
    def on_stage_end(self) -> HookDecorator:
        """When a stage or block is over, before the next one."""
        return self._at("stage_end")

    @property
    def on_iteration_start(self) -> HookDecorator:
        """Before an iteration is prepared."""
        return self._at("iteration_start")

    @property
    def on_iteration_end(self) -> HookDecorator:
        """After an iteration, before it is judged."""
        return self._at("iteration_end")

    @property
    def on_parallel_provider_start(self) -> HookDecorator:
        """Before a provider's branch of a parallel block."""
        return self._at("parallel_provider_start")

    @property
    def on_parallel_provider_end(self) -> HookDecorator:
        """After a provider's branch of a parallel block."""
        return self._at("parallel_provider_end")

    @property
    def on_resume(self) -> HookDecorator:
        """After a person resumed the run. The function also gets the text that the person gave."""
        return self._at("resume")

    @property
    def on_request(self) -> HookDecorator:
        """When a request is open. The function may answer it, or leave it to a person."""
        return self._at("request")

    def _at(self, point: HookPoint) -> HookDecorator:
        return HookDecorator(partial(self._hooks.add, point))
