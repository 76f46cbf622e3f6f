"""Start a run: its settings, its name, its definition on disk and the first event of its log."""

import logging
import os
import uuid
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from shlex import quote

import msgspec
from msgspec.structs import replace

from agentforge.adapters.providers.mock import is_mock_mode, mock_delay
from agentforge.app.recording import Replay
from agentforge.app.redaction import environment_redactor, stored
from agentforge.app.runs.context import RunContext
from agentforge.app.runs.delivery import refuse_undeliverable
from agentforge.app.runs.first_artifact import FirstArtifact, first_artifact, stored_artifact
from agentforge.app.runs.leases import stop_owner
from agentforge.app.runs.runner import drive, make_ready, reopen
from agentforge.app.runs.waivers import waivers
from agentforge.definition.compiler import Compiled
from agentforge.definition.report import SourceText
from agentforge.legacy.shell_run import is_shell_run
from agentforge.model import facts as f
from agentforge.model.artifact import Artifact
from agentforge.model.cursor import Cursor
from agentforge.model.errors import InvalidRequest, LogCorrupt, RunActive
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Plan
from agentforge.model.request import MAX_USER_REQUEST_BYTES
from agentforge.model.run_options import StartOptions, completed
from agentforge.model.secrets import StoredText, references_in
from agentforge.model.spending import Amount
from agentforge.model.state import RunSettings, Waiver
from agentforge.runtime.supervision import end_left, end_leftovers, left_supervisors, pids_of
from agentforge.system import files
from agentforge.version import __version__
from agentforge.views.briefing import TELLS_REQUEST
from agentforge.views.results import RunResult
from agentforge.views.token_budget import tokens_of_bytes

log = logging.getLogger("agentforge.run")


# The order is the point. What can refuse the start comes first, before anything is changed: `force` must not
# archive a run whose successor can't start. Then the name is made free, then the lease is taken, and only
# with the lease are files written. The proof that the run was started here is durable before the first event:
# a log without a proof is a foreign run, which no engine would recover; a proof without a log does no harm.
async def start_run(
    context: RunContext,
    compiled: Compiled,
    how: StartOptions,
    replay: Replay | None = None,
    on_ready: Callable[[], None] | None = None,
) -> RunResult:
    """`on_ready`: called when nothing refuses the start any more, before an agent starts."""
    _refuse_agent(context, how, replay, compiled.plan)
    session, leases = compiled.plan.session.name, context.leases
    environ = context.environ
    compiled = without_secrets(compiled, environ)
    settings = run_settings(environ, how, replay)
    wanted, artifact, waived = _given(context, compiled.plan, how, replay)
    _refuse_unsafe(replay, compiled.plan, context)
    if replay is None:
        refuse_undeliverable(context, compiled.plan, how["skip"])
    if environ.get("AGENT_PIPELINES_LEGACY") == "1":
        log.warning("AGENT_PIPELINES_LEGACY has no effect: every run has a log")
    plan = await make_ready(context, compiled.plan, settings, is_new=True)
    compiled = replace(compiled, plan=plan)
    leases.refuse_other_engine(session, force=how["force"])
    if not how["force"]:
        _refuse_left_agents(context, session)
    await leases.clean()
    leases.warn_about_others(session)
    if await _free_name(context, session, force=how["force"]):
        await leases.release_tasks(session)
    if on_ready is not None:
        on_ready()
    # Another process may have taken the name since `_free_name`: `open_new` looks again, with the lease.
    journal = leases.open_new(session)
    with leases.released_on_error(journal):
        layout = context.runs.layout(session)
        write_definition(layout, compiled)
        if replay is not None:
            files.replace(layout.replayed, replay.recording.content)
        initial = stored_artifact(artifact, layout) if artifact else None
        started = _session_started(compiled, settings, waived, wanted, initial)
        context.trust.started(session, started.run_id)
        journal.record(started, Cursor("0", 0, 0))
        for note in how["notes"]:
            journal.record(note, journal.state.cursor)
    return await drive(context, journal)


def without_secrets(compiled: Compiled, environ: Mapping[str, str], before: Collection[str] = ()) -> Compiled:
    """The same definition with references instead of the values of secrets, as it is stored. `before`: the
    variables that the run's earlier plan has references to: options that it keeps have them, too."""
    text = msgspec.json.encode(compiled.plan).decode()
    hidden = stored(text, environ, "the definition or an option")
    kept = references_in(text).intersection(before)
    plan = msgspec.json.decode(hidden.text, type=Plan) if hidden.text != text else compiled.plan
    secrets = tuple(sorted({*hidden.secrets, *kept}))
    plan = replace(plan, pipeline=replace(plan.pipeline, secrets=secrets))
    source = SourceText(compiled.source.file, environment_redactor(environ).text(compiled.source.text))
    return replace(compiled, plan=plan, source=source)


