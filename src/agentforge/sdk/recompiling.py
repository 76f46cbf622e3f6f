"""Pinned plans: a run keeps the plan that it began with, until a person has it compiled anew."""

import logging
import os

from msgspec.structs import replace

from agentforge.definition.compiler import INLINE, Compiled
from agentforge.definition.provider_settings import merged_settings
from agentforge.definition.source import SourceText
from agentforge.engine.replan import plan_change
from agentforge.host import files
from agentforge.model import facts as f
from agentforge.model.errors import InvalidRequest
from agentforge.model.layout import RunLayout
from agentforge.model.plan import NestedNode, Overrides, Plan
from agentforge.model.state import RunState
from agentforge.ports.sources import Sources
from agentforge.runtime.journal import Journal
from agentforge.sdk.sessions import write_definition

log = logging.getLogger("agentforge.run")


def warn_if_changed(plan: Plan, sources: Sources) -> None:
    """Say that files are no longer what the run's plan was compiled from."""
    for path in changed_sources(plan, sources):
        log.warning(
            "%s changed since session %r was compiled: it goes on by its pinned plan. "
            "`--recompile` takes the file as it is now",
            path,
            plan.session.name,
        )


def changed_sources(plan: Plan, sources: Sources) -> list[str]:
    """Files that differ from what the plan was compiled from, those of nested pipelines included."""
    found = []
    if plan.source.path != INLINE:
        text = sources.read(os.path.join(sources.project, plan.source.path)) or ""
        if SourceText(plan.source.path, text).sha256 != plan.source.sha256:
            found.append(plan.source.path)
    nested = (node.plan for node in plan.nodes if isinstance(node, NestedNode))
    return found + [path for inner in nested for path in changed_sources(inner, sources)]


def source_to_compile(plan: Plan) -> str:
    """What the run's pipeline is called, for compiling it anew."""
    if plan.source.path == INLINE:
        raise InvalidRequest(
            f"the pipeline of session {plan.session.name!r} was given as text: there is no file to recompile",
            hint="give a file, resume without recompiling, or begin anew",
        )
    return plan.source.path


def merged(before: Overrides, now: Overrides) -> Overrides:
    """What was asked for when the run began, and on top of it what is asked for now."""
    return Overrides(
        provider=now.provider or before.provider,
        model=now.model or (None if now.provider else before.model),
        context=before.context if now.context is None else now.context,
        inputs=now.inputs or before.inputs,
        commands={**before.commands, **now.commands},
        max_iterations=now.max_iterations or before.max_iterations,
        config=merged_settings({} if now.provider else before.config, now.config),
    )


def plan_changed(plan: Plan, before: Plan, state: RunState) -> f.PlanChanged:
    """Where the run goes on by the new plan; refused if the node where it is isn't there any more."""
    if plan.mode != before.mode:
        raise InvalidRequest(
            f"session {before.session.name!r} is a {before.mode} and can't go on as a {plan.mode}",
            hint="begin it anew with --force",
        )
    return plan_change(plan, before, state)


def change_plan(journal: Journal, layout: RunLayout, compiled: Compiled) -> None:
    """Have the run go on by another plan, as the same session."""
    plan = replace(compiled.plan, session=replace(journal.plan.session, inputs=compiled.plan.session.inputs))
    changed = plan_changed(plan, journal.plan, journal.state)
    # Files first: what a crash leaves of them is put right from the log when the run is taken up.
    write_definition(layout, replace(compiled, plan=plan))
    journal.record(changed, journal.state.cursor)


def restore_plan_file(journal: Journal, layout: RunLayout) -> None:
    """plan.json is a copy of the log's plan, whatever became of it since."""
    content = files.pretty(journal.plan)
    if files.read_bytes(layout.plan) != content:
        files.make_dir(layout.root)
        files.replace(layout.plan, content)
