"""The engine: run, resume, recover, pause, cancel, watch. Async; `agentforge.sdk.sync` wraps it.

No global state: several engines live side by side in one process, each with its own project, providers
and environment.
"""

import logging
import os
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec.structs import replace

from agentforge.adapters.system_clock import SystemClock
from agentforge.definition.compiler import Compiled
from agentforge.engine.legal import refuse_cancel, refuse_pause, refuse_resume
from agentforge.host import files
from agentforge.model import facts as f
from agentforge.model.errors import IllegalMove, InvalidRequest, RunActive
from agentforge.model.event import Cursor, Event
from agentforge.model.ids import session_name
from agentforge.model.plan import Overrides
from agentforge.model.status import RunStatus
from agentforge.ports.clock import Clock
from agentforge.ports.provider import Provider
from agentforge.runtime.control import Control, answer_request, send_control
from agentforge.runtime.iteration_files import light_iterations, write_iteration_files
from agentforge.runtime.journal import Journal
from agentforge.runtime.supervised import SupervisorLimits
from agentforge.sdk.definitions import Compiler, default_session
from agentforge.sdk.follow import Follower
from agentforge.sdk.leases import Leases, active, stop_owner
from agentforge.sdk.log_import import import_original
from agentforge.sdk.offers import find_offers
from agentforge.sdk.originals import is_original
from agentforge.sdk.readiness import ProviderInfo, look_at_all
from agentforge.sdk.recordings import Replay
from agentforge.sdk.registry import Registry
from agentforge.sdk.results import RunInfo, RunResult, RunRow
from agentforge.sdk.resumption import (
    change_plan,
    plan_changed,
    record_resume,
    refuse_long_note,
    refuse_own_agent,
    request_to_answer,
    restore_plan_file,
    session_started,
    waits_for,
    warn_if_changed,
    when_free,
    write_definition,
)
from agentforge.sdk.runner import Runner
from agentforge.sdk.runs import Runs
from agentforge.sdk.wiring import processes

log = logging.getLogger("agentforge.run")

STOP_GRACE = 30.0
"""How long an agent may go on with its iteration after the first request to stop."""


