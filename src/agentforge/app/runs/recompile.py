"""Compiles the current definition of a run, with the overrides that it was started with."""

from collections.abc import Callable

from agentforge.definition.compiler import INLINE, Compiled, PipelineSource
from agentforge.definition.read.provider_settings import merge_settings
from agentforge.model.errors import InvalidRequest
from agentforge.model.plan import Overrides, Plan


def recompiled(
    compile: Callable[..., Compiled],
    plan: Plan,
    pipeline: PipelineSource | None = None,
    overrides: Overrides | None = None,
    passes: int | None = None,
) -> Compiled:
    """Compile the current definition of a run, or another pipeline, with the overrides that the run started
    with; `overrides` and `passes` replace these. `compile` is the engine's."""
    session, effective = plan.session.name, merged(plan.pipeline.overrides, overrides or Overrides())
    if pipeline is None and plan.mode == "loop":
        return compile(stage=plan.only_stage.stage, session=session, overrides=effective)
    source = source_to_compile(plan) if pipeline is None else pipeline
    return compile(source, session=session, overrides=effective, passes=passes or plan.passes)


def source_to_compile(plan: Plan) -> str:
    """The path of the run's pipeline, for recompiling it."""
    if plan.source.path == INLINE:
        raise InvalidRequest(
            f"the pipeline of session {plan.session.name!r} was given as text: no file to recompile",
            hint="give a file, resume without recompiling, or start over",
        )
    return plan.source.path


def merged(before: Overrides, now: Overrides) -> Overrides:
    """The overrides that the run was started with, overridden by the new ones."""
    return Overrides(
        provider=now.provider or before.provider,
        model=now.model or (None if now.provider else before.model),
        context=before.context if now.context is None else now.context,
        inputs=now.inputs or before.inputs,
        commands={**before.commands, **now.commands},
        max_iterations=now.max_iterations or before.max_iterations,
        config=merge_settings({} if now.provider else before.config, now.config),
    )
