"""The engine for programs without an event loop: the same calls, blocking."""

import asyncio
import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from agentforge.app.definitions import DefinitionKind, Definitions, LintResult
from agentforge.app.providers.readiness import ProviderInfo, Readiness
from agentforge.app.recording import Recording
from agentforge.app.results import OpenRequest, RunInfo, RunResult, RunRow
from agentforge.app.runs.lookup import Runs, Tail
from agentforge.app.runs.removal import OutdatedRuns
from agentforge.app.runs.replay import CourseComparison
from agentforge.app.runs.work import RunWork
from agentforge.definition.compiler import Compiled, PipelineSource
from agentforge.model.event import Event
from agentforge.ports.event_log import Head
from agentforge.ports.provider import Provider
from agentforge.sdk.engine import Engine
from agentforge.sdk.hooks import HookDecorators


class SyncEngine(HookDecorators):
    """Wraps an Engine and its event loop; use it as a context manager."""

    def __init__(self, workdir: str | os.PathLike[str] = ".", **options: Any) -> None:
        self._runner = asyncio.Runner()
        self.engine = Engine(workdir, **options)
        self._hooks = self.engine._hooks

    def __enter__(self) -> "SyncEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, pipeline: PipelineSource | None = None, **options: Any) -> RunResult:
        return self._runner.run(self.engine.run(pipeline, **options))

    def start(self, compiled: Compiled, **options: Any) -> RunResult:
        return self._runner.run(self.engine.start(compiled, **options))

    def validate_start(self, compiled: Compiled, **options: Any) -> None:
        self._runner.run(self.engine.validate_start(compiled, **options))

    def replay(self, source: str, pipeline: PipelineSource | None = None, **options: Any) -> RunResult:
        return self._runner.run(self.engine.replay(source, pipeline, **options))

    def resume(self, session: str, context: str | None = None, **options: Any) -> RunResult:
        return self._runner.run(self.engine.resume(session, context, **options))

    def recover(self, session: str, **options: Any) -> RunResult | None:
        return self._runner.run(self.engine.recover(session, **options))

    def answer(self, session: str, answer: str, **options: Any) -> RunResult | None:
        return self._runner.run(self.engine.answer(session, answer, **options))

    def steer(self, session: str, text: str, **options: Any) -> None:
        self._runner.run(self.engine.steer(session, text, **options))

    def restart_stage(self, session: str, reason: str = "requested", **options: Any) -> RunResult | None:
        return self._runner.run(self.engine.restart_stage(session, reason, **options))

    def pause(self, session: str, reason: str = "requested", *, now: bool = False) -> None:
        self._runner.run(self.engine.pause(session, reason, now=now))

    def cancel(self, session: str, reason: str = "requested") -> RunResult | None:
        return self._runner.run(self.engine.cancel(session, reason))

    def register_provider(self, name: str, provider: Provider) -> None:
        self._runner.run(self.engine.register_provider(name, provider))

    def unregister_provider(self, name: str) -> None:
        self._runner.run(self.engine.unregister_provider(name))

    def providers(self) -> Sequence[ProviderInfo]:
        return self._runner.run(self.engine.providers())

    def lint(self, name: str, kind: DefinitionKind) -> LintResult:
        return self._runner.run(self.engine.lint(name, kind))

    def lint_all(self) -> Sequence[LintResult]:
        return self._runner.run(self.engine.lint_all())

    def agents(self, compiled: Compiled) -> str:
        return self.engine.agents(compiled)

    def readiness(self, compiled: Compiled) -> Readiness:
        return self._runner.run(self.engine.readiness(compiled))

    def dry_run(self, compiled: Compiled) -> Sequence[str]:
        return self._runner.run(self.engine.dry_run(compiled))

    def subscribe(self, session: str) -> Iterator[Event]:
        """Events of one run as they become durable, until it stops."""
        events = self.engine.subscribe(session)
        try:
            while True:
                try:
                    yield self._runner.run(_next(events))
                except StopAsyncIteration:
                    return
        finally:
            self._runner.run(_close(events))

    # -- calls that are synchronous anyway

    @property
    def runs(self) -> Runs:
        return self.engine.runs

    @property
    def definitions(self) -> Definitions:
        return self.engine.definitions

    def compile(self, pipeline: PipelineSource | None = None, **options: Any) -> Compiled:
        return self.engine.compile(pipeline, **options)

    def recompile(self, session: str, pipeline: PipelineSource | None = None, **options: Any) -> Compiled:
        return self.engine.recompile(session, pipeline, **options)

    def validate_resume(self, session: str, **options: Any) -> None:
        self.engine.validate_resume(session, **options)

    def compile_replay(
        self, recording: Recording, pipeline: PipelineSource | None = None, **options: Any
    ) -> Compiled:
        return self.engine.compile_replay(recording, pipeline, **options)

    def rehearse(self, source: str, pipeline: PipelineSource | None = None) -> CourseComparison:
        return self.engine.rehearse(source, pipeline)

    def tail(self, session: str, after: Head | None = None) -> Tail:
        return self.engine.tail(session, after)

    def tidy(self, session: str | None = None) -> None:
        self.engine.tidy(session)

    def trust(self, session: str) -> None:
        self.engine.trust(session)

    def refuse_untrusted(self, session: str) -> None:
        self.engine.refuse_untrusted(session)

    def refuse_missing_hooks(self, session: str) -> None:
        self.engine.refuse_missing_hooks(session)

    def remove(self, session: str, *, ended_before: datetime | None = None) -> bool:
        return self.engine.remove(session, ended_before=ended_before)

    def outdated(self, before: datetime) -> OutdatedRuns:
        return self.engine.outdated(before)

    def interrupt(self, reason: str = "signal_interrupt", *, now: bool = False) -> bool:
        """May be called from another thread or a signal handler."""
        return self.engine.interrupt(reason, now=now)

    def requests(self, session: str | None = None) -> Sequence[OpenRequest]:
        return self.engine.requests(session)

    def status(self, session: str) -> RunInfo:
        return self.engine.status(session)

    def list(self, count: int = 10) -> Sequence[RunRow]:
        return self.engine.list(count)

    def inspect(self, session: str) -> RunInfo:
        return self.engine.inspect(session)

    def work(self, session: str) -> RunWork:
        return self.engine.work(session)

    def events(self, session: str) -> Iterator[Event]:
        return self.engine.events(session)

    def close(self) -> None:
        self._runner.run(self.engine.close())
        self._runner.close()


async def _next(events: Any) -> Event:
    event: Event = await anext(events)
    return event


async def _close(events: Any) -> None:
    await events.aclose()
