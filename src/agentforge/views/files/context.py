"""context.json (v3): an agent's position in the run, its paths, inputs and limits."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from agentforge.model.layout import RunLayout
from agentforge.model.plan import FromParallel, InputSources, Items, Judgment, Plan, StageNode
from agentforge.model.request import AnsweredQuestion, Feedback
from agentforge.model.result import JSONObject
from agentforge.model.state import position_of
from agentforge.model.task import AgentTask, PrepareTask
from agentforge.views.artifacts import NO_INPUT, IterationInput
from agentforge.views.history import History


class StageRef(Struct, frozen=True):
    id: str
    index: int
    template: str


class Paths(Struct, frozen=True):
    session_dir: str
    stage_dir: str
    progress: str
    output: str
    status: str
    result: str
    artifact: str | UnsetType = UNSET
    """Where the artifact is written, of a stage that has one."""


class ContextItem(Struct, frozen=True):
    """The item that the iteration is about."""

    id: str
    number: int
    of: int
    value: Any


MAX_PREVIOUS_OUTPUTS = 100


class PreviousIterations(Struct, frozen=True):
    count: int
    directory: str


class Inputs(Struct, frozen=True, omit_defaults=True):
    from_initial: tuple[str, ...]
    from_stage: dict[str, Any]
    from_parallel: dict[str, Any] | list[dict[str, Any]]
    from_previous_iterations: tuple[str, ...]
    """Only the latest."""
    from_previous_iterations_omitted: int
    """The number of earlier outputs that aren't listed."""
    previous_iterations: PreviousIterations | None = None
    """The total number and the directory, if not all are listed."""


class ContextLimits(Struct, frozen=True):
    max_iterations: int
    remaining_seconds: int
    """-1: unbounded."""


class ParallelScope(Struct, frozen=True):
    """Inside a parallel block: the directories of the branch and of the session."""

    scope_root: str
    pipeline_root: str


class ContextFile(Struct, frozen=True):
    session: str
    pipeline: str
    stage: StageRef
    iteration: int
    paths: Paths
    inputs: Inputs
    limits: ContextLimits
    commands: dict[str, str]
    parallel_scope: ParallelScope | None = None
    feedback: Feedback | UnsetType = UNSET
    """Why the previous visit of the stage was rejected; its files are absolute."""
    user_request: str | UnsetType = UNSET
    """What the user wants."""
    answers: tuple[AnsweredQuestion, ...] | UnsetType = UNSET
    """To the questions that the stage's agent asked."""
    artifact: JSONObject | str | UnsetType = UNSET
    """The artifacts of earlier stages, merged; or a file with them, if they are large."""
    previous: JSONObject | str | UnsetType = UNSET
    """The stage's own last artifact; or its file, if it is large."""
    item: ContextItem | UnsetType = UNSET
    briefing: str | UnsetType = UNSET
    """A file: what the context strategy chose."""


