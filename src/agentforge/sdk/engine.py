"""The engine: run, resume, recover, pause, cancel, watch. Async; `agentforge.sdk.sync` wraps it.

No global state: one process can have several engines, each with its own project, providers and
environment.
"""

import os
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from msgspec.structs import replace

from agentforge.app.definitions import DefinitionKind, Definitions, LintResult
from agentforge.app.providers.readiness import ProviderInfo, Readiness, probe_providers
from agentforge.app.providers.registry import RunProviders
from agentforge.app.recording import Recording, Replay, is_cassette_file
from agentforge.app.runs import controls
from agentforge.app.runs.answers import OpenRequest, Response, open_requests, respond
from agentforge.app.runs.compilation import (
    CourseComparison,
    compare_course,
    compile_definition,
    compiled_for_replay,
    pinned_here,
    recompiled,
)
from agentforge.app.runs.context import STOP_GRACE, EngineOptions, RunContext
from agentforge.app.runs.first_artifact import GivenArtifact, first_artifact
from agentforge.app.runs.lookup import RunRow
from agentforge.app.runs.program_parts import refuse_missing_parts
from agentforge.app.runs.removal import OutdatedRuns, outdated_runs, remove_run
from agentforge.app.runs.resume import limit_run, recover_run, resume_run, validate_resume
from agentforge.app.runs.runner import readiness_of
from agentforge.app.runs.start import run_settings, start_run, validate_start
from agentforge.app.runs.updates import Tail
from agentforge.app.runs.waivers import refuse_skip
from agentforge.app.runs.work import RunWork
from agentforge.definition.compiler import Compiled, PipelineSource
from agentforge.model.event import Event
from agentforge.model.names import DEFAULT_PIPELINE
from agentforge.model.plan import Overrides, Plan
from agentforge.model.request import Request
from agentforge.model.run_options import (
    CapOptions,
    ResumeOptions,
    RunOptions,
    StartOptions,
    completed,
    overrides_of,
)
from agentforge.ports.event_log import Head
from agentforge.ports.provider import Provider
from agentforge.runtime.view_files import light_iterations, write_iteration_files
from agentforge.sdk.hooks import HookDecorators
from agentforge.views.lines.plan import agents_line
from agentforge.views.results import RunInfo, RunResult
from agentforge.views.structured_work import ArtifactWork

if TYPE_CHECKING:
    from agentforge.app.runs.forecast import Forecast