async def validate_start(
    context: RunContext, compiled: Compiled, how: StartOptions, replay: Replay | None = None
) -> None:
    """Raise the errors of `start` without starting anything."""
    _refuse_agent(context, how, replay, compiled.plan)
    session = compiled.plan.session.name
    _refuse_unsafe(replay, compiled.plan, context)
    _given(context, compiled.plan, how, replay)
    if replay is None:
        refuse_undeliverable(context, compiled.plan, how["skip"])
    settings = run_settings(context.environ, how, replay)
    await make_ready(context, compiled.plan, settings, is_new=True)
    context.leases.warn_about_others(session)
    if not how["force"]:
        context.leases.refuse_other_engine(session, force=False)
        _refuse_left_agents(context, session)
        context.leases.refuse_taken(session)
    elif context.leases.is_taken(session):
        _refuse_untrusted(context, session)


def _refuse_unsafe(replay: Replay | None, plan: Plan, context: RunContext) -> None:
    if replay is not None:
        from agentforge.app.runs.replay import refuse_unsafe_replay

        refuse_unsafe_replay(replay, plan, context.project, context.environ)


def _refuse_agent(context: RunContext, how: StartOptions, replay: Replay | None, plan: Plan) -> None:
    context.caller.refuse_decisions(how)
    overrides = plan.pipeline.overrides
    caps = overrides.caps or Amount()
    context.caller.refuse_agent(
        max_cost=caps.cost_usd, max_tokens=caps.tokens, unsupervised=overrides.supervised is False
    )
    if replay is not None:
        context.caller.refuse_agent(allow_commands=replay.allow_commands, overwrite=replay.overwrite)


def run_settings(
    environ: Mapping[str, str], how: StartOptions | None = None, replay: Replay | None = None
) -> RunSettings:
    """The settings of a new run, from the environment and the caller."""
    how = how or completed(StartOptions, StartOptions())
    if replay is not None:
        return RunSettings(
            delay=0.0,
            plateau_test=replay.recording.cassette.header.plateau_test,
            record=how["record"],
            replay=replay.speed,
            replay_commands=replay.allow_commands,
            approve=how["approve"],
        )
    is_mock = is_mock_mode(environ)
    delay = mock_delay(environ) if is_mock else None
    plateau_test = environ.get("PLATEAU_TEST_MODE") == "1"
    return RunSettings(is_mock, delay, plateau_test, how["record"], approve=how["approve"])


def write_definition(layout: RunLayout, compiled: Compiled) -> None:
    """Write plan.json and a copy of the source, for people and tools; the log has its own copy."""
    files.make_dir(layout.root)
    files.replace(layout.plan, files.pretty(compiled.plan))
    files.replace(os.path.join(layout.root, "pipeline.yaml"), compiled.source.text.encode("utf-8", "replace"))


async def _free_name(context: RunContext, session: str, *, force: bool) -> bool:
    """Make the name available to a new run; `force` stops and archives the run that has it. Returns whether
    there was one."""
    if not force:
        context.leases.refuse_taken(session)
    root = context.runs.layout(session).root
    if not context.leases.is_taken(session):
        await _end_left_agents(context, session, root)
        context.leases.set_aside(session)
        return False
    _refuse_untrusted(context, session)
    aside = None
    # Another engine may continue the run between the stop and the archive.
    while aside is None:
        await stop_owner(context.runs, session, context.processes)
        await _cancel_interrupted(context, session)
        aside = context.leases.archive(session)
    # Those of a log that can't be read: no engine can continue them now.
    await _end_left_agents(context, session, aside)
    return True


def _refuse_left_agents(context: RunContext, session: str) -> None:
    """Raise if agents of an earlier run of that name are running whose log is lost: two agents must not work
    in the same folder, and only `force` says that the old one is to be ended."""
    if context.leases.is_taken(session):
        return
    if left := left_supervisors(context.runs.layout(session).root, context.processes):
        pids = " ".join(pids_of(left))
        raise RunActive(
            f"agents of an earlier session {session!r}, which has no log, are still running (PID {pids})",
            hint=f"end them with `kill {pids}`, or use --force to end them and start over",
        )


