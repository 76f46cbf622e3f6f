"""Taking up a run that agent-pipelines' own engine began: it is compiled now, and put where it stood.

One event, `log_adopted`, holds all of that. The lines before it stay as they are, and the chain of ours
begins with it.
"""

import uuid
from collections.abc import Collection
from posixpath import join

from msgspec.structs import replace

from agentforge import __version__
from agentforge.definition.compiler import compile_kept, compile_stage
from agentforge.engine.course import first_node
from agentforge.engine.legal import refuse_resume
from agentforge.host import files
from agentforge.model import facts as f
from agentforge.model.adopted import BlockPosition, BranchPosition, DoneStage, StagePosition
from agentforge.model.errors import InvalidRequest
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Plan, StageNode
from agentforge.model.state import Between, BranchState, RunState, StageRecord, StageState, Start
from agentforge.ports.sources import Sources
from agentforge.runtime.adopting import left_behind, set_rest_aside
from agentforge.runtime.journal import Journal
from agentforge.sdk.originals import is_original, kept_definition, loop_maximum, read_json, sketched
from agentforge.sdk.runner import Runner
from agentforge.sdk.runs import Runs
from agentforge.sdk.wiring import log_of, sources_of


def take_over(runs: Runs, runner: Runner, session: str, known_providers: Collection[str] | None) -> None:
    """Make a run that agent-pipelines' own engine began one of ours; what is ours is left alone."""
    if not runs.is_original(session):
        return
    refuse_resume(runs.info(session).state)
    journal = runner.open(session)
    try:
        if is_original(journal.state):
            adopt(
                journal,
                runs.layout(session),
                sources_of(runs.project, runs.environ),
                settings=runner.settings(),
                known_providers=known_providers,
            )
    finally:
        runner.release(journal)


def adopt(
    journal: Journal,
    layout: RunLayout,
    sources: Sources,
    *,
    settings: f.Settings,
    known_providers: Collection[str] | None,
) -> None:
    """Record that the run is ours from now on; raises DefinitionError if it no longer compiles."""
    original, state = journal.writer.adopted, journal.state
    assert original is not None
    plan = _compiled(layout, sources, journal.plan, state, known_providers)
    node = _position(state.node) if state.node else None
    block = (
        BlockPosition(state.block.path, tuple(map(_branch, state.block.branches))) if state.block else None
    )
    stages = tuple(map(_done, state.stages))
    _refuse_misfit(plan, state)
    left = left_behind(layout, plan, stages, node, block)
    set_rest_aside(layout, plan, left)
    adopted = f.LogAdopted(
        lines=original.lines,
        sha256=original.sha256,
        mode=plan.mode,
        run_id=uuid.uuid4().hex,
        plan=plan,
        engine=__version__,
        started_at=state.started_at,
        stages=stages,
        node=node,
        block=block,
        next=_next(plan, state),
        left=left,
        settings=settings,
        format=f.LOG_FORMAT,
    )
    journal.record(adopted, state.cursor)
    if journal.writer.repaired is not None:
        torn = journal.writer.repaired
        journal.record(f.LogRepaired(torn.bytes, torn.kept), journal.state.cursor)
    journal.wait_for_disk()
    files.replace(layout.plan, files.pretty(plan))


def _compiled(
    layout: RunLayout, sources: Sources, plan: Plan, state: RunState, known: Collection[str] | None
) -> Plan:
    """The run's own definition, with what was pinned for it: providers, models, iterations, inputs."""
    sketch = sketched(layout, log_of(layout, {}), plan, state)
    written = read_json(layout.plan)
    if plan.mode == "loop":
        most = loop_maximum(layout, plan.pipeline.name, state)
        fresh = compile_stage(sources, plan.pipeline.name, state.session, most, known_providers=known).plan
    else:
        source = written.get("source")
        path = source.get("path") if isinstance(source, dict) else None
        name = path if isinstance(path, str) and path else plan.source.path
        text = files.read_text(kept_definition(layout)) or sources.read(join(sources.project, name)) or ""
        fresh = compile_kept(sources, name, text, state.session, known_providers=known).plan
    session = written.get("session")
    inputs = session.get("inputs") if isinstance(session, dict) else None
    given = tuple(path for path in inputs if isinstance(path, str)) if isinstance(inputs, list) else ()
    nodes = tuple(_pinned(node, sketch) for node in fresh.nodes)
    return replace(fresh, nodes=nodes, session=replace(fresh.session, inputs=given or fresh.session.inputs))


def _pinned(node: object, sketch: Plan) -> object:
    """The provider and the number of iterations that the run began with."""
    if not isinstance(node, StageNode):
        return node
    was = next((n for n in sketch.nodes if isinstance(n, StageNode) and n.path == node.path), None)
    if was is None:
        return node
    provider = node.provider
    if was.provider.type:
        provider = replace(provider, type=was.provider.type, model=was.provider.model or provider.model)
    most = was.termination.max or node.termination.max
    return replace(node, provider=provider, termination=replace(node.termination, max=most))


def _refuse_misfit(plan: Plan, state: RunState) -> None:
    """The kept definition has to be the one that the log tells of."""
    at = state.node or state.block
    nodes = {step.path: step.node for step in plan.steps}
    fits = plan.mode == "loop" or all(
        record.path in nodes and nodes[record.path].id == record.name for record in state.stages
    )
    if at is not None:
        is_stage = isinstance(nodes.get(at.path), StageNode)
        fits = fits and at.path in nodes and is_stage == isinstance(at, StageState)
    if not fits:
        raise InvalidRequest(
            f"session {state.session!r} was begun with another definition than the one that is kept with it",
            hint="finish it with agent-pipelines itself, or begin anew with --force",
        )


def _next(plan: Plan, state: RunState) -> f.Destination | None:
    """Where it goes on between two nodes; None at its end."""
    match state.at:
        case Start():
            return first_node(plan)
        case Between(next=destination) if destination and destination.path in plan.places:
            return destination
        case _:
            return None


def _position(at: StageState) -> StagePosition:
    return StagePosition(
        path=at.path,
        completed=at.completed,
        last_decision=at.last_decision,
        judged=at.judged,
        stops=at.stops,
        plateaus=at.plateaus,
        judge_failures=at.judge_failures,
    )


def _branch(branch: BranchState) -> BranchPosition:
    return BranchPosition(
        provider=branch.provider,
        status=branch.status.value,
        stages=tuple(map(_done, branch.stages)),
        stage=_position(branch.stage) if branch.stage else None,
        started_at=branch.started_at,
    )


def _done(record: StageRecord) -> DoneStage:
    return DoneStage(record.name, record.path, record.iterations, record.completed_at, record.reason)
