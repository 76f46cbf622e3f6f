"""Import a run of the shell engine: compile its definition and restore its position.

One event, `log_adopted`, records all of it. The lines before it stay unchanged, and the hash chain starts
with it.
"""

import uuid
from collections.abc import Collection, Iterator
from posixpath import join

from msgspec.structs import replace

from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.definition.compiler import compile_stage, compile_text
from agentforge.definition.machine import Machine
from agentforge.engine.nodes import first_node
from agentforge.legacy.shell_run import is_shell_run, loop_maximum, read_json, reconstructed_plan
from agentforge.model import facts as f
from agentforge.model.errors import InvalidRequest
from agentforge.model.facts import ImportedStage
from agentforge.model.layout import RunLayout
from agentforge.model.place import Place, inner_place
from agentforge.model.plan import Overrides, ParallelNode, Plan, StageNode, Step
from agentforge.model.state import (
    Between,
    BlockState,
    BranchState,
    Position,
    RunSettings,
    RunState,
    StageRecord,
    StageState,
    Start,
    position_of,
)
from agentforge.ports.sources import Sources
from agentforge.runtime.conclusion import move_leftovers
from agentforge.runtime.journal import Journal
from agentforge.system import files
from agentforge.version import __version__
from agentforge.views.history import KEPT

# What the shell engine did is kept, what it was doing is not. Completed iterations and nodes count, with the
# outputs that later stages read. An iteration that was running is run again: its agent belongs to another
# engine and can't be reattached to. Its files are moved aside first, since the next attempt would take an
# output that lies in its folder for its own.
#
# The run is pinned to the definition that was saved with it, not to that of the project, which may have
# changed since. If the log doesn't fit this definition, the import is refused: every position in it would be
# a guess.


def import_run(
    journal: Journal,
    layout: RunLayout,
    sources: Sources,
    settings: RunSettings,
    known_providers: Collection[str] | None,
) -> None:
    """Import a run of the shell engine. A run that is imported already is left as it is."""
    if not is_shell_run(journal.state):
        return
    plan = _compiled(layout, sources, journal.plan, journal.state, known_providers)
    _refuse_other_definition(plan, journal.state)
    _record(journal, layout, plan, settings)


def _record(journal: Journal, layout: RunLayout, plan: Plan, settings: RunSettings) -> None:
    """Record the import."""
    original, state = journal.writer.shell_lines, journal.state
    assert original is not None
    at = _position(plan, state)
    left = completed_stages(layout, plan, state.stages, at)
    archive_incomplete(layout, plan, left)
    imported = f.LogImported(
        lines=original.lines,
        sha256=original.sha256,
        mode=plan.mode,
        run_id=uuid.uuid4().hex,
        plan=plan,
        engine=__version__,
        started_at=state.started_at,
        at=at,
        stages=state.stages,
        left=left,
        settings=settings,
        format=f.LOG_FORMAT,
    )
    journal.record(imported, state.cursor)
    if journal.writer.repaired is not None:
        torn = journal.writer.repaired
        journal.record(f.LogRepaired(torn.bytes, torn.kept), journal.state.cursor)
    journal.wait_for_disk()
    files.replace(layout.plan, files.pretty(plan))


def _compiled(
    layout: RunLayout, sources: Sources, plan: Plan, state: RunState, known: Collection[str] | None
) -> Plan:
    """The run's own definition, with the providers, models, iterations and inputs that it started with."""
    machine = Machine(known_providers=known, has_settings=False)
    before = reconstructed_plan(layout, JsonlLog(layout.log), plan, state)
    written = read_json(layout.plan)
    if plan.mode == "loop":
        overrides = Overrides(max_iterations=loop_maximum(layout, plan.pipeline.name, state))
        stage = plan.pipeline.name
        fresh = compile_stage(sources, stage, state.session, overrides, machine).plan
    else:
        source = written.get("source")
        path = source.get("path") if isinstance(source, dict) else None
        name = path if isinstance(path, str) and path else plan.source.path
        text = (
            files.read_text(f"{layout.root}/pipeline.yaml") or sources.read(join(sources.project, name)) or ""
        )
        fresh = compile_text(sources, name, text, state.session, machine).plan
    session = written.get("session")
    inputs = session.get("inputs") if isinstance(session, dict) else None
    given = tuple(path for path in inputs if isinstance(path, str)) if isinstance(inputs, list) else ()
    nodes = tuple(_pinned(node, before) for node in fresh.nodes)
    return replace(fresh, nodes=nodes, session=replace(fresh.session, inputs=given or fresh.session.inputs))


