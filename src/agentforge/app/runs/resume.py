"""Continue a stopped run: `resume` by a person, `recover` after a crash or a shutdown of the machine.

A run keeps the plan that it started with unless it is recompiled.
"""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from msgspec.structs import replace

from agentforge.app.redaction import references_of_answers, stored
from agentforge.app.runs.auto_sandbox import keep_confined
from agentforge.app.runs.context import RunContext
from agentforge.app.runs.leases import active, stop_owner
from agentforge.app.runs.lookup import is_answered, is_recoverable
from agentforge.app.runs.program_parts import refuse_missing_parts
from agentforge.app.runs.runner import drive, make_ready, recovered, reopen
from agentforge.app.runs.start import run_settings, without_secrets, write_definition
from agentforge.app.runs.waivers import waivers
from agentforge.definition.compiler import INLINE, Compiled
from agentforge.definition.local_network import as_local
from agentforge.definition.lower import pinned_text
from agentforge.definition.report import SourceText
from agentforge.engine.legal import refuse_restart, refuse_resume
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.artifact import other_major
from agentforge.model.errors import IllegalMove, InvalidRequest, RunActive
from agentforge.model.layout import RunLayout
from agentforge.model.plan import NestedNode, Plan
from agentforge.model.result import JSONObject
from agentforge.model.run_options import CapOptions, ResumeOptions, caps_of, completed
from agentforge.model.secrets import NO_SECRETS, SecretReferences
from agentforge.model.spending import Amount
from agentforge.model.state import MAX_NOTES_BYTES, RunState, Waiver
from agentforge.model.status import RunStatus
from agentforge.ports.sources import Sources
from agentforge.runtime.answers import Answer, give_answer, record_answers, record_due
from agentforge.runtime.artifacts import read_artifact
from agentforge.runtime.controls import drop_pauses
from agentforge.runtime.journal import Journal
from agentforge.system import files
from agentforge.views.answers import answer_command
from agentforge.views.history import History
from agentforge.views.results import RunResult
from agentforge.views.run_model import fold_events
from agentforge.views.text import one_line

log = logging.getLogger("agentforge.run")


# What can be refused without the lease is refused before anything is changed: who may resume, trust, another
# engine. A plan to change to is compiled and made ready before the lease is taken, as that may take long and
# fail; whether the run can change to it depends on its state, so that is checked with the lease.
# `validate_resume` asks the same questions without the lease, to report them while a terminal is attached.
async def resume_run(
    context: RunContext,
    session: str,
    how: ResumeOptions,
    recompile: Callable[[], Compiled | None] = lambda: None,
    *,
    text: str | None = None,
    reason: str = "requested",
) -> RunResult:
    """`text`: what the person says to the agents. `reason`: why the stage is started over."""
    context.caller.refuse_agent(steer=text)
    context.caller.refuse_decisions(how)
    context.trust.refuse_untrusted(session)
    environ = context.environ
    resumed = _resumed(how, text, environ)
    restart = f.RestartRequested(reason, how["by"], how["provider"]) if how["restart_stage"] else None
    context.leases.refuse_other_engine(session, force=how["force"])
    _import_shell_run(context, session)
    compiled = _limited(context, session, recompile(), how)
    if compiled is not None:
        info = context.runs.info(session)
        before, settings = info.plan, info.state.settings
        kept = keep_confined(compiled.plan, before)
        plan = await make_ready(context, kept, settings, is_new=True)
        compiled = without_secrets(replace(compiled, plan=plan), environ, before.pipeline.secrets)
    if how["force"]:
        await stop_owner(context.runs, session, context.processes)
    journal = await reopen_to_work(
        context, session, accept_damage=how["accept_damage"], is_recompiled=compiled is not None
    )
    layout = context.runs.layout(session)
    with context.leases.released_on_error(journal):
        context.caller.refuse_resume(journal.state)
        refuse_resume(journal.state, journal.plan)
        record_due(journal, layout, references_of_answers(environ))
        if journal.state.stop and journal.state.stop.cancel:  # By a resolution.
            return await drive(context, journal)
        waived = _waivers(context, compiled.plan if compiled else journal.plan, journal.state, how)
        if compiled is None:
            _refuse_unanswered(journal.plan, journal.state, how)
        else:
            _change_plan(journal, layout, compiled, waived, how)
        facts = (f.Waived(each.check, each.reason, each.by, each.stage) for each in waived)
        for note in (*how["notes"], *facts):
            journal.record(note, journal.state.cursor)
        if context.caller.is_agent:
            resumed = replace(resumed, by="agent")
        # An answer counts as soon as its file exists; what it is based on must not be lost then.
        await journal.sync()
        record_resume(journal, layout, resumed, restart, references_of_answers(environ))
    return await drive(context, journal)


