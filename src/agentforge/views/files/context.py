"""context.json (v3): an agent's position in the run, its paths, inputs and limits."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from agentforge.model.layout import RunLayout
from agentforge.model.place import Place
from agentforge.model.plan import Plan, StageNode
from agentforge.model.request import AnsweredQuestion, Feedback
from agentforge.model.state import position_of
from agentforge.views.history import History
from agentforge.views.inputs import from_parallel, from_stage


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
    answers: tuple[AnsweredQuestion, ...] | UnsetType = UNSET
    """To the questions that the stage's agent asked."""


def context_file(
    plan: Plan,
    place: Place,
    node: StageNode,
    number: int,
    layout: RunLayout,
    *,
    history: History,
    remaining_seconds: float | None,
    max_previous: int = MAX_PREVIOUS_OUTPUTS,
    feedback: Feedback | None = None,
    answers: tuple[AnsweredQuestion, ...] = (),
) -> ContextFile:
    """`max_previous`: the maximum number of earlier outputs to list."""
    folder, scope = place.folder, place.scope
    here, earlier = layout.iteration(folder, number), history.stage(place.path, place.branch, place.run)
    listed = tuple(layout.absolutes(earlier.outputs[-max_previous:]))
    omitted = earlier.written - len(listed)
    return ContextFile(
        session=plan.session.name,
        pipeline="loop" if plan.mode == "loop" else plan.pipeline.name,
        stage=StageRef(node.id, position_of(place.path), node.ref or node.stage),
        iteration=number,
        paths=Paths(
            session_dir=f"{layout.root}/{scope}" if scope else layout.root,
            stage_dir=layout.stage_dir(folder),
            progress=layout.progress(plan.mode, folder, scope),
            output=here.output,
            status=here.status,
            result=here.result,
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
            remaining_seconds=-1 if remaining_seconds is None else int(remaining_seconds),
        ),
        commands=plan.pipeline.commands | node.commands,
        parallel_scope=ParallelScope(f"{layout.root}/{scope}", layout.root) if scope else None,
        feedback=feedback or UNSET,
        answers=answers or UNSET,
    )
