"""Compiles definitions with all that an engine knows. That of a past run: as it is now, to continue the run
or to compare its course, or as it was recorded, to replay it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from agentforge.app.providers.offers import refuse_untrusted
from agentforge.app.recording import Recording, is_cassette_file
from agentforge.app.runs.auto_sandbox import choose_sandboxes, keep_confined
from agentforge.app.runs.context import RunContext
from agentforge.definition.compiler import (
    INLINE,
    Compiled,
    PipelineSource,
    compile_pipeline,
    compile_stage,
)
from agentforge.definition.read.provider_settings import merge_settings
from agentforge.definition.report import SourceText
from agentforge.engine.legal import refuse_shell_run
from agentforge.model.errors import InvalidRequest
from agentforge.model.event import Event
from agentforge.model.names import session_name
from agentforge.model.plan import Overrides, Plan, PlanSession
from agentforge.ports.event_log import Damage

if TYPE_CHECKING:
    from agentforge.engine.rehearsal.rehearse import Rehearsal


def compile_definition(
    context: RunContext,
    pipeline: PipelineSource | None = None,
    *,
    stage: str | None = None,
    session: str | None = None,
    overrides: Overrides | None = None,
    passes: int = 1,
) -> Compiled:
    """Raises DefinitionError with all diagnostics at once."""
    if (pipeline is None) == (stage is None):
        raise InvalidRequest("give either a pipeline or a stage", hint="pass one of `pipeline`, `stage`")
    sources, overrides = context.sources, overrides or Overrides()
    machine = context.machine
    if stage is not None:
        found = compile_stage(sources, stage, session, overrides, machine)
    else:
        assert pipeline is not None
        found = compile_pipeline(sources, pipeline, session, overrides, machine, passes=passes)
    # What the program has registered is its own choice, which no file of the project replaces.
    described = [name for name in found.plan.descriptions if not context.registry.is_registered(name)]
    if not context.is_mock:
        refuse_untrusted(described, context.project, context.environ)
    plan = pinned_here(context, found.plan)
    if session is None and stage is None:
        plan = replace(plan, session=replace(plan.session, name=context.free_name(plan.session.name)))
    return replace(found, plan=plan)


def pinned_here(context: RunContext, plan: Plan) -> Plan:
    """With what this program and this machine add to a definition."""
    return choose_sandboxes(context.hooks.pinned(plan), context.sandboxes, context.registry.known)


def recompiled(
    context: RunContext,
    plan: Plan,
    pipeline: PipelineSource | None = None,
    overrides: Overrides | None = None,
    passes: int | None = None,
) -> Compiled:
    """Compile the current definition of a run, or another pipeline, with the overrides that the run started
    with; `overrides` and `passes` replace these."""
    session, effective = plan.session.name, merged(plan.pipeline.overrides, overrides or Overrides())
    stage = plan.only_stage.stage if pipeline is None and plan.mode == "loop" else None
    if pipeline is None and stage is None:
        pipeline = plan.source.path
        if pipeline == INLINE:
            raise InvalidRequest(
                f"the pipeline of session {session!r} was given as text: no file to recompile",
                hint="give a file, resume without recompiling, or start over",
            )
    found = compile_definition(
        context, pipeline, stage=stage, session=session, overrides=effective, passes=passes or plan.passes
    )
    return replace(found, plan=keep_confined(found.plan, plan))


def merged(before: Overrides, now: Overrides) -> Overrides:
    """The overrides that the run was started with, overridden by the new ones."""
    # A model and settings belong to a provider: those of the earlier one make no sense for another.
    return Overrides(
        provider=now.provider or before.provider,
        model=now.model or (None if now.provider else before.model),
        context=before.context if now.context is None else now.context,
        inputs=now.inputs or before.inputs,
        commands={**before.commands, **now.commands},
        max_iterations=now.max_iterations or before.max_iterations,
        config=merge_settings({} if now.provider else before.config, now.config),
        local=before.local or now.local,
        orchestration={**before.orchestration, **now.orchestration},
        caps=now.caps.or_else(before.caps) if now.caps else before.caps,
        supervised=before.supervised if now.supervised is None else now.supervised,
        exit_after=now.exit_after or before.exit_after,
        rounds=now.rounds or before.rounds,
        iterate=before.iterate if now.iterate is None else now.iterate,
        max_runtime=now.max_runtime or before.max_runtime,
        executors=now.executors or before.executors,
    )


def compiled_for_replay(
    context: RunContext, recording: Recording, pipeline: PipelineSource | None, session: str | None
) -> Compiled:
    """The recorded plan, or another pipeline, with a new session name."""
    name = session_name(session or f"{recording.name[:56]}-replay")
    plan, text = recording.cassette.header.plan, recording.cassette.header.pipeline
    if pipeline is not None:
        if plan is None:
            return compile_definition(context, pipeline, session=name)
        overrides = plan.pipeline.overrides
        other = compile_definition(context, pipeline, session=name, overrides=overrides, passes=plan.passes)
        return _with_functions(other, plan)
    if plan is None:
        raise InvalidRequest(
            f"{recording.path} has no plan: the pipeline that it was recorded with is unknown",
            hint="give the pipeline with -p FILE",
        )
    named = PlanSession(name, plan.session.created_at, plan.session.inputs)
    return Compiled(replace(plan, session=named), (), SourceText(plan.source.path, text))


class CourseComparison(Struct, frozen=True):
    """A past run compared with the current pipeline."""

    session: str
    pipeline: str
    """The file of the pipeline or stage that was rehearsed."""
    rehearsal: "Rehearsal"
    damage: tuple[Damage, ...] = ()
    """Lines of the log that were skipped."""

    @property
    def is_same(self) -> bool:
        return self.rehearsal.is_same


def compare_course(
    context: RunContext, source: str, pipeline: PipelineSource | None = None
) -> CourseComparison:
    """Rehearse a run, given as a session or a cassette, with its current definition or with another
    pipeline."""
    from agentforge.engine.rehearsal.rehearse import rehearse  # Runs don't need it.

    runs = context.runs
    damage: tuple[Damage, ...] = ()
    if is_cassette_file(source):
        plan, events = _enacted(runs.recording(source))
    else:
        info = runs.info(source, cached=False)
        refuse_shell_run(info.state)
        plan, events, damage = info.plan, tuple(runs.events(source)), info.damage
    now = _with_functions(recompiled(context, plan, pipeline), plan).plan
    return CourseComparison(plan.session.name, now.source.path, rehearse(now, events), damage)


def _enacted(recording: Recording) -> tuple[Plan, Sequence[Event]]:
    """The plan of a cassette, and the events of a run that would have made it."""
    from agentforge.engine.rehearsal.rehearsed_run import enact

    cassette = recording.cassette
    header, plan = cassette.header, cassette.header.plan
    if plan is None:
        raise InvalidRequest(
            f"{recording.path} was written by hand: it has no plan to compare with",
            hint="give a session, or a cassette that `--record` made",
        )
    try:
        events = enact(plan, cassette.exchanges, plateau_test=header.plateau_test, waivers=header.waivers)
    except ValueError as error:
        raise InvalidRequest(
            f"cannot compare {recording.path}: {error}", hint="give the session instead of the cassette"
        ) from error
    return plan, events


def _with_functions(found: Compiled, before: Plan) -> Compiled:
    """With the hooks of the program that ran it, unless this program has its own: no file names them."""
    info = found.plan.pipeline
    if found.plan.program_hooks:
        return found
    functions = (hook for hook in before.pipeline.hooks if hook.action == "call")
    return replace(found, plan=replace(found.plan, pipeline=replace(info, hooks=(*info.hooks, *functions))))