async def limit_run(context: RunContext, session: str, caps: CapOptions) -> None:
    """Set other caps on a run that no engine drives. It isn't continued."""
    given = ResumeOptions(max_cost=caps.get("max_cost"), max_tokens=caps.get("max_tokens"))
    how = completed(ResumeOptions, given)
    context.caller.refuse_decisions(how)
    context.trust.refuse_untrusted(session)
    compiled = _limited(context, session, None, how)
    if compiled is None:
        return
    journal = await reopen_to_work(context, session, accept_damage=False, is_recompiled=True)
    with context.leases.released_on_error(journal):
        _change_plan(journal, context.runs.layout(session), compiled, (), how)
        await journal.sync()
        context.leases.write_state(journal)
    context.leases.release(journal, keep_lock=journal.state.status is RunStatus.RUNNING)


def _limited(
    context: RunContext, session: str, compiled: Compiled | None, how: ResumeOptions
) -> Compiled | None:
    """The new plan, or that of the run, with the limits that are given. None: it stays as it is."""
    caps = caps_of(how["max_cost"], how["max_tokens"])
    if not how["local"] and caps is None:
        return compiled
    info = context.runs.info(session)
    local = how["local"] and not (compiled or info).plan.is_local
    if not local and caps is None:
        return compiled
    if compiled is None:
        text = files.read_text(os.path.join(context.runs.layout(session).root, "pipeline.yaml")) or ""
        compiled = Compiled(info.plan, (), SourceText(info.plan.source.path, text))
    plan = as_local(compiled.plan) if local else compiled.plan
    return replace(compiled, plan=plan.with_caps(caps) if caps else plan)


def _resumed(how: ResumeOptions, text: str | None, environ: Mapping[str, str]) -> f.SessionResumed:
    resumed = f.SessionResumed(how["by"], text, how["record"], how["approve"])
    if not text:
        return resumed
    refuse_long_note(text, "the context")
    context = stored(text, environ, "the context")
    return replace(resumed, context=context.text, secrets=context.secrets)


def _waivers(context: RunContext, plan: Plan, state: RunState, how: ResumeOptions) -> tuple[Waiver, ...]:
    first: JSONObject | None = None
    if how["skip"]:
        facts = (event.fact for event in context.runs.events(state.session))
        given = next((fact.artifact for fact in facts if isinstance(fact, f.SessionStarted)), None)
        first = read_artifact(context.runs.layout(state.session), given) if given else None
    done = {record.name for record in state.stages if record.iterations}
    if state.node is not None and state.node.completed and (here := plan.stage(state.node.path)):
        done.add(here.id)
    skipped = {*how["skip"], *(waiver.stage for waiver in state.waivers)}
    return waivers(context, plan, how, first, skipped.difference(done))


def _refuse_unanswered(plan: Plan, state: RunState, how: ResumeOptions) -> None:
    """Raise IllegalMove, with the command to use instead, if the run waits for nothing but approvals."""
    waiting = state.open_requests
    if not state.waits or not waiting or len(waiting) < len(state.requests) or how["restart_stage"]:
        return
    here = plan.stage(state.node.path) if state.node else None
    if here is not None and here.id in how["skip"]:
        return
    if any(request.resumes_with or (how["approve"] and request.kind == "approval") for request in waiting):
        return
    command = answer_command(state.session, waiting[0], "agentforge", only=len(waiting) == 1)
    raise IllegalMove(
        f"Session {state.session!r} waits for an answer: {one_line(waiting[0].question)}",
        hint=f"answer it instead: `{command}`",
    )


