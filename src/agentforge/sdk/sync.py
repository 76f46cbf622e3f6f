"""The engine for programs without an event loop: the same calls, blocking."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, cast

from agentforge.app.definitions import Definitions
from agentforge.app.runs.context import EngineOptions
from agentforge.app.runs.lookup import Runs
from agentforge.model.event import Event
from agentforge.sdk.engine import Engine
from agentforge.sdk.hooks import HookDecorators

P = ParamSpec("P")
R = TypeVar("R")


def _blocking(
    method: Callable[Concatenate[Engine, P], Coroutine[Any, Any, R]],
) -> "Callable[Concatenate[SyncEngine, P], R]":
    """A method of `Engine`, with its arguments and their types, that waits for the result."""

    @wraps(method)
    def call(self: "SyncEngine", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._runner.run(method(self.engine, *args, **kwargs))

    return call


def _same(method: Callable[Concatenate[Engine, P], R]) -> "Callable[Concatenate[SyncEngine, P], R]":
    """A method of `Engine` that doesn't wait anyway."""

    @wraps(method)
    def call(self: "SyncEngine", /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self.engine, *args, **kwargs)

    return call


class SyncEngine(HookDecorators):
    """Wraps an Engine and its event loop; use it as a context manager."""

    def __init__(self, workdir: str | os.PathLike[str] = ".", **options: Unpack[EngineOptions]) -> None:
        # One loop for the engine's whole life: providers keep connections that belong to it.
        self._runner = asyncio.Runner()
        self.engine = Engine(workdir, **options)
        self._hooks = self.engine._hooks

    def __enter__(self) -> "SyncEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def runs(self) -> Runs:
        return self.engine.runs

    @property
    def definitions(self) -> Definitions:
        return self.engine.definitions

    run = _blocking(Engine.run)
    start = _blocking(Engine.start)
    validate_start = _blocking(Engine.validate_start)
    replay = _blocking(Engine.replay)
    resume = _blocking(Engine.resume)
    recover = _blocking(Engine.recover)
    limit = _blocking(Engine.limit)
    answer = _blocking(Engine.answer)
    steer = _blocking(Engine.steer)
    restart_stage = _blocking(Engine.restart_stage)
    pause = _blocking(Engine.pause)
    cancel = _blocking(Engine.cancel)
    register_provider = _blocking(Engine.register_provider)
    unregister_provider = _blocking(Engine.unregister_provider)
    providers = _blocking(Engine.providers)
    lint = _blocking(Engine.lint)
    lint_all = _blocking(Engine.lint_all)
    readiness = _blocking(Engine.readiness)
    forecast = _blocking(Engine.forecast)
    dry_run = _blocking(Engine.dry_run)

    agents = _same(Engine.agents)
    compile = _same(Engine.compile)
    recompile = _same(Engine.recompile)
    validate_resume = _same(Engine.validate_resume)
    compile_replay = _same(Engine.compile_replay)
    rehearse = _same(Engine.rehearse)
    tail = _same(Engine.tail)
    tidy = _same(Engine.tidy)
    trust = _same(Engine.trust)
    refuse_untrusted = _same(Engine.refuse_untrusted)
    refuse_missing_hooks = _same(Engine.refuse_missing_hooks)
    remove = _same(Engine.remove)
    outdated = _same(Engine.outdated)
    interrupt = _same(Engine.interrupt)
    """May be called from another thread or a signal handler."""
    requests = _same(Engine.requests)
    status = _same(Engine.status)
    list = _same(Engine.list)
    inspect = _same(Engine.inspect)
    work = _same(Engine.work)
    artifacts = _same(Engine.artifacts)
    pipeline_state = _same(Engine.pipeline_state)
    resolution_file = _same(Engine.resolution_file)
    events = _same(Engine.events)

    def subscribe(self, session: str) -> Iterator[Event]:
        """Events of one run as they become durable, until it stops."""
        events = cast(AsyncGenerator[Event, None], self.engine.subscribe(session))

        async def following() -> Event | None:
            return await anext(events, None)

        try:
            while (event := self._runner.run(following())) is not None:
                yield event
        finally:
            self._runner.run(events.aclose())

    def close(self) -> None:
        self._runner.run(self.engine.close())
        self._runner.close()