async def _end_left_agents(context: RunContext, session: str, run_dir: str) -> None:
    """`run_dir`: where the earlier run is now."""
    processes = context.processes
    for place in {context.runs.layout(session).root, run_dir}:
        if left := left_supervisors(place, processes):
            await end_left(left, processes)
            log.warning("Ended the agents of an earlier session %r: PID %s", session, " ".join(pids_of(left)))
    await end_leftovers(run_dir, processes)


def _refuse_untrusted(context: RunContext, session: str) -> None:
    # An unreadable log names nothing to execute: the run is only archived.
    with suppress(LogCorrupt):
        context.trust.refuse_untrusted(session)


async def _cancel_interrupted(context: RunContext, session: str) -> None:
    """Cancel an interrupted run, whose agent may still be running."""
    try:
        info = context.runs.info(session)
        if info.status != "interrupted" or is_shell_run(info.state):
            return
    except LogCorrupt:
        # An unreadable log names no agent to stop.
        return
    journal = await reopen(context, session, accept_damage=True, to_work=False)
    with context.leases.released_on_error(journal):
        journal.record(f.CancelRequested("superseded by a new run"), journal.state.cursor)
    await drive(context, journal)


def _session_started(
    compiled: Compiled,
    settings: RunSettings,
    waived: tuple[Waiver, ...],
    wanted: StoredText | None,
    initial: Artifact | None,
) -> f.SessionStarted:
    plan = compiled.plan
    only = plan.only_stage if plan.mode == "loop" else None
    return f.SessionStarted(
        mode=plan.mode,
        run_id=uuid.uuid4().hex,
        plan=plan,
        engine=__version__,
        stage=only.stage if only else None,
        stage_name=only.label if only else None,
        pipeline=None if only else plan.pipeline.name,
        pipeline_file=None if only else plan.source.path,
        settings=settings,
        format=f.LOG_FORMAT,
        waivers=waived,
        user_request=wanted.text if wanted else "",
        secrets=wanted.secrets if wanted else (),
        artifact=initial,
    )


def _given(
    context: RunContext, plan: Plan, how: StartOptions, replay: Replay | None
) -> tuple[StoredText | None, FirstArtifact | None, tuple[Waiver, ...]]:
    """What the run is about: the user request, the first artifact, and what is skipped. A replay has those of
    the recording."""
    environ = context.environ
    if replay is None:
        wanted = user_request(context, plan, how["request"])
        first = first_artifact(how["artifact"], plan, environ, how["skip"])
        return wanted, first, waivers(context, plan, how, first.value if first else None)
    header = replay.recording.cassette.header
    wanted = StoredText(header.user_request) if header.user_request else None
    skipped = [waiver.stage for waiver in header.waivers]
    return wanted, first_artifact(header.artifact, plan, environ, skipped), header.waivers


def user_request(context: RunContext, plan: Plan, given: str | None) -> StoredText | None:
    """The user request as it is stored. Raises why a run of the plan can't be started with it."""
    name, rule, path = plan.pipeline.name, plan.pipeline.request, plan.source.path
    if given is None:
        if rule == "required":
            typed = name if path.startswith(f"{context.sources.builtin}/") else quote(path)
            hint = f'say what you want: agentforge run -p {typed} "…"'
            raise InvalidRequest(f"the pipeline {name!r} needs a user request", hint=hint)
        return None
    if rule is None:
        hint = "add `request: optional` to it, and ${REQUEST} to its prompts"
        raise InvalidRequest(f"the pipeline {name!r} takes no user request", hint=hint)
    if not given.strip():
        raise InvalidRequest("the user request is empty", hint="say what you want")
    content = given.encode("utf-8", "replace")
    if len(content) > MAX_USER_REQUEST_BYTES:
        limit = f"{MAX_USER_REQUEST_BYTES // 1024} KB"
        raise InvalidRequest(f"the user request is larger than {limit}", hint="put the details into files")
    _refuse_over_budget(plan, content)
    return stored(content.decode(), context.environ, "the user request")


def _refuse_over_budget(plan: Plan, request: bytes) -> None:
    """A request is never cut, so that it would fail the stage that is told it."""
    tokens = tokens_of_bytes(len(request))
    told = [
        (node.tokens.limit, node.id)
        for node in plan.stages
        if node.tokens and node.tokens.limit is not None
        if node.context_strategy in TELLS_REQUEST or "${REQUEST}" in (node.prompt or "")
    ]
    limit, id = min(told, default=(tokens, ""))
    if tokens > limit:
        message = f"the user request has {tokens:,} tokens; stage {id!r} has a budget of {limit:,}"
        raise InvalidRequest(message, hint="put the details into files, or raise `tokens` of the pipeline")
