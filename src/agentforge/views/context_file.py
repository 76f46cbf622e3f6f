"""context.json (v3): what an agent is told about its place in the run, its paths, inputs and limits."""

from typing import Any

import msgspec
from msgspec import Struct

from agentforge.model.layout import RunLayout
from agentforge.model.place import Place
from agentforge.model.plan import Plan, StageNode
from agentforge.model.state import position_of
from agentforge.views.history import KEPT, History, StageOutputs
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


class Inputs(Struct, frozen=True):
    from_initial: tuple[str, ...]
    from_stage: dict[str, Any]
    from_parallel: dict[str, Any] | list[dict[str, Any]]
    from_previous_iterations: tuple[str, ...]
    """Left out here; `context_json` puts them in."""
    from_previous_iterations_omitted: int
    """How many earlier outputs aren't listed; the stage's directory has them all."""


class Limits(Struct, frozen=True):
    max_iterations: int
    remaining_seconds: int
    """-1: unbounded."""


class ParallelScope(Struct, frozen=True):
    """Inside a parallel block: the branch's own directory, and the session's for what lies outside."""

    scope_root: str
    pipeline_root: str


class ContextFile(Struct, frozen=True):
    session: str
    pipeline: str
    stage: StageRef
    iteration: int
    paths: Paths
    inputs: Inputs
    limits: Limits
    commands: dict[str, str]
    parallel_scope: ParallelScope | None = None


# Unambiguous: a quote inside any text of the file is escaped, and the commands come after the inputs.
_NONE_LISTED = b'"from_previous_iterations": []'
_LISTED = b'"from_previous_iterations": [\n      %b\n    ]'


def context_file(
    plan: Plan,
    place: Place,
    node: StageNode,
    number: int,
    layout: RunLayout,
    *,
    history: History,
    remaining_seconds: float | None,
    most: int = KEPT,
) -> ContextFile:
    """`most`: how many earlier outputs are listed."""
    folder, scope = place.folder, place.scope
    here, earlier = layout.iteration(folder, number), _earlier(place, history)
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
            from_stage=from_stage(node.sources, history),
            from_parallel=from_parallel(node.sources, history, plan, layout),
            from_previous_iterations=(),
            from_previous_iterations_omitted=max(earlier.omitted, earlier.written - most),
        ),
        limits=Limits(
            max_iterations=node.termination.max,
            remaining_seconds=-1 if remaining_seconds is None else int(remaining_seconds),
        ),
        commands=plan.pipeline.commands | node.commands,
        parallel_scope=ParallelScope(f"{layout.root}/{scope}", layout.root) if scope else None,
    )


def context_json(context: ContextFile, place: Place, history: History, most: int = KEPT) -> bytes:
    """The text of the file. It lists up to a thousand earlier outputs, so each was encoded once, when it
    came about, and is only joined to the others here."""
    text = msgspec.json.format(msgspec.json.encode(context), indent=2) + b"\n"
    encoded = _earlier(place, history).encoded
    earlier = list(encoded)[-most:] if most < len(encoded) else encoded
    if not earlier:
        return text
    return text.replace(_NONE_LISTED, _LISTED % b",\n      ".join(earlier), 1)


def _earlier(place: Place, history: History) -> StageOutputs:
    return history.stage(place.path, place.branch, place.run)