class Engine:
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
        """`sandboxed`: this process is isolated as a whole, so providers that require it need no sandbox."""
        self.project = os.path.abspath(workdir)
        self.environ = dict(os.environ if environ is None else environ)
        self.runs = Runs(self.project, self.environ)
        self.registry = Registry(lambda: find_offers(self.project, self.environ), providers)
        self._clock: Clock = clock or SystemClock()
        self._processes = processes()
        self._follower = Follower(self.runs)
        self._leases = Leases(self.runs, self._processes, self._clock)
        self._runner = Runner(
            self.runs,
            self._leases,
            self.registry,
            self._follower,
            processes=self._processes,
            clock=self._clock,
            limits=limits or SupervisorLimits(),
            stop_grace=stop_grace,
            sandboxed=sandboxed,
        )
        self._compiler = Compiler(self.project, self.environ, self._known_providers)

    async def __aenter__(self) -> "Engine":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- driving

    async def run(
        self,
        pipeline: str | Mapping[str, Any] | None = None,
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
        pipeline: str | Mapping[str, Any] | None = None,
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
        overrides = replace(overrides or Overrides(), max_iterations=max_iterations)
        if stage is not None:
            name = session_name(stage if session is None else session)
            return self._compiler.stage(stage, name, overrides)
        assert pipeline is not None
        if session is None:
            # Only the pipeline itself says what it is called.
            found = self._compiler.pipeline(pipeline, "pipeline", overrides, passes)
            session = default_session(found.plan.pipeline.name, self._clock.now())
        return self._compiler.pipeline(pipeline, session_name(session), overrides, passes)

    def recompile(
        self,
        session: str,
        pipeline: str | Mapping[str, Any] | None = None,
        *,
        overrides: Overrides | None = None,
        passes: int | None = None,
    ) -> Compiled:
        """Compile the definition of a run that has begun, as it is now, for `resume`. What was asked for when
        it began still holds, apart from what `overrides` say."""
        return self._compiler.anew(self.runs.info(session).plan, pipeline, overrides or Overrides(), passes)

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
        session = compiled.plan.session.name
        settings = self._runner.settings(record=record, replay=replay)
        if self.environ.get("AGENT_PIPELINES_LEGACY") == "1":
            log.warning("AGENT_PIPELINES_LEGACY has no effect: a run without its log doesn't exist")
        await self._runner.make_ready(compiled.plan, settings)
        self._leases.refuse_other_engine(session, force=force)
        await self._leases.clean()
        if await self._runner.free_name(session, force=force):
            await self._leases.release_tasks(session)
        journal = self._leases.open_new(session)
        with self._leases.released_on_error(journal):
            layout = self.runs.layout(session)
            write_definition(layout, compiled)
            if replay is not None:
                files.replace(layout.replayed, replay.content)
            journal.record(session_started(compiled, settings), Cursor("0", 0, 0))
            for note in notes:
                journal.record(note, journal.state.cursor)
        return await self._runner.drive(journal)

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
        self.runs.log(session)
        refuse_long_note(context)
        self._leases.refuse_other_engine(session, force=force)
        import_original(self.runs, self._leases, session, self._runner.settings(), self._known_providers())
        compiled = self.recompile(session) if recompile is True else recompile or None
        if force:
            await stop_owner(self.runs, session, self._processes)
        journal = await self._reopen(session, accept_damage=accept_damage, compiled=compiled)
        with self._leases.released_on_error(journal):
            refuse_own_agent(journal.state, self.environ)
            refuse_resume(journal.state)
            if compiled is not None:
                change_plan(journal, self.runs.layout(session), compiled)
            for note in notes:
                journal.record(note, journal.state.cursor)
            recovered = self._runner.recovered("person", context, record=record)
            record_resume(
                journal, self.runs.layout(session), f.SessionResumed(by, context, record), recovered
            )
        return await self._runner.drive(journal)

    async def validate_start(
        self, compiled: Compiled, *, force: bool = False, replay: Replay | None = None
    ) -> None:
        """Raise what `start` would raise, without starting anything."""
        session = compiled.plan.session.name
        await self._runner.make_ready(compiled.plan, self._runner.settings(replay=replay))
        if not force:
            self._leases.refuse_other_engine(session, force=False)
            self._leases.refuse_taken(session)

    def validate_resume(
        self, session: str, *, force: bool = False, recompile: Compiled | bool = False
    ) -> None:
        """Raise what `resume` would raise, as far as that can be told without opening the run."""
        info = self.runs.info(session)
        if not force:
            self._leases.refuse_other_engine(session, force=False)
        if info.status == "running" and not force:
            raise active(self.runs, session)
        refuse_resume(info.state)
        if recompile:
            compiled = self.recompile(session) if recompile is True else recompile
            plan_changed(compiled.plan, info.plan, info.state)

    async def recover(self, session: str, *, accept_damage: bool = False) -> RunResult | None:
        """Continue a run that was interrupted. What a person stopped is left alone, and so is what another
        engine drives: then the answer is None."""
        info = self.runs.info(session)
        if info.status != "interrupted" or is_original(info.state):
            return None
        try:
            self._leases.refuse_other_engine(session, force=False)
            journal = await self._reopen(session, accept_damage=accept_damage)
        except RunActive:
            return None
        if journal.state.status is not RunStatus.RUNNING:
            self._leases.release(journal)
            return None
        journal.record(self._runner.recovered("recovery"), journal.state.cursor)
        return await self._runner.drive(journal)

    def tidy(self) -> None:
        """Put right what owners left that died when all was recorded: lock files and old views. What is
        interrupted is left to `recover`."""
        self._leases.tidy()

    async def answer(
        self, session: str, answer: str, *, request: str | None = None, by: str = "person"
    ) -> RunResult | None:
        """Answer an open request of the run, and continue the run if it waits for that. Counters and limits
        stay as they are. The result, unless another process drives the run or a person paused it."""
        state = self.runs.info(session).state
        refuse_own_agent(state, self.environ, "answer")
        asked = request_to_answer(state, request, answer)
        given = answer_request(self.runs.layout(session), asked, answer, by)
        if given.answer != answer:
            raise IllegalMove(f"request {asked.id!r} was already answered by {given.by}: {given.answer}")
        self._runner.wake(session)
        journal = await when_free(
            lambda: self._reopen(session, accept_damage=False),
            lambda: waits_for(self.runs.info(session).state, asked.id),
        )
        return await self._runner.drive(journal) if journal else None

    async def pause(self, session: str, reason: str = "requested", *, now: bool = False) -> None:
        """Pause the run when the current iteration is done; `now` ends its agent."""
        refuse_pause(self.runs.info(session).state)
        self._send(session, "pause", reason, now=now)

    async def cancel(self, session: str, reason: str = "requested") -> RunResult | None:
        """End the run for good; the result, unless another process drives it or its agent takes long."""
        refuse_cancel(self.runs.info(session).state)
        self._send(session, "cancel", reason, now=True)
        await self._runner.let_finish(session)
        try:
            journal = await self._runner.reopen(session, accept_damage=True, to_work=False)
        except RunActive:
            return None
        return await self._runner.drive(journal)

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

    async def _reopen(
        self, session: str, *, accept_damage: bool, compiled: Compiled | None = None
    ) -> Journal:
        """Open a run to go on with it, by its own plan or another."""
        freed = await self._leases.clean()
        journal = await self._runner.reopen(
            session, accept_damage=accept_damage, plan=compiled.plan if compiled else None
        )
        with self._leases.released_on_error(journal):
            if journal.state.status is RunStatus.RUNNING and session not in freed:
                await self._leases.release_tasks(session)
            restore_plan_file(journal, self.runs.layout(session))
            if compiled is None:
                warn_if_changed(journal.plan, self._compiler.sources)
        return journal

    def _send(self, session: str, action: Literal["pause", "cancel"], reason: str, *, now: bool) -> None:
        id = f"{self._clock.now():%Y%m%dT%H%M%S%f}-{uuid.uuid4().hex[:8]}"
        send_control(self.runs.layout(session), Control(id, action, reason, now))
        self._runner.wake(session)