def validate_resume(
    context: RunContext,
    session: str,
    how: ResumeOptions,
    recompile: Callable[[], Compiled | None],
) -> None:
    """Raise the errors of `resume` that can be found without opening the run."""
    context.caller.refuse_decisions(how)
    caps_of(how["max_cost"], how["max_tokens"])
    info = context.runs.info(session)
    context.caller.refuse_resume(info.state)
    context.trust.refuse_untrusted(session)
    if not how["force"]:
        context.leases.refuse_other_engine(session, force=False)
    if info.status == "running" and not how["force"]:
        raise active(context.runs, session)
    refuse_resume(info.state, info.plan)
    if how["restart_stage"]:
        refuse_restart(info.state, how["provider"])
    if (compiled := recompile()) is not None:
        history = fold_events(context.runs.events(session)).history
        waived = _waivers(context, compiled.plan, info.state, how)
        _warn_if_skipped(_plan_changed(compiled.plan, info.plan, info.state, history, waived))
        return
    _waivers(context, info.plan, info.state, how)
    refuse_missing_parts(context, info.plan, info.state.settings)
    if not is_answered(info.plan, info.state, context.runs.layout(session), context.clock.now()):
        _refuse_unanswered(info.plan, info.state, how)


async def recover_run(context: RunContext, session: str, *, accept_damage: bool) -> RunResult | None:
    """The result, or None if there is nothing to recover or another engine has recovered it."""
    context.caller.refuse_agent(accept_damage=accept_damage)
    layout, now = context.runs.layout(session), context.clock.now()
    if not is_recoverable(context.runs.info(session), layout, now):
        return None
    context.trust.refuse_untrusted(session)
    try:
        context.leases.refuse_other_engine(session, force=False)
        journal = await reopen_to_work(context, session, accept_damage=accept_damage)
    except RunActive:
        return None
    if journal.state.status is RunStatus.RUNNING or journal.state.is_stopped_by_shutdown:
        with context.leases.released_on_error(journal):
            journal.record(recovered("recovery"), journal.state.cursor)
    elif not is_answered(journal.plan, journal.state, layout, now):
        # After a power failure, the restored end of the log may say that the run is over.
        context.leases.update(journal)
        return None
    return await drive(context, journal)


async def reopen_to_work(
    context: RunContext, session: str, *, accept_damage: bool, is_recompiled: bool = False
) -> Journal:
    """Open a run to continue it with its own plan, or with another that is ready already."""
    freed = await context.leases.clean()
    context.leases.warn_about_others(session)
    journal = await reopen(context, session, accept_damage=accept_damage, to_work=not is_recompiled)
    with context.leases.released_on_error(journal):
        if journal.state.status is RunStatus.RUNNING and session not in freed:
            await context.leases.release_tasks(session)
        # plan.json is a copy of the plan in the log, which a crash or an agent may have changed.
        layout, content = context.runs.layout(session), files.pretty(journal.plan)
        if files.read_usable(layout.plan, len(content)) != content:
            files.make_dir(layout.root)
            files.replace(layout.plan, content)
        for path in [] if is_recompiled else changed_sources(journal.plan, context.sources):
            log.warning(
                "%s changed since session %r was compiled: the run keeps its plan; "
                "use `--recompile` to compile the current file",
                path,
                session,
            )
    return journal


def _import_shell_run(context: RunContext, session: str) -> None:
    """Import a run of the shell engine first."""
    if not context.runs.is_shell_run(session):
        return
    info = context.runs.info(session)
    from agentforge.legacy.import_run import import_run

    refuse_resume(info.state, info.plan)
    journal = context.leases.open(session)
    try:
        settings = run_settings(context.environ)
        layout, known = context.runs.layout(session), context.known_providers
        import_run(journal, layout, context.sources, settings, known)
        context.trust.started(session, journal.state.run_id)
    finally:
        context.leases.release(journal)


def refuse_long_note(text: str, what: str) -> None:
    size = len(text.encode("utf-8", "replace"))
    if size > MAX_NOTES_BYTES:
        raise InvalidRequest(
            f"{what} must have at most {MAX_NOTES_BYTES} bytes, got {size}",
            hint="put the text into a file of the project and name the file instead",
        )


