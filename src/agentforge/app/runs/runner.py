"""Assemble the runtime for a run's log, and drive the run until it ends or pauses."""

import asyncio
import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Annotated, TypedDict

from msgspec.structs import replace

from agentforge.adapters.beads import Beads
from agentforge.adapters.environment import secrets_in
from agentforge.adapters.host.clock import SystemClock
from agentforge.adapters.httpx_webhooks import HttpxWebhooks
from agentforge.adapters.providers.mock import is_mock_mode
from agentforge.adapters.providers.replay import load_cassette
from agentforge.adapters.script import ScriptProvider
from agentforge.app.hook_probes import hook_warnings
from agentforge.app.hooks import HookRegistry
from agentforge.app.notifications import channels
from agentforge.app.providers.pinned import RunProviders
from agentforge.app.providers.readiness import Readiness, examine, examine_mock, examine_replay
from agentforge.app.providers.registry import Registry
from agentforge.app.redaction import environment_redactor, references_of_answers
from agentforge.app.results import RunResult, result_of
from agentforge.app.runs.completions import record_completion
from agentforge.app.runs.follower import Follower
from agentforge.app.runs.leases import Leases
from agentforge.app.runs.lookup import Runs
from agentforge.app.runs.replay import played_answers, played_provider, recorder_of
from agentforge.app.wiring import checked_trees, sandboxes, trees_of
from agentforge.definition.precedence import JUDGE_PROVIDER
from agentforge.model.cassette import Cassette
from agentforge.model.errors import LogConflict, StorageFailed
from agentforge.model.hook import OnFailure
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Plan
from agentforge.model.run_options import Argument
from agentforge.model.state import RunSettings
from agentforge.model.status import RunStatus
from agentforge.ports.clock import Clock
from agentforge.ports.process import Processes
from agentforge.ports.provider import Provider
from agentforge.runtime.confinement import Confiner
from agentforge.runtime.driver import Driver, Performers, WrittenView
from agentforge.runtime.iteration_files import write_iteration_files
from agentforge.runtime.journal import Journal
from agentforge.runtime.notifier import Notifier, Sender
from agentforge.runtime.output_copies import OutputCopies
from agentforge.runtime.placeholders import Placeholders
from agentforge.runtime.played_hooks import PlayedHooks
from agentforge.runtime.refusals import refuse_here
from agentforge.runtime.state_folder import HeadKeeper
from agentforge.runtime.supervision import Supervised, SupervisorLimits
from agentforge.runtime.tasks.agent import AgentPerformer
from agentforge.runtime.tasks.call import Calls, TaskContext
from agentforge.runtime.tasks.check import CheckPerformer
from agentforge.runtime.tasks.hook import HookPerformer
from agentforge.runtime.tasks.judge import JudgePerformer
from agentforge.runtime.tasks.manifest import ManifestPerformer
from agentforge.runtime.tasks.prepare import LightStages, Preparer, result_writers
from agentforge.runtime.tasks.queue import QueuePerformer
from agentforge.runtime.tasks.tree_record import TreeRecord
from agentforge.system import openat2
from agentforge.system.tools import resolve_tools

log = logging.getLogger("agentforge.run")


STOP_GRACE = 30.0


class EngineOptions(TypedDict, total=False):
    """Of `Engine` and `SyncEngine`."""

    providers: Annotated[Mapping[str, Provider] | None, Argument(None)]
    environ: Annotated[Mapping[str, str] | None, Argument(None)]
    limits: Annotated[SupervisorLimits, Argument(SupervisorLimits())]
    stop_grace: Annotated[float, Argument(STOP_GRACE)]
    """Seconds for an agent to finish its iteration when the run is stopped."""
    clock: Annotated[Clock, Argument(SystemClock())]
    sandboxed: Annotated[bool, Argument(False)]
    """The whole process is isolated, so providers that require a sandbox can run without one."""
    hook_errors: Annotated[OnFailure, Argument("continue")]
    """What a run does after an exception in a hook of this program."""


