"""Drives runs until they end or pause."""

import asyncio
import logging
from collections.abc import Collection
from contextlib import suppress

from msgspec.structs import replace

from agentforge.adapters.beads import Beads
from agentforge.app.hook_probes import hook_warnings
from agentforge.app.notifications import notifier_of
from agentforge.app.providers.readiness import Readiness, examine, examine_mock, examine_replay
from agentforge.app.providers.registry import RunProviders
from agentforge.app.runs.assembly import EngineParts, driver_of
from agentforge.app.runs.completions import record_completion
from agentforge.app.runs.follower import Follower
from agentforge.app.runs.leases import Leases
from agentforge.definition.precedence import JUDGE_PROVIDER
from agentforge.model.errors import LogConflict, StorageFailed
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Plan
from agentforge.model.state import RunSettings
from agentforge.model.status import RunStatus
from agentforge.runtime.driver import Driver
from agentforge.runtime.journal import Journal
from agentforge.runtime.notifier import Sender
from agentforge.runtime.view_files import write_iteration_files
from agentforge.system import linux
from agentforge.system.tools import resolve_tools
from agentforge.views.results import RunResult, result_of

log = logging.getLogger("agentforge.run")


class Runner:
    """The runs that one engine drives."""

    def __init__(self, parts: EngineParts, leases: Leases) -> None:
        self._parts = parts
        self._leases = leases
        self.follower = Follower(parts.runs)
        self.hooks = parts.hooks
        self._sender = Sender()
        self._drivers: dict[str, Driver] = {}
        self._released: dict[str, asyncio.Event] = {}
        """Set when a run that this engine drives was released."""

    @property
    def known_providers(self) -> Collection[str] | None:
        """The provider names that a pipeline may use, or None in mock mode, where every name is accepted."""
        return None if self._parts.is_mock else self._parts.registry.names

    async def make_ready(self, plan: Plan, settings: RunSettings, *, is_new: bool = False) -> Plan:
        """Initialize what the run needs. Returns the plan to run; raises the reason why it can't run."""
        self.hooks.refuse_missing(plan, settings)
        self._tidy()
        return (await self.examine(plan, settings, is_new=is_new)).confirmed()

    async def examine(self, plan: Plan, settings: RunSettings, *, is_new: bool = False) -> Readiness:
        """`is_new`: the plan is not recorded yet, so its judge can still be chosen."""
        parts = self._parts
        if not self._drivers:
            # While agents work, the tools stay those that were found before.
            resolve_tools(parts.environ, parts.project)
        if settings.replay is not None:
            return await examine_replay(plan, parts.sandboxes)
        queue = Beads(parts.project, plan.session.name, parts.environ).problem()
        if settings.mock:
            found = await examine_mock(plan, parts.registry, queue)
        else:
            found = await examine(
                plan,
                RunProviders(parts.registry, plan, parts.environ),
                parts.sandboxes,
                sandboxed=parts.options["sandboxed"],
                chooses_judge=is_new and not parts.environ.get(JUDGE_PROVIDER),
                queue=queue,
            )
        missing = hook_warnings(plan, parts.environ, parts.project)
        return replace(found, warnings=(*found.warnings, *missing))

    def _tidy(self) -> None:
        """Remove what sandboxes needed, unless another run of this engine needs it."""
        if not self._drivers:
            try:
                self._parts.placeholders.tidy()
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
        parts, session = self._parts, journal.session
        layout = parts.runs.layout(session)
        linux.enable_openat2()
        with self._leases.released_on_error(journal):
            driver = driver_of(self._parts, journal)
        self._drivers[session] = driver
        self._parts.registry.hold(session, _needed(journal))
        released = self._released[session] = asyncio.Event()
        self.follower.begin(session, journal.opened_at)
        journal.observe(self.follower.notify)
        notifier = notifier_of(journal, parts.project, parts.environ, parts.sandboxes, self._sender)
        task = asyncio.create_task(driver.drive())
        is_written = False
        """Whether state.json shows the end of the drive."""
        try:
            # Shielded: a cancelled caller must not cancel the driver between an intent and its task. The
            # driver is asked to pause instead, and ends on its own, with its agents' outcomes recorded.
            await asyncio.shield(task)
            is_written = True
            self._write_last_files(journal, layout)
        except asyncio.CancelledError:
            driver.ask_to_pause("cancelled_by_caller", grace=self._parts.options["stop_grace"])
            await task
            is_written = True
            self._write_last_files(journal, layout)
            raise
        finally:
            del self._drivers[session], self._released[session]
            self._tidy()
            self._parts.registry.release(session)
            released.set()
            is_over = journal.state.status is not RunStatus.RUNNING
            # The lease goes last of what others can see: who gets it next finds all files of the run as they
            # stay. The lock file remains if they are not complete, so that the next look at the run repeats
            # what is missing.
            self._leases.release(journal, keep_lock=is_over and not is_written)
            notifier.finish()
        return result_of(session, journal.state, journal.model.summary, layout.root)

    def _write_last_files(self, journal: Journal, layout: RunLayout) -> None:
        for latest in journal.model.history.light.values():
            write_iteration_files(layout, latest)
        # While the lock file exists, the next look at the run repeats what a crash prevented.
        record_completion(self._parts.project, journal.plan, journal.state)

    async def close(self) -> None:
        """Wait for notifications that are being sent."""
        await self._sender.close()

    def interrupt(self, reason: str, *, now: bool) -> bool:
        for driver in self._drivers.values():
            driver.ask_to_pause(reason, grace=self._parts.options["stop_grace"], now=now)
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


def _needed(journal: Journal) -> frozenset[str]:
    """The providers that a run may call."""
    settings = journal.state.settings
    if settings.mock or settings.replay is not None:
        return frozenset(["mock"] if settings.mock else [])
    return journal.plan.providers() | journal.plan.judges()
