"""Opens runs, and drives them until they end or pause."""

import asyncio
import logging
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Literal

from msgspec.structs import replace

from agentforge.adapters.beads import Beads
from agentforge.adapters.host.git_trees import GitTrees
from agentforge.app.hook_needs import hook_warnings
from agentforge.app.notifications import channels
from agentforge.app.providers.local_network import refuse_any_network, remote_calls
from agentforge.app.providers.readiness import Readiness, examine, examine_mock, examine_replay
from agentforge.app.providers.registry import RunProviders
from agentforge.app.runs.assembly import driver_of
from agentforge.app.runs.auto_sandbox import unconfined_reason
from agentforge.app.runs.completions import record_completion
from agentforge.app.runs.context import RunContext
from agentforge.app.runs.daily import daily_ledger
from agentforge.app.runs.leases import record_repair
from agentforge.app.runs.program_parts import refuse_missing_parts
from agentforge.definition.precedence import JUDGE_PROVIDER
from agentforge.model import facts as f
from agentforge.model.errors import LogConflict, LogCorrupt, ProviderUnusable, StorageFailed
from agentforge.model.names import session_argument
from agentforge.model.plan import Plan
from agentforge.model.secrets import Redactor
from agentforge.model.state import RunSettings
from agentforge.model.status import RunStatus
from agentforge.runtime.journal import Journal
from agentforge.runtime.notifier import Notifier
from agentforge.runtime.view_files import write_iteration_files
from agentforge.system import linux
from agentforge.system.tools import resolve_tools
from agentforge.views.results import RunResult, result_of

log = logging.getLogger("agentforge.run")


async def make_ready(context: RunContext, plan: Plan, settings: RunSettings, *, is_new: bool = False) -> Plan:
    """Initialize what the run needs. Returns the plan to run; raises the reason why it can't run."""
    refuse_missing_parts(context, plan, settings)
    if settings.replay is None:
        refuse_any_network(plan, context.sources)
    daily_ledger(context.runs.layout(plan.session.name), plan, settings, context.environ, context.clock)
    _tidy(context)
    return (await readiness_of(context, plan, settings, is_new=is_new)).confirmed()


async def readiness_of(
    context: RunContext, plan: Plan, settings: RunSettings, *, is_new: bool = False
) -> Readiness:
    """`is_new`: the plan is not recorded yet, so its judge can still be chosen."""
    if not context.drivers:
        # While agents work, the tools stay those that were found before.
        resolve_tools(context.environ, context.project)
    if settings.replay is not None:
        return await examine_replay(plan, context.sandboxes)
    providers = RunProviders(context.registry, plan, context.environ)
    queue = Beads(context.project, plan.session.name, context.environ).problem()
    if settings.mock:
        found = await examine_mock(plan, context.registry, queue)
    else:
        found = await examine(
            plan,
            providers,
            context.sandboxes,
            sandboxed=context.options["sandboxed"],
            chooses_judge=is_new and not context.environ.get(JUDGE_PROVIDER),
            queue=queue,
        )
    # A resume needn't repeat what the plan says.
    notes = _unused(plan) if is_new else []
    if is_new and (why := unconfined_reason(plan, context.sandboxes)):
        notes.append(why)
    notes += hook_warnings(plan, context.environ, context.project)
    calls_agents = not settings.mock
    # Names are resolved, which may take long.
    remote = await asyncio.to_thread(
        lambda: list(remote_calls(found.plan, providers.known, context.environ, calls_agents=calls_agents))
    )
    return replace(
        found,
        problems=(
            *found.problems,
            *(error for _, error in remote),
            *_ledger_problems(context, plan, settings),
            *_without_git(plan, context),
        ),
        warnings=(*found.warnings, *notes),
        about={**found.about, **{error.message: name for name, error in remote}},
    )


def _ledger_problems(context: RunContext, plan: Plan, settings: RunSettings) -> Iterator[StorageFailed]:
    layout = context.runs.layout(plan.session.name)
    try:
        daily_ledger(layout, plan, settings, context.environ, context.clock, creates=False)
    except StorageFailed as error:
        yield error


def _without_git(plan: Plan, context: RunContext) -> Iterator[ProviderUnusable]:
    """What a run can't do in a project that is in no repository: a tree has no content there."""
    if GitTrees(context.project, "", context.environ, Redactor(())).is_possible():
        return
    for stage in dict.fromkeys(stage.id for stage in plan.stages if stage.rollback):
        yield ProviderUnusable(
            f"stage {stage!r} has `rollback: true`, and the project is not in a git repository",
            hint="run `git init`, or remove `rollback` from the stage",
        )


def _unused(plan: Plan) -> list[str]:
    """Its checks that are not run, and its hooks that are not called, with the reasons."""
    checks = [
        f"check {name!r} of stage {stage.id!r} is not run: {reason}"
        for stage in plan.stages
        for name, reason in stage.left_out.items()
    ]
    return checks + [f"hook {id!r} is not called: {reason}" for id, reason in plan.pipeline.left_out.items()]


