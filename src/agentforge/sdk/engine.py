"""The engine: run, resume, recover, pause, cancel, watch. Async; `agentforge.sdk.sync` wraps it.

No global state: several engines live side by side in one process, each with its own project, providers
and environment.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from msgspec.structs import replace

from agentforge.adapters.host.clock import SystemClock
from agentforge.app.definitions import Definitions, recompiled
from agentforge.app.providers.offers import find_offers
from agentforge.app.providers.readiness import ProviderInfo, look_at_all
from agentforge.app.providers.registry import Registry
from agentforge.app.recording import Recording, Replay
from agentforge.app.replay import CourseComparison, compare_course, compiled_for_replay
from agentforge.app.results import RunInfo, RunResult, RunRow
from agentforge.app.runs import controls
from agentforge.app.runs.context import RunContext
from agentforge.app.runs.follower import Follower
from agentforge.app.runs.leases import Leases
from agentforge.app.runs.lookup import Runs, Tail
from agentforge.app.runs.resume import recover_run, resume_run, validate_resume
from agentforge.app.runs.runner import Runner
from agentforge.app.runs.start import start_run, validate_start
from agentforge.app.wiring import local_processes
from agentforge.definition.compiler import Compiled, PipelineSource, compile_pipeline, compile_stage
from agentforge.model import facts as f
from agentforge.model.errors import InvalidRequest
from agentforge.model.event import Event
from agentforge.model.plan import Overrides
from agentforge.ports.clock import Clock
from agentforge.ports.event_log import Head
from agentforge.ports.provider import Provider
from agentforge.runtime.iteration_files import light_iterations, write_iteration_files
from agentforge.runtime.supervision import SupervisorLimits
from agentforge.views.lines.preview import preview


class Engine:
    STOP_GRACE: ClassVar[float] = 30.0
    """The default of `stop_grace`: seconds that an agent may take to finish its iteration when the run is
    stopped."""

    def __init__(
        self,
        workdir: str | os.PathLike[str] = ".",
        *,
        providers: Mapping[str, Provider] | None = None,
        environ: Mapping[str, str] | None = None,
        limits: SupervisorLimits | None = None,
        stop_grace: float = STOP_GRACE,
        clock: Clock | None = None,
        sandboxed: bool = False,
    ) -> None:
        """`workdir` is the project's folder. `sandboxed`: this process is isolated as a whole, so providers
        that require a sandbox can run without one."""
        self.project = os.path.abspath(workdir)
        if not os.path.isdir(self.project):
            raise InvalidRequest(
                f"project folder not found: {self.project}", hint="create it, or pass another"
            )
        self.environ = dict(os.environ if environ is None else environ)
        self.runs = Runs(self.project, self.environ)
        self.definitions = Definitions(self.project, self.environ)
        self.registry = Registry(lambda: find_offers(self.project, self.environ), providers)
        clock = clock or SystemClock()
        processes = local_processes()
        self._follower = Follower(self.runs)
        leases = Leases(self.runs, processes, clock)
        self._runner = Runner(
            self.runs,
            leases,
            self.registry,
            self._follower,
            processes=processes,
            clock=clock,
            limits=limits or SupervisorLimits(),
            stop_grace=stop_grace,
            sandboxed=sandboxed,
        )
        self._context = RunContext(self.runs, leases, self._runner, processes, clock, self._known_providers)

    async def __aenter__(self) -> "Engine":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- driving

    async def run(
        self,
        pipeline: PipelineSource | None = None,
        *,
        stage: str | None = None,
        session: str | None = None,
        max_iterations: int | None = None,
        context: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        provider_config: Mapping[str, Any] | None = None,
        inputs: Sequence[str] = (),
        commands: Mapping[str, str] | None = None,
        passes: int = 1,
        force: bool = False,
        record: bool = False,
    ) -> RunResult:
        """Run a pipeline (a file, a name, YAML text or a mapping) or a single stage, to its end or pause.
        `provider`, `model` and `provider_config` stand above all that files say. `passes`: how often the
        whole pipeline runs. `record`: keep what the agents do as a cassette, `cassette.jsonl`.

        Cancelling the task is a graceful stop: the agent may finish its iteration, the run is paused.
        """
        asked = Overrides(provider, model, context, tuple(inputs), dict(commands or {}))
        compiled = self.compile(
            pipeline,
            stage=stage,
            session=session,
            max_iterations=max_iterations,
            overrides=replace(asked, config=dict(provider_config or {})),
            passes=passes,
        )
        return await self.start(compiled, force=force, record=record)

    def compile(
        self,
        pipeline: PipelineSource | None = None,
        *,
        stage: str | None = None,
        session: str | None = None,
        max_iterations: int | None = None,
        overrides: Overrides | None = None,
        passes: int = 1,
    ) -> Compiled:
        """Compile without running; raises DefinitionError with every diagnostic at once."""
        if (pipeline is None) == (stage is None):
            raise InvalidRequest("give a pipeline or a stage, and not both")
        overrides = overrides or Overrides()
        if max_iterations is not None:
            overrides = replace(overrides, max_iterations=max_iterations)
        sources, known = self._context.sources, self._known_providers()
        if stage is not None:
            return compile_stage(sources, stage, session, overrides, known_providers=known)
        assert pipeline is not None
        return compile_pipeline(sources, pipeline, session, overrides, known_providers=known, passes=passes)

    def recompile(
        self,
        session: str,
        pipeline: PipelineSource | None = None,
        *,
        overrides: Overrides | None = None,
        passes: int | None = None,
    ) -> Compiled:
        """Compile the definition of a run that has begun, as it is now, for `resume`. What was asked for when
        it began still holds, apart from what `overrides` say."""
        plan = self.runs.info(session).plan
        return recompiled(self.compile, plan, pipeline, overrides, passes)

    async def start(
        self,
        compiled: Compiled,
        *,
        force: bool = False,
        notes: Sequence[f.AnyFact] = (),
        record: bool = False,
        replay: Replay | None = None,
    ) -> RunResult:
        """Run what was compiled; `force` stops and keeps aside a run that has the name already. `notes` are
        facts about how it came to be started, for its log. `replay` is played instead of asking anybody."""
        return await start_run(
            self._context, compiled, force=force, notes=notes, record=record, replay=replay
        )

    async def resume(
        self,
        session: str,
        context: str | None = None,
        *,
        force: bool = False,
        accept_damage: bool = False,
        recompile: Compiled | bool = False,
        notes: Sequence[f.AnyFact] = (),
        by: str = "person",
        record: bool = False,
    ) -> RunResult:
        """Go on with a run that is paused, failed or interrupted; past failures no longer count.
        `record`: from now on, keep what the agents do as a cassette; a recorded run goes on being one.

        It goes on by the plan that it began with, unless it is told to `recompile`: by its own definition as
        that is now, or by what the method of that name made of another.
        """
        return await resume_run(
            self._context,
            session,
            f.SessionResumed(by, context, record),
            recompile=self._recompilation(session, recompile),
            force=force,
            accept_damage=accept_damage,
            notes=notes,
        )

    async def validate_start(
        self, compiled: Compiled, *, force: bool = False, replay: Replay | None = None
    ) -> None:
        """Raise what `start` would raise, without starting anything."""
        await validate_start(self._context, compiled, force=force, replay=replay)

    def validate_resume(
        self, session: str, *, force: bool = False, recompile: Compiled | bool = False
    ) -> None:
        """Raise what `resume` would raise, as far as that can be told without opening the run."""
        validate_resume(self._context, session, self._recompilation(session, recompile), force=force)

    async def recover(self, session: str, *, accept_damage: bool = False) -> RunResult | None:
        """Continue a run that was interrupted. What a person stopped is left alone, and so is what another
        engine drives: then the answer is None."""
        return await recover_run(self._context, session, accept_damage=accept_damage)

    def tidy(self) -> None:
        """Put right what owners left that died when all was recorded: lock files and old views. What is
        interrupted is left to `recover`."""
        self._context.leases.tidy()

    async def answer(
        self, session: str, answer: str, *, request: str | None = None, by: str = "person"
    ) -> RunResult | None:
        """Answer an open request of the run, and continue the run if it waits for that. Counters and limits
        stay as they are. The result, unless another process drives the run or a person paused it."""
        return await controls.answer(self._context, session, answer, request=request, by=by)

    async def pause(self, session: str, reason: str = "requested", *, now: bool = False) -> None:
        """Pause the run when the current iteration is done; `now` ends its agent."""
        controls.pause(self._context, session, reason, now=now)

    async def cancel(self, session: str, reason: str = "requested") -> RunResult | None:
        """End the run for good; the result, unless another process drives it or its agent takes long."""
        return await controls.cancel(self._context, session, reason)

    # -- recordings

    def compile_replay(
        self, recording: Recording, pipeline: PipelineSource | None = None, *, session: str | None = None
    ) -> Compiled:
        """Compile the recorded plan, or another pipeline, for a replay under its own session name."""
        return compiled_for_replay(self.compile, recording, pipeline, session)

    async def replay(
        self,
        source: str,
        pipeline: PipelineSource | None = None,
        *,
        session: str | None = None,
        speed: float = 0.0,
    ) -> RunResult:
        """Run a recording (of a session, or a cassette file) again without its agents. `speed` 1 takes as
        long as the recorded run, 0 doesn't wait."""
        recording = self.runs.recording(source)
        compiled = self.compile_replay(recording, pipeline, session=session)
        return await self.start(compiled, replay=recording.replay(speed))

    def rehearse(self, source: str, pipeline: PipelineSource | None = None) -> CourseComparison:
        """Whether a past run (a session, or a cassette file) would take the same course with its current
        definition, or with another pipeline. Runs nothing."""
        return compare_course(self.compile, self.runs, source, pipeline)

    def interrupt(self, reason: str = "signal_interrupt", *, now: bool = False) -> bool:
        """Stop every run that this engine drives: agents get the stop grace, or with `now` nothing.
        False if it drives none."""
        return self._runner.interrupt(reason, now=now)

    # -- looking

    def status(self, session: str) -> RunInfo:
        return self.runs.info(session)

    def list(self, count: int = 10) -> Sequence[RunRow]:
        """The latest runs of the project."""
        return self.runs.rows(count)

    def tail(self, session: str, after: Head | None = None) -> Tail:
        """The events of a run that are new at each look, from the beginning or after a known head."""
        return Tail(self.runs, session, after)

    def dry_run(self, compiled: Compiled) -> Sequence[str]:
        """What a run would do, as lines of text."""
        return preview(compiled.plan, self.runs.layout(compiled.plan.session.name))

    def inspect(self, session: str) -> RunInfo:
        """The run, folded from its whole log: no cache is trusted, all damage is reported. The files of
        iterations that were run without any are written."""
        info = self.runs.info(session, cached=False)
        if info.summary.without_files:
            write_iteration_files(light_iterations(self.runs.events(session)))
        return info

    def events(self, session: str) -> Iterator[Event]:
        return self.runs.events(session)

    def subscribe(self, session: str | None = None) -> AsyncIterator[Event]:
        """Events as they become durable: of one run until it stops, or of all that this engine drives."""
        return self._follower.follow(session)

    # -- providers

    async def register_provider(self, name: str, provider: Provider) -> None:
        """Set a provider up and make it known under that name; one that doesn't come up is refused, and so is
        replacing one that a run works with."""
        await self.registry.register(name, provider)

    async def unregister_provider(self, name: str) -> None:
        """Shut a provider down that was registered; refused while a run works with it."""
        await self.registry.unregister(name)

    async def providers(self) -> "Sequence[ProviderInfo]":
        """All providers there are here, with where they come from and whether they can be used."""
        return await look_at_all(self.registry)

    async def close(self) -> None:
        """End the subscriptions and shut the providers down."""
        self._follower.close()
        await self.registry.close()

    # -- details

    def _known_providers(self) -> Sequence[str] | None:
        """In mock mode every name is played by the mock."""
        return None if self._runner.is_mock else self.registry.names

    def _recompilation(self, session: str, recompile: Compiled | bool) -> Callable[[], Compiled | None]:
        """What `recompile` asks for, compiled when it is needed."""
        if recompile is True:
            return lambda: self.recompile(session)
        return lambda: recompile or None