def _pinned(node: object, before: Plan) -> object:
    """The node with the provider and the number of iterations that the run started with."""
    if not isinstance(node, StageNode):
        return node
    was = next((n for n in before.nodes if isinstance(n, StageNode) and n.path == node.path), None)
    if was is None:
        return node
    provider = node.provider
    if was.provider.type:
        provider = replace(provider, type=was.provider.type, model=was.provider.model or provider.model)
    maximum = was.termination.max or node.termination.max
    return replace(node, provider=provider, termination=replace(node.termination, max=maximum))


def _refuse_other_definition(plan: Plan, state: RunState) -> None:
    """Raise if the run's saved definition doesn't match its log."""
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
            f"the log of session {state.session!r} doesn't match the definition saved with it",
            hint="finish it with the shell engine, or start over with --force",
        )


def _position(plan: Plan, state: RunState) -> StageState | BlockState | Between:
    """Where the run continues, without running work and failures."""
    match state.at:
        case StageState() as at:
            return _stage_position(at)
        case BlockState(path=path, branches=branches):
            stages = (branch.stage and _stage_position(branch.stage) for branch in branches)
            at_rest = (
                replace(branch, stage=stage, failure=None)
                for branch, stage in zip(branches, stages, strict=True)
            )
            return BlockState(path, 1, branches=tuple(at_rest))
        case Start():
            return Between(first_node(plan))
        case Between(next=destination) if destination and destination.path in plan.places:
            return Between(destination)
        case _:
            return Between(None)


def _stage_position(at: StageState) -> StageState:
    return StageState(
        path=at.path,
        run=1,
        completed=at.completed,
        last_decision=at.last_decision,
        judged=at.judged,
        stops=at.stops,
        plateaus=at.plateaus,
        judge_failures=at.judge_failures,
    )


def completed_stages(
    layout: RunLayout, plan: Plan, done: tuple[StageRecord, ...], at: Position
) -> tuple[ImportedStage, ...]:
    """The outputs of all completed iterations, for the stages to come."""
    found = [left for record in done for left in _of_record(layout, plan, record)]
    match at:
        case StageState():
            found.append(_left(layout, _place(plan.places[at.path]), at.completed, ""))
        case BlockState():
            for branch in at.branches:
                found += _of_branch(layout, plan, branch)
    return tuple(found)


def archive_incomplete(layout: RunLayout, plan: Plan, left: tuple[ImportedStage, ...]) -> None:
    """Archive the files of incomplete iterations, so that they don't count when these run: of the one that
    was running, and of later ones that an earlier run of the shell engine may have left."""
    complete = {(stage.path, stage.provider): stage.iterations for stage in left}
    for place in (place for step in plan.steps for place in _places_in(step)):
        for name in _iterations(layout, place):
            done = complete.get((place.path, place.branch), 0)
            if name.isascii() and name.isdigit() and int(name) > done:
                move_leftovers(layout.iteration(place.folder, int(name)), 0)


def _places_in(step: Step) -> Iterator[Place]:
    if isinstance(step.node, ParallelNode):
        for branch in step.node.branches:
            for number in range(len(branch.stages)):
                yield inner_place(step, 1, branch.provider, number)
    else:
        yield _place(step)


def _place(step: Step) -> Place:
    return Place(step.path, 1, step.dir)


def _iterations(layout: RunLayout, place: Place) -> list[str]:
    return files.listing(f"{layout.stage_dir(place.folder)}/iterations")


def _of_record(layout: RunLayout, plan: Plan, record: StageRecord) -> Iterator[ImportedStage]:
    """The record of a block lacks the iterations of each stage: they are counted from the folders."""
    step = plan.places[record.path]
    for place in _places_in(step):
        count = record.iterations
        if isinstance(step.node, ParallelNode):
            count = len(_iterations(layout, place))
        yield _left(layout, place, count, record.reason)


def _of_branch(layout: RunLayout, plan: Plan, branch: BranchState) -> Iterator[ImportedStage]:
    for record in branch.stages:
        place = _inner(plan, branch.provider, record.path)
        yield _left(layout, place, record.iterations, record.reason)
    if branch.stage is not None:
        yield _left(layout, _inner(plan, branch.provider, branch.stage.path), branch.stage.completed, "")


def _inner(plan: Plan, provider: str, path: str) -> Place:
    return inner_place(plan.places[path.rpartition(".")[0]], 1, provider, position_of(path))


def _left(layout: RunLayout, place: Place, iterations: int, reason: str) -> ImportedStage:
    outputs = [layout.iteration(place.folder, number).output for number in range(1, iterations + 1)]
    written = [path for path in outputs if files.is_file(path)]
    return ImportedStage(
        path=place.path,
        iterations=iterations,
        outputs=tuple(layout.relative(path) for path in written[-KEPT:]),
        omitted=max(0, len(written) - KEPT),
        result_file=layout.relative(layout.iteration(place.folder, iterations).result) if iterations else "",
        reason=reason,
        provider=place.branch,
    )