def _tidy(context: RunContext) -> None:
    """Remove what sandboxes needed, unless another run of this engine needs it."""
    if not context.drivers:
        try:
            context.placeholders.tidy()
        except StorageFailed as error:
            log.warning("can't remove empty folders that a sandbox needed: %s", error.message)


async def reopen(context: RunContext, session: str, *, accept_damage: bool, to_work: bool = True) -> Journal:
    """Open an existing run. Raises LogCorrupt for damage that isn't accepted. `to_work`: make ready what its
    plan needs."""
    journal = context.leases.open(session)
    with context.leases.released_on_error(journal):
        if to_work:
            await make_ready(context, journal.plan, journal.state.settings)
        damage = [d for d in journal.writer.damage if d.line not in journal.state.accepted_damage]
        if not accept_damage:
            for first in damage:
                see = f"see `agentforge log verify {session_argument(session)}`"
                raise LogCorrupt(
                    f"the log of session {session!r} is damaged: line {first.line}: {first.reason}",
                    hint=f"{see}; --accept-damage continues without those lines",
                )
            context.leases.check_head(journal)
        record_repair(journal)
        if damage:
            lines = tuple(d.line for d in damage)
            journal.record(f.DamageAccepted(lines), journal.state.cursor)
    return journal


def recovered(
    by: Literal["recovery", "person"],
    context: str | None = None,
    *,
    record: bool = False,
    approve: bool = False,
    secrets: tuple[str, ...] = (),
) -> f.SessionRecovered:
    return f.SessionRecovered(os.getpid(), socket.gethostname(), by, context, record, approve, secrets)


async def drive(context: RunContext, journal: Journal) -> RunResult:
    """Drive the run until it ends or pauses. Being cancelled is a graceful stop."""
    try:
        return await _drive(context, journal)
    except LogConflict as error:
        if error.restored:
            # The log at the run's path is this engine's own, although it is a new file.
            context.trust.started(journal.session, journal.state.run_id)
        raise


async def _drive(context: RunContext, journal: Journal) -> RunResult:
    session, leases = journal.session, context.leases
    linux.enable_openat2()
    with leases.released_on_error(journal):
        driver = driver_of(context, journal)
    context.drivers[session] = driver
    context.registry.hold(session, _needed(journal))
    released = context.released[session] = asyncio.Event()
    context.follower.begin(session, journal.opened_at)
    journal.observe(context.follower.notify)
    is_replay = journal.state.settings.replay is not None
    receivers = channels(journal.plan, context.environ, context.project, context.sandboxes)
    notifier = Notifier(journal, () if is_replay else receivers, context.sender)
    if not is_replay:
        context.span_export.follow(session)
    task = asyncio.create_task(driver.drive())
    is_written = False
    """Whether state.json shows the end of the drive."""
    try:
        # Shielded: a cancelled caller must not cancel the driver between an intent and its task. The
        # driver is asked to pause instead, and ends on its own, with its agents' outcomes recorded.
        await asyncio.shield(task)
        is_written = True
        _write_last_files(context, journal)
    except asyncio.CancelledError:
        driver.ask_to_pause("cancelled_by_caller", grace=context.options["stop_grace"])
        await task
        is_written = True
        _write_last_files(context, journal)
        raise
    finally:
        del context.drivers[session], context.released[session]
        _tidy(context)
        context.registry.release(session)
        released.set()
        is_over = journal.state.status is not RunStatus.RUNNING
        # The lease goes last of what others can see: who gets it next finds all files of the run as they
        # stay. The lock file remains if they are not complete, so that the next look at the run repeats
        # what is missing.
        leases.release(journal, keep_lock=is_over and not is_written)
        notifier.finish()
        context.span_export.release(session)
    model, folder = journal.model, context.runs.layout(session).root
    artifact = model.history.artifact
    return result_of(session, journal.plan, journal.state, model.summary, folder, artifact=artifact)


def _needed(journal: Journal) -> frozenset[str]:
    """The providers that a run may call."""
    settings = journal.state.settings
    if settings.mock or settings.replay is not None:
        return frozenset(["mock"] if settings.mock else [])
    return journal.plan.providers() | journal.plan.judges()


def _write_last_files(context: RunContext, journal: Journal) -> None:
    for latest in journal.model.history.light.values():
        write_iteration_files(context.runs.layout(journal.session), latest)
    # While the lock file exists, the next look at the run repeats what a crash prevented.
    record_completion(context.project, journal.plan, journal.state)


async def wait_until_released(context: RunContext, session: str, seconds: float = 1.0) -> None:
    """Wait until this engine's driver has released the run, up to a timeout."""
    released = context.released.get(session)
    if released is not None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await released.wait()
