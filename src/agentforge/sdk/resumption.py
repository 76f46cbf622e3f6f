"""What starts and continues a run, in its log and its files: a person's word, answers, another plan.

A run keeps the plan that it began with, until a person has it compiled anew.
"""

import asyncio
import logging
import os
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from agentforge import __version__
from agentforge.definition.compiler import INLINE, Compiled
from agentforge.definition.source import SourceText
from agentforge.engine.replan import plan_change
from agentforge.engine.ruling import RESUME
from agentforge.host import files
from agentforge.model import facts as f
from agentforge.model.errors import InvalidRequest, RunActive
from agentforge.model.layout import RunLayout
from agentforge.model.plan import NestedNode, Plan
from agentforge.model.state import MAX_NOTES_BYTES, Request, RunState
from agentforge.model.status import RunStatus
from agentforge.ports.sources import Sources
from agentforge.runtime.control import answer_request, drop_pauses
from agentforge.runtime.journal import Journal
from agentforge.runtime.supervised import MARK

log = logging.getLogger("agentforge.run")


def session_started(compiled: Compiled, settings: f.Settings) -> f.SessionStarted:
    plan = compiled.plan
    only = plan.only_stage if plan.mode == "loop" else None
    return f.SessionStarted(
        mode=plan.mode,
        run_id=uuid.uuid4().hex,
        plan=plan,
        engine=__version__,
        stage=only.stage if only else None,
        stage_name=only.name or only.id if only else None,
        pipeline=None if only else plan.pipeline.name,
        pipeline_file=None if only else plan.source.path,
        settings=settings,
        format=f.LOG_FORMAT,
    )


def refuse_own_agent(state: RunState, environ: Mapping[str, str], verb: str = "resume") -> None:
    """A run's own agents never answer for a person."""
    if environ.get(MARK, "").startswith(f"{state.run_id}/"):
        raise InvalidRequest(
            f"an agent of session {state.session!r} may not {verb} it", hint="a person has to"
        )


def refuse_long_note(text: str | None) -> None:
    size = len((text or "").encode("utf-8", "replace"))
    if size > MAX_NOTES_BYTES:
        raise InvalidRequest(
            f"the context has {size} bytes, and {MAX_NOTES_BYTES} is the maximum",
            hint="put the text into a file of the project and name the file instead",
        )


def request_to_answer(state: RunState, id: str | None, answer: str) -> Request:
    """The open request that an answer is for; refused if there is none, or if it isn't offered."""
    found = [request for request in state.open_requests if id in (None, request.id)]
    if not found:
        what = f"request {id!r}" if id else "a request"
        raise InvalidRequest(f"session {state.session!r} has no open {what.removeprefix('a ')}")
    if len(found) > 1:
        ids = ", ".join(request.id for request in found)
        raise InvalidRequest(f"session {state.session!r} has several open requests: {ids}", hint="name one")
    if answer not in found[0].options:
        offered = ", ".join(found[0].options)
        raise InvalidRequest(f"{answer!r} is not an option of request {found[0].id!r}", hint=f"use {offered}")
    return found[0]


def waits_for(state: RunState, request: str) -> bool:
    """Whether the run stopped until the request is answered."""
    return state.waits and any(known.id == request for known in state.open_requests)


async def when_free(
    take_up: Callable[[], Awaitable[Journal]], is_wanted: Callable[[], bool], seconds: float = 2.0
) -> Journal | None:
    """The run's journal, as long as it is wanted. Who stopped the run may not have let go of it yet."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while is_wanted() and loop.time() < until:
        with suppress(RunActive):
            return await take_up()
        await asyncio.sleep(0.02)
    return None


def record_resume(
    journal: Journal, layout: RunLayout, resumed: f.SessionResumed, recovered: f.SessionRecovered
) -> None:
    """Answer the escalations that offer it, and record that the run continues: `resumed`, or `recovered`
    where nobody had stopped it. What else was asked stays open."""
    drop_pauses(layout)
    for request in journal.state.open_requests:
        if request.kind == "escalation" and RESUME in request.options and not request.is_overdue:
            given = answer_request(layout, request, RESUME, resumed.by)
            # Somebody may have been first, and the first answer stands.
            journal.record(f.RequestAnswered(request.id, given.answer, given.by), request.at)
    before = len(journal.state.notes)
    is_running = journal.state.status is RunStatus.RUNNING
    journal.record(recovered if is_running else resumed, journal.state.cursor)
    dropped = before + bool(resumed.context) - len(journal.state.notes)
    if dropped > 0:
        log.warning(
            "the oldest notes no longer fit into the context (%d bytes in total): dropped %d",
            MAX_NOTES_BYTES,
            dropped,
        )


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
    # Files first: what a crash leaves of them is put right from the log when the run is opened again.
    write_definition(layout, replace(compiled, plan=plan))
    journal.record(changed, journal.state.cursor)


def restore_plan_file(journal: Journal, layout: RunLayout) -> None:
    """plan.json is a copy of the log's plan, whatever became of it since."""
    content = files.pretty(journal.plan)
    if files.read_bytes(layout.plan) != content:
        files.make_dir(layout.root)
        files.replace(layout.plan, content)


def write_definition(layout: RunLayout, compiled: Compiled) -> None:
    """plan.json and a copy of what it was compiled from, for people and tools; the log has its own copy."""
    files.make_dir(layout.root)
    files.replace(layout.plan, files.pretty(compiled.plan))
    files.replace(os.path.join(layout.root, "pipeline.yaml"), compiled.source.text.encode("utf-8", "replace"))