class Runner:
    def __init__(
        self,
        runs: Runs,
        leases: Leases,
        registry: Registry,
        hooks: HookRegistry,
        *,
        processes: Processes,
        options: EngineOptions,
    ) -> None:
        self._runs = runs
        self._environ = runs.environ
        self._sandboxes = sandboxes(runs.environ, runs.project)
        self._placeholders = Placeholders(runs.project)
        self._leases = leases
        self._registry = registry
        self.follower = Follower(runs)
        self.hooks = hooks
        self._processes = processes
        self._options = options
        self._sender = Sender()
        self._drivers: dict[str, Driver] = {}
        self._released: dict[str, asyncio.Event] = {}
        """Set when a run that this engine drives was released."""

    @property
    def is_mock(self) -> bool:
        return is_mock_mode(self._environ)

    @property
    def known_providers(self) -> Collection[str] | None:
        """The provider names that a pipeline may use, or None in mock mode, where every name is accepted."""
        return None if self.is_mock else self._registry.names

    async def make_ready(self, plan: Plan, settings: RunSettings, *, is_new: bool = False) -> Plan:
        """Initialize what the run needs. Returns the plan to run; raises the reason why it can't run."""
        self.hooks.refuse_missing(plan, settings)
        self._tidy()
        return (await self.examine(plan, settings, is_new=is_new)).confirmed()

    async def examine(self, plan: Plan, settings: RunSettings, *, is_new: bool = False) -> Readiness:
        """`is_new`: the plan is not recorded yet, so its judge can still be chosen."""
        if not self._drivers:
            # While agents work, the tools stay those that were found before.
            resolve_tools(self._environ, self._runs.project)
        if settings.replay is not None:
            return await examine_replay(plan, self._sandboxes)
        found = await self._examine(plan, settings, is_new=is_new)
        missing = hook_warnings(plan, self._environ, self._runs.project)
        return replace(found, warnings=(*found.warnings, *missing))

    async def _examine(self, plan: Plan, settings: RunSettings, *, is_new: bool) -> Readiness:
        queue = Beads(self._runs.project, plan.session.name, self._environ).problem()
        if settings.mock:
            return await examine_mock(plan, self._registry, queue)
        return await examine(
            plan,
            RunProviders(self._registry, plan, self._environ),
            self._sandboxes,
            sandboxed=self._options["sandboxed"],
            chooses_judge=is_new and not self._environ.get(JUDGE_PROVIDER),
            queue=queue,
        )

    def _tidy(self) -> None:
        """Remove what sandboxes needed, unless another run of this engine needs it."""
        if not self._drivers:
            try:
                self._placeholders.tidy()
            except StorageFailed as error:
                log.warning("can't remove empty folders that a sandbox needed: %s", error.message)

    async def drive(self, journal: Journal) -> RunResult:
        """Drive the run until it ends or pauses. Being cancelled is a graceful stop."""
        try:
            return await self._drive(journal)
        except LogConflict as error:
            if error.restored:
                self._leases.prove_origin(journal)
            raise

    async def _drive(self, journal: Journal) -> RunResult:
        session, layout = journal.session, self._runs.layout(journal.session)
        openat2.enable()
        with self._leases.released_on_error(journal):
            driver = self._driver(journal, layout)
        self._drivers[session] = driver
        self._registry.hold(session, _needed(journal))
        released = self._released[session] = asyncio.Event()
        self.follower.begin(session, journal.opened_at)
        journal.observe(self.follower.notify)
        notifier = self._notifier(journal)
        task = asyncio.create_task(driver.drive())
        is_written = False
        """Whether state.json shows the end of the drive."""
        try:
            await asyncio.shield(task)
            is_written = True
            self._write_last_files(journal, layout)
        except asyncio.CancelledError:
            driver.ask_to_pause("cancelled_by_caller", grace=self._options["stop_grace"])
            await task
            is_written = True
            self._write_last_files(journal, layout)
            raise
        finally:
            del self._drivers[session], self._released[session]
            self._tidy()
            self._registry.release(session)
            released.set()
            is_over = journal.state.status is not RunStatus.RUNNING
            self._leases.release(journal, keep_lock=is_over and not is_written)
            notifier.finish()
        return result_of(session, journal.state, journal.model.summary, layout.root)

    def _write_last_files(self, journal: Journal, layout: RunLayout) -> None:
        for latest in journal.model.history.light.values():
            write_iteration_files(layout, latest)
        # While the lock file exists, the next look at the run repeats what a crash prevented.
        record_completion(self._runs.project, journal.plan, journal.state)

    async def close(self) -> None:
        """Wait for notifications that are being sent."""
        await self._sender.close()

    def interrupt(self, reason: str, *, now: bool) -> bool:
        for driver in self._drivers.values():
            driver.ask_to_pause(reason, grace=self._options["stop_grace"], now=now)
        return bool(self._drivers)

    async def wait_until_released(self, session: str, seconds: float = 1.0) -> None:
        """Wait until this engine's driver has released the run, up to a timeout."""
        released = self._released.get(session)
        if released is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await released.wait()

    def wake(self, session: str) -> None:
        if driver := self._drivers.get(session):
            driver.wake()

    def _driver(self, journal: Journal, layout: RunLayout) -> Driver:
        keeper = HeadKeeper(layout.root, self._environ)
        has_view = journal.plan.pipeline.has_escalations
        return Driver(
            journal,
            layout,
            self._performers(journal, layout, self._supervised(journal, layout, keeper)),
            keeper=keeper,
            secrets=references_of_answers(self._environ),
            played=played_answers(journal, layout),
            view=self._escalations(journal, layout) if has_view else None,
        )

    def _supervised(self, journal: Journal, layout: RunLayout, keeper: HeadKeeper) -> Supervised:
        def keep_head() -> None:
            """So that a log that is cut later lacks no start of an agent unnoticed."""
            if journal.synced is not None:
                keeper.keep(journal.state.run_id, journal.synced)

        return Supervised(
            self._processes,
            self._options["limits"],
            self._runs.project,
            layout.log,
            secrets=secrets_in(self._environ),
            before_start=keep_head,
        )

    def _performers(self, journal: Journal, layout: RunLayout, supervised: Supervised) -> Performers:
        plan, settings, project = journal.plan, journal.state.settings, self._runs.project
        clock = self._options["clock"]
        context = self._context(journal, layout)
        played = played_provider(settings, layout, self._environ)
        providers = RunProviders(self._registry, plan, self._environ)

        def provider_of(name: str) -> Provider:
            return played or providers["mock" if settings.mock else name]

        confiner = Confiner(self._sandboxes, project, layout, plan, self._placeholders, environ=self._environ)
        refuse = refuse_here(journal, layout)
        calls = Calls(
            provider_of, self._registry.locks, supervised, confiner, run_dir=layout.root, refuse=refuse
        )
        script = ScriptProvider(self._environ)
        scripts = Calls(lambda _: script, {}, supervised, confiner, run_dir=layout.root, refuse=refuse)
        history = journal.model.history
        light = LightStages(plan, provider_of, is_kept=context.recorder is not None)
        writers = result_writers(provider_of)
        preparer = Preparer(
            project, layout, plan, history, is_light=light, writes_result=writers, refuse=refuse
        )
        queue = Beads(project, plan.session.name, self._environ)
        trees = trees_of(project, layout, plan, self._environ, context.redactor)

        def load() -> Cassette:
            return load_cassette(layout.replayed)

        return Performers(
            {"prepare": preparer, "manifest": ManifestPerformer(context, journal)},
            {
                "agent": AgentPerformer(context, calls, preparer, clock, TreeRecord(trees, clock)),
                "judge": JudgePerformer(context, calls, history),
                "queue": QueuePerformer(context, queue, load, clock),
                "check": CheckPerformer(
                    context, scripts, checked_trees(project, layout, plan, trees, context.redactor)
                ),
                "hook": HookPerformer(
                    context,
                    history,
                    clock,
                    scripts=scripts,
                    webhooks=HttpxWebhooks(),
                    calls=self.hooks.calls(journal, layout, lambda: self._runs.events(journal.session)),
                    played=PlayedHooks(plan, load) if context.is_replay else None,
                    environ=self._environ,
                ),
            },
        )

    def _notifier(self, journal: Journal) -> Notifier:
        is_replay = journal.state.settings.replay is not None
        here = self._environ, self._runs.project, self._sandboxes
        notified = () if is_replay else channels(journal.plan, *here)
        return Notifier(journal, notified, self._sender)

    def _context(self, journal: Journal, layout: RunLayout) -> TaskContext:
        return TaskContext(
            project=self._runs.project,
            layout=layout,
            plan=journal.plan,
            run_id=journal.state.run_id,
            environment=_agent_environment(journal.plan),
            redactor=environment_redactor(self._environ),
            environ=self._environ,
            copies=OutputCopies(self._runs.project, layout.root, self._environ),
            recorder=recorder_of(journal, layout, self._runs, self._environ),
            is_replay=journal.state.settings.replay is not None,
        )

    def _escalations(self, journal: Journal, layout: RunLayout) -> WrittenView:
        """Follows the log from its start, so that files which a killed engine didn't write are written."""
        # Reads YAML, which few runs need.
        from agentforge.runtime.escalations import EscalationWriter

        journal.wait_for_disk()
        writer = EscalationWriter(layout, journal.plan, self._runs.events(journal.session))
        journal.listen(writer.apply)
        return writer


def _needed(journal: Journal) -> frozenset[str]:
    """The providers that a run may call."""
    settings = journal.state.settings
    if settings.mock or settings.replay is not None:
        return frozenset(["mock"] if settings.mock else [])
    return journal.plan.providers() | journal.plan.judges()


def _agent_environment(plan: Plan) -> dict[str, str]:
    """Variables that describe the run to agents and the tools that they start."""
    variables = {"CLAUDE_PIPELINE_AGENT": "1"}
    if plan.mode == "loop":
        variables["CLAUDE_PIPELINE_SESSION"] = plan.session.name
        variables["CLAUDE_PIPELINE_TYPE"] = plan.only_stage.stage
    return variables