def record_resume(
    journal: Journal,
    layout: RunLayout,
    resumed: f.SessionResumed,
    restart: f.RestartRequested | None = None,
    secrets: SecretReferences = NO_SECRETS,
) -> None:
    """Answer the requests that a resume answers, and record that the run continues, as recovered if its
    engine died. Other requests stay open."""
    # A pause that was asked for before would stop the run again at once.
    drop_pauses(layout)
    run_id = journal.state.run_id
    for request in journal.state.open_requests:
        if (answer := request.resumes_with) is None:
            continue
        first = give_answer(layout, Answer(request.id, answer, resumed.by, run_id, journal.now()))
        if first is None:
            journal.record(f.RequestAnswered(request.id, answer, resumed.by), request.at)
    # Another answer may have been first; the first one counts.
    record_answers(journal, layout, secrets)
    if restart is not None:
        journal.record(restart, journal.state.cursor)
    is_running = journal.state.status is RunStatus.RUNNING
    journal.record(_as_recovered(resumed) if is_running else resumed, journal.state.cursor)


def _as_recovered(resumed: f.SessionResumed) -> f.SessionRecovered:
    # Only a person resets the counters of a run whose engine died.
    by: Literal["person", "recovery"] = "recovery" if resumed.by == "agent" else "person"
    return recovered(
        by,
        resumed.context,
        record=resumed.record,
        approve=resumed.approve,
        secrets=resumed.secrets,
    )


def changed_sources(plan: Plan, sources: Sources) -> list[str]:
    """Files that changed since the plan was compiled, including those of nested pipelines."""
    prompts = {stage.prompt_path: stage.prompt for step in plan.steps for stage in step.stages}
    changed = (
        path for path, text in prompts.items() if path is not None and pinned_text(path, sources) != text
    )
    return list(dict.fromkeys((*_changed_pipelines(plan, sources), *changed)))


def _changed_pipelines(plan: Plan, sources: Sources) -> Iterator[str]:
    if plan.source.path != INLINE:
        text = sources.read(os.path.join(sources.project, plan.source.path)) or ""
        if SourceText(plan.source.path, text).sha256 != plan.source.sha256:
            yield plan.source.path
    for node in plan.nodes:
        if isinstance(node, NestedNode):
            yield from _changed_pipelines(node.plan, sources)


def _plan_changed(
    plan: Plan, before: Plan, state: RunState, history: History, waived: tuple[Waiver, ...]
) -> f.PlanChanged:
    """The change to the new plan. Raises if the run's current node doesn't exist in it, or if its stages
    can't read the artifacts of the run."""
    if plan.mode != before.mode:
        raise InvalidRequest(
            f"session {before.session.name!r} is a {before.mode} and can't continue as a {plan.mode}",
            hint="start over with --force",
        )
    change = plan_change(plan, before, replace(state, waivers=(*state.waivers, *waived)))
    for (path, branch), stage in before.placed.items():
        left = history.artifacts_of(path, branch).latest
        now = plan.stage(change.paths.get(path) or "", branch)
        if left and now and now.artifact and other_major(left.version, now.artifact.version):
            raise IllegalMove(
                f"stage {stage.id!r} has left an artifact of version {left.version}, which stages that expect"
                f" version {now.artifact.version} can't read",
                hint="keep the major version, resume without --recompile, or start over with --force",
            )
    return change


def _warn_if_skipped(change: f.PlanChanged) -> None:
    """Name the nodes that were not run, and won't be."""
    if not change.skipped:
        return
    places = change.plan.places
    names = ", ".join(repr(places[path].node.id) for path in change.skipped)
    here = repr(places[change.at.path].node.id) if change.at else "the end of the run"
    log.warning(
        "skipped without having been run, because the run has already reached %s: %s;"
        " to run a node, move it behind the place that the run has reached, and recompile again",
        here,
        names,
    )


def _change_plan(
    journal: Journal, layout: RunLayout, compiled: Compiled, waived: tuple[Waiver, ...], how: ResumeOptions
) -> None:
    """Switch the run to another plan, as the same session."""
    plan = replace(compiled.plan, session=replace(journal.plan.session, inputs=compiled.plan.session.inputs))
    changed = _plan_changed(plan, journal.plan, journal.state, journal.model.history, waived)
    # Files first: after a crash they are restored from the log when the run is reopened.
    write_definition(layout, replace(compiled, plan=plan))
    caps = caps_of(how["max_cost"], how["max_tokens"]) or Amount()
    caps_set = tuple(unit for unit, _ in caps.known)
    journal.record(replace(changed, caps_set=caps_set), journal.state.cursor)