class Engine(HookDecorators):
    STOP_GRACE: ClassVar[float] = STOP_GRACE
    """The default of `stop_grace`."""

    def __init__(self, workdir: str | os.PathLike[str] = ".", **options: Unpack[EngineOptions]) -> None:
        """`workdir` is the project's folder."""
        options = completed(EngineOptions, options)
        self._context = context = RunContext(workdir, options)
        self.runs, self.project, self.environ = context.runs, context.project, context.environ
        self.definitions = Definitions(self.project, self.environ)
        self._registry, self._hooks, self._clock = context.registry, context.hooks, context.clock

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
        passes: int = 1,
        **how: Unpack[RunOptions],
    ) -> RunResult:
        """Run a pipeline (a file, a name, YAML text or a mapping) or a single stage until it ends or pauses;
        with a `request` alone, the default pipeline. `passes`: how often to run the whole pipeline. `how`:
        what overrides the definition, and all of `start`.

        Cancelling the task is a graceful stop: the agent may finish its iteration, then the run is paused.
        """
        how = completed(RunOptions, how)
        if pipeline is None and stage is None and how["request"] is not None:
            pipeline = self.definitions.default_pipeline() or DEFAULT_PIPELINE
        compiled = self.compile(
            pipeline, stage=stage, session=session, overrides=overrides_of(how), passes=passes
        )
        return await start_run(self._context, compiled, how)

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
        """Compile without running. Raises DefinitionError with all diagnostics at once."""
        if max_iterations is not None:
            overrides = replace(overrides or Overrides(), max_iterations=max_iterations)
        return compile_definition(
            self._context, pipeline, stage=stage, session=session, overrides=overrides, passes=passes
        )

    def recompile(
        self,
        session: str,
        pipeline: PipelineSource | None = None,
        *,
        overrides: Overrides | None = None,
        passes: int | None = None,
    ) -> Compiled:
        """Compile the current definition of a run, for `resume`. `overrides` are merged into those that the
        run was started with."""
        plan = self.runs.info(session).plan
        return recompiled(self._context, plan, pipeline, overrides, passes)

    async def start(
        self,
        compiled: Compiled,
        *,
        replay: Replay | None = None,
        on_ready: Callable[[], None] | None = None,
        **how: Unpack[StartOptions],
    ) -> RunResult:
        """Run a compiled pipeline. `replay` is played back instead of calling providers. `force` stops and
        archives an existing run with the name. `record`: record the agents' work as a cassette,
        `cassette.jsonl`. `approve`: give the approvals of stages without asking; checkpoints are still asked.
        `skip_checks`: reasons, by the names of checks that don't count; `skip`: by the ids of stages that
        aren't run; both only for persons. `notes` are facts about the start, for the log. `on_ready` is
        called before the first agent starts, when nothing refuses the start any more."""
        return await start_run(self._context, compiled, completed(StartOptions, how), replay, on_ready)

    def trust(self, session: str) -> None:
        """Allow this user's engines to drive a run that was not started here, such as one that came with a
        repository: it can run any program that its log names. Everything else raises UntrustedRun for such
        a run, with what it would execute."""
        self._context.caller.refuse_agent(trust=True)
        self._context.trust.allow(session)

    def refuse_untrusted(self, session: str) -> None:
        """Raise UntrustedRun if the run was not started here and no person trusted it."""
        self._context.trust.refuse_untrusted(session)

    def refuse_missing_hooks(self, session: str) -> None:
        """Raise HookMissing if the run needs hooks that are not registered with this engine, ExecutorMissing
        if it needs executors that this program doesn't have."""
        info = self.runs.info(session)
        refuse_missing_parts(self._context, info.plan, info.state.settings)

    async def resume(
        self,
        session: str,
        context: str | None = None,
        *,
        recompile: Compiled | bool = False,
        **how: Unpack[ResumeOptions],
    ) -> RunResult:
        """Resume a paused, failed or interrupted run. Resets failure counters. A run that waits for nothing
        but approvals and agents' questions is refused: answer them.
        `record`: record the agents' work from now on; a recorded run stays recorded. `restart_stage`: start
        the current stage over as its next visit; inside a parallel block, that of the `provider`. `approve`:
        give the approvals of stages without asking from now on. `skip_checks` and `skip`: as in
        `start`.

        The run keeps the plan that it was started with unless `recompile` is given: True compiles its
        current definition; the result of `recompile()` can be another pipeline.
        """
        how = completed(ResumeOptions, how)
        return await resume_run(
            self._context, session, how, self._recompilation(session, recompile), text=context
        )

    async def validate_start(
        self, compiled: Compiled, *, replay: Replay | None = None, **how: Unpack[StartOptions]
    ) -> None:
        """Raise the errors of `start` without starting anything."""
        await validate_start(self._context, compiled, completed(StartOptions, how), replay)

    def validate_resume(
        self, session: str, *, recompile: Compiled | bool = False, **how: Unpack[ResumeOptions]
    ) -> None:
        """Raise the errors of `resume` that can be found without opening the run. Warns about nodes that it
        would skip because of a recompilation."""
        how = completed(ResumeOptions, how)
        validate_resume(self._context, session, how, self._recompilation(session, recompile))

    async def recover(self, session: str, *, accept_damage: bool = False) -> RunResult | None:
        """Recover a run whose engine died, that was paused by a shutdown of the machine, or that waits
        although a request was answered or timed out. Returns None if a person stopped the run or another
        engine drives it."""
        return await recover_run(self._context, session, accept_damage=accept_damage)

    async def limit(self, session: str, **caps: Unpack[CapOptions]) -> None:
        """Set other caps on what a run may spend, for the whole of it, before `recover` or `answer` continues
        it; `resume` takes them itself. Raises RunActive if an engine drives the run."""
        await limit_run(self._context, session, caps)

    def tidy(self, session: str | None = None) -> None:
        """Clean up lock files and outdated views of engines that died after recording the end of their run,
        of one run or of all. `status`, `list`, `inspect` and `tail` do so for the runs that they show.
        Interrupted runs are left to `recover`."""
        if session is None:
            self._context.leases.tidy()
        else:
            self._context.leases.repair(session)

    def requests(self, session: str | None = None) -> Sequence[OpenRequest]:
        """The open requests of a run, or of all runs of the project, oldest first. Answers that no engine
        applied and defaults that are due are recorded first; `recover` continues their runs."""
        return open_requests(self._context, session)

    async def answer(
        self,
        session: str,
        answer: str,
        *,
        request: str | None = None,
        text: str = "",
        by: str = "person",
        as_agent: bool = False,
        drive: bool = True,
    ) -> RunResult | None:
        """Answer an open request of the run, and continue the run if it waits for it or its engine died.
        `request`: its id, if several are open. `text`: the feedback of a rejection, or a remark; a rejection
        without it cancels the run, and `accept` needs it: why the verdict is overridden. `as_agent`: the
        answer is an agent's, which not every request accepts.
        `drive`: False only records the answer, and `recover` continues the run. Returns None if another
        process drives the run or a person paused it. Raises AlreadyAnswered if another answer was first."""
        response = Response(answer, request, text, by, as_agent)
        return await respond(self._context, session, response, then_drive=drive)

    async def steer(self, session: str, text: str, *, by: str = "person") -> None:
        """Add a note to the context of all later iterations, from the next one on."""
        controls.steer(self._context, session, text, by=by)

    async def restart_stage(
        self, session: str, reason: str = "requested", *, provider: str | None = None, by: str = "person"
    ) -> RunResult | None:
        """Start the current stage over as its next visit; inside a parallel block, that of the `provider`.
        Stops its agent, and resumes the run if it is stopped. Returns None if another process drives it."""
        return await controls.restart_stage(self._context, session, reason, provider=provider, by=by)

    async def pause(self, session: str, reason: str = "requested", *, now: bool = False) -> None:
        """Pause the run after its current iteration; `now` stops its agent."""
        controls.pause(self._context, session, reason, now=now)

    async def cancel(self, session: str, reason: str = "requested") -> RunResult | None:
        """Cancel the run permanently. Returns None if another process drives it, or if stopping its agent
        takes long."""
        return await controls.cancel(self._context, session, reason)

    def remove(self, session: str, *, ended_before: datetime | None = None) -> bool:
        """Delete a run that isn't running, and what is kept about it. Raises RunActive if it is running.
        `ended_before`: only if it ended before that time; returns whether it was deleted."""
        return remove_run(self._context, session, ended_before)

    def outdated(self, before: datetime) -> OutdatedRuns:
        """Completed and cancelled runs that ended before that time, for `remove`."""
        return outdated_runs(self._context, before)

    def interrupt(self, reason: str = "signal_interrupt", *, now: bool = False) -> bool:
        """Stop every run that this engine drives: agents get the stop grace, or are stopped immediately with
        `now`. Returns whether it drives any run."""
        for driver in self._context.drivers.values():
            driver.ask_to_pause(reason, grace=self._context.options["stop_grace"], now=now)
        return bool(self._context.drivers)

    # -- recordings

    def compile_replay(
        self, recording: Recording, pipeline: PipelineSource | None = None, *, session: str | None = None
    ) -> Compiled:
        """Compile the recorded plan, or another pipeline, for a replay under its own session name."""
        return compiled_for_replay(self._context, recording, pipeline, session)

    async def replay(
        self,
        source: str,
        pipeline: PipelineSource | None = None,
        *,
        session: str | None = None,
        speed: float = 0.0,
        allow_commands: bool = False,
        overwrite: bool = False,
    ) -> RunResult:
        """Replay a recording (a session or a cassette file) without its agents. `speed`: 1 as recorded, 0
        without waiting. `allow_commands`: run the commands of a cassette; `overwrite`: also overwrite files
        with uncommitted changes. Without them, such a replay raises InvalidRequest."""
        if not is_cassette_file(source):
            self.refuse_untrusted(source)
        recording = self.runs.recording(source)
        compiled = self.compile_replay(recording, pipeline, session=session)
        return await self.start(
            compiled, replay=recording.replay(speed, allow_commands=allow_commands, overwrite=overwrite)
        )

    def rehearse(self, source: str, pipeline: PipelineSource | None = None) -> CourseComparison:
        """Whether a past run (a session, or a cassette file) would take the same course with its current
        definition, or with another pipeline. Runs nothing."""
        return compare_course(self._context, source, pipeline)

    # -- reading

    # What they show is repaired first, if an engine that died left outdated files.

    def status(self, session: str) -> RunInfo:
        return self._context.leases.repaired(session)

    def list(self, count: int = 10) -> Sequence[RunRow]:
        """The latest runs of the project."""
        read = self._context.leases.repaired
        return [self.runs.row(session, read) for session in self.runs.sessions()[:count]]

    def tail(self, session: str, after: Head | None = None) -> Tail:
        """A reader of the run's new events, from the start or after a known head."""
        tail = Tail(self.runs, session, after)
        self._context.leases.repair(session)
        return tail

    async def lint(self, name: str, kind: DefinitionKind) -> LintResult:
        """All that a run of a stage or pipeline would be refused for here, and more: what is wrong with its
        files (`definitions.lint`), and what it lacks on this machine."""
        found = self.definitions._lint(name, kind, self._context.machine)
        if found.plan is None or not found.passed:
            return found
        ready = await self._readiness(pinned_here(self._context, found.plan))
        lacks = ready.diagnostics(found.plan.source.path, found.places)
        return replace(found, diagnostics=(*found.diagnostics, *lacks))

    async def lint_all(self) -> Sequence[LintResult]:
        """Lint all definitions, descriptions of providers and settings files of the project."""
        found = [await self.lint(name, kind) for name, kind in self.definitions.own()]
        return self.definitions.with_others(found)

    async def readiness(
        self, compiled: Compiled, *, skip: Collection[str] = (), artifact: GivenArtifact = None
    ) -> Readiness:
        """Whether the plan can run here: all that `start` would refuse, and the plan that it would run. The
        stages in `skip` are not run: raises InvalidRequest if later ones need what they leave, and the
        `artifact` doesn't have it."""
        if skip:
            given = artifact and first_artifact(artifact, compiled.plan, self.environ, skip)
            refuse_skip(compiled.plan, skip, given.value if given else None)
        return await self._readiness(compiled.plan)

    async def _readiness(self, plan: Plan) -> Readiness:
        return await readiness_of(self._context, plan, run_settings(self.environ), is_new=True)

    async def forecast(self, compiled: Compiled, **how: Unpack[StartOptions]) -> "Forecast":
        """What a run that is started so does at most, what earlier runs of the pipeline took, and what
        prevents it here. What is skipped needs no reason."""
        from agentforge.app.runs.forecast import forecast  # Runs don't need it.

        return await forecast(self._context, compiled, completed(StartOptions, how), self.readiness)

    async def dry_run(self, what: "Compiled | Forecast", **how: Unpack[StartOptions]) -> Sequence[str]:
        """What a run would do, and its forecast, as lines of text."""
        from agentforge.app.runs.forecast import lines

        found = await self.forecast(what, **how) if isinstance(what, Compiled) else what
        return lines(found, self.runs.layout(found.plan.session.name), self._permissions(found.plan))

    def agents(self, planned: Compiled | RunInfo) -> str:
        """Which agents a run would start, or an existing one, with which models and permissions and where, as
        one line of text; empty if it starts none: in mock mode, and in a replay."""
        settings = planned.state.settings if isinstance(planned, RunInfo) else run_settings(self.environ)
        if settings.mock or settings.replay is not None:
            return ""
        return agents_line(planned.plan, self._permissions(planned.plan), self.project)

    def inspect(self, session: str) -> RunInfo:
        """The run, folded from its whole log without caches, with all damage reported. Writes the files of
        iterations that ran without files, if the run was started here."""
        info = self._context.leases.repaired(session, cached=False)
        if info.summary.without_files and self._context.trust.is_own(session):
            light = light_iterations(self.runs.events(session))
            write_iteration_files(self.runs.layout(session), light)
        return info

    def work(self, session: str) -> RunWork:
        """What the agents of a run did: its iterations with their results, files and changes."""
        return RunWork(self.runs, session)

    def artifacts(self, session: str, *, latest: bool = False) -> Sequence[ArtifactWork]:
        """The artifacts that were accepted in a run, in this order, with their values. `latest`: only those
        that later stages get, one of each stage or item. `problem` says why a value can't be read."""
        return self.work(session).artifacts(latest=latest)

    def pipeline_state(self, session: str) -> dict[str, Any]:
        """The state of a run in the words of pipelines (`agentforge.core.pipeline`), from its log; repairs
        the files of the view `controller`."""
        from agentforge.app.runs.pipelines import pipeline_state  # Reads and writes YAML.

        return pipeline_state(self._context, session)

    def resolution_file(self, session: str, request: Request) -> str:
        """Where a resolution of the request is read, relative to the project, if the run has the view
        `escalations`."""
        from agentforge.app.runs.pipelines import resolution_of

        return resolution_of(self._context, session, request)

    def events(self, session: str) -> Iterator[Event]:
        return self.runs.events(session)

    def subscribe(self, session: str | None = None) -> AsyncIterator[Event]:
        """Events as they become durable: of one run until it stops, or of all runs of this engine."""
        return self._context.follower.follow(session)

    # -- providers

    async def register_provider(self, name: str, provider: Provider) -> None:
        """Initialize a provider and register it under the name. Raises if it fails to initialize, or if a run
        is using the provider that it would replace."""
        await self._registry.register(name, provider)

    async def unregister_provider(self, name: str) -> None:
        """Shut down a registered provider. Raises if a run is using it."""
        await self._registry.unregister(name)

    async def providers(self) -> "Sequence[ProviderInfo]":
        """All available providers, with their origin and whether they are usable."""
        return await probe_providers(self._registry)

    async def close(self) -> None:
        """End the subscriptions, shut down the providers, and wait for notifications that are being sent. For
        spans it waits two seconds at most."""
        self._context.follower.close()
        await self._registry.close()
        await self._context.sender.close()
        await self._context.span_export.close()

    # -- details

    def _permissions(self, plan: Plan) -> dict[str, tuple[str, ...]]:
        providers = RunProviders(self._registry, plan, self.environ)
        return providers.permissions(plan.providers() | plan.judges())

    def _recompilation(self, session: str, recompile: Compiled | bool) -> Callable[[], Compiled | None]:
        """A function that returns the new plan, or None if the run keeps its own."""
        self._context.caller.refuse_agent(recompile=recompile)
        if recompile is True:
            return lambda: self.recompile(session)
        return lambda: recompile or None