def context_file(
    task: PrepareTask | AgentTask,
    plan: Plan,
    layout: RunLayout,
    history: History,
    *,
    given: IterationInput = NO_INPUT,
    max_previous: int = MAX_PREVIOUS_OUTPUTS,
) -> ContextFile:
    """`max_previous`: the maximum number of earlier outputs to list."""
    place, node = task.place, task.node
    folder, scope = place.folder, place.scope
    here, last = layout.iteration(folder, task.iteration), given.previous
    earlier = history.stage(place.path, place.branch, place.run)
    listed = tuple(layout.absolutes(earlier.outputs[-max_previous:]))
    omitted = earlier.written - len(listed)
    return ContextFile(
        session=plan.session.name,
        pipeline="loop" if plan.mode == "loop" else plan.pipeline.name,
        stage=StageRef(node.id, position_of(place.path), node.ref or node.stage),
        iteration=task.iteration,
        paths=Paths(
            session_dir=f"{layout.root}/{scope}" if scope else layout.root,
            stage_dir=layout.stage_dir(folder),
            progress=layout.progress(plan.mode, folder, scope),
            output=here.output,
            status=here.status,
            result=here.result,
            artifact=here.artifact if node.artifact else UNSET,
        ),
        inputs=Inputs(
            from_initial=plan.session.inputs,
            from_stage=from_stage(node.sources, history, layout),
            from_parallel=from_parallel(node.sources, history, plan, layout),
            from_previous_iterations=listed,
            from_previous_iterations_omitted=omitted,
            previous_iterations=PreviousIterations(earlier.written, f"{layout.stage_dir(folder)}/iterations")
            if omitted
            else None,
        ),
        limits=ContextLimits(
            max_iterations=node.termination.max,
            remaining_seconds=-1 if task.remaining is None else int(task.remaining),
        ),
        commands=plan.pipeline.commands | node.commands,
        parallel_scope=ParallelScope(f"{layout.root}/{scope}", layout.root) if scope else None,
        feedback=task.feedback or UNSET,
        user_request=task.user_request.text if task.user_request else UNSET,
        answers=task.answers or UNSET,
        artifact=here.input if given.is_large else given.merged or UNSET,
        previous=UNSET if last is None else layout.absolute(last.file) if last.value is None else last.value,
        item=ContextItem(item.id, item.number, item.of, given.element) if (item := task.item) else UNSET,
        briefing=here.briefing if node.context_strategy else UNSET,
    )


ENDED_BY_STOP = "plateau"
ENDED_BY_COUNT = "fixed"
ENDED_AT_MAX = "max_iterations"


def from_stage(sources: InputSources | None, history: History, layout: RunLayout) -> dict[str, list[str]]:
    """Outputs by stage id; a stage without output has an empty list."""
    found: dict[str, list[str]] = {}
    for source in sorted(sources.from_stage, key=lambda s: s.id) if sources else ():
        outputs = history.stage(source.path, source.provider).located(layout)
        latest = [outputs.latest] if outputs.latest else []
        found[source.id] = outputs.paths if source.select == "all" else latest
    return found


def from_parallel(
    sources: InputSources | None, history: History, plan: Plan, layout: RunLayout
) -> dict[str, Any] | list[dict[str, Any]]:
    """A single source, or a list if several were given or it was written as a list."""
    if sources is None or not sources.from_parallel:
        return {}
    found = [_block_outputs(source, history, plan, layout) for source in sources.from_parallel]
    return found if sources.parallel_list else found[0]


def ended_by(node: StageNode, reason: str) -> str:
    """The termination reason of a stage, as a keyword."""
    if reason == ENDED_AT_MAX:
        return ENDED_AT_MAX
    return ENDED_BY_STOP if isinstance(node.termination, Judgment) else ENDED_BY_COUNT


def _block_outputs(source: FromParallel, history: History, plan: Plan, layout: RunLayout) -> dict[str, Any]:
    step = plan.places[source.path]
    providers: dict[str, Any] = {}
    for provider in sorted(source.providers):
        node = next(stage for stage in step.branch(provider) if stage.id == source.stage)
        outputs = history.stage(step.inner_path(node), provider).located(layout)
        providers[provider] = {
            "output": outputs.latest,
            "status": outputs.status_file,
            "iterations": outputs.iterations,
            "termination_reason": ended_by(node, outputs.reason),
            "history": outputs.paths if source.select == "all" else [],
        }
        left = history.artifacts_of(step.inner_path(node), provider)
        if left.over_items and isinstance(node.termination, Items):
            places = {id: layout.absolute(one.file) for id, one in left.by_item.items()}
            providers[provider]["artifact"] = places
        elif left.latest is not None:
            providers[provider]["artifact"] = layout.absolute(left.latest.file)
    return {
        "stage": source.stage,
        "block": source.block,
        "select": "history" if source.select == "all" else "latest",
        "manifest": layout.absolute(history.manifests.get(source.path) or layout.manifest(step.dir)),
        "providers": providers,
    }
