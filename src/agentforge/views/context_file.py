"""context.json (v3): what an agent is told about its place in the run, its paths, inputs and limits."""

from typing import Any

import msgspec
from msgspec import Struct

from agentforge.model.layout import IterationLayout, RunLayout
from agentforge.model.plan import Plan, StageNode
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


class Inputs(Struct, frozen=True):
    from_initial: tuple[str, ...]
    from_stage: dict[str, Any]
    from_parallel: dict[str, Any]
    from_previous_iterations: tuple[str, ...]
    """Left out here; `context_json` puts them in."""
    from_previous_iterations_omitted: int
    """How many earlier outputs aren't listed; the stage's directory has them all."""


class Limits(Struct, frozen=True):
    max_iterations: int
    remaining_seconds: int
    """-1: unbounded."""


class ContextFile(Struct, frozen=True):
    session: str
    pipeline: str
    stage: StageRef
    iteration: int
    paths: Paths
    inputs: Inputs
    limits: Limits
    commands: dict[str, str]
    parallel_scope: None = None


# Unambiguous: a quote inside any text of the file is escaped, and the commands come after the inputs.
_NONE_LISTED = b'"from_previous_iterations": []'
_LISTED = b'"from_previous_iterations": [\n      %b\n    ]'


def context_file(
    plan: Plan,
    node: StageNode,
    index: int,
    number: int,
    layout: RunLayout,
    *,
    run: int,
    history: History,
    remaining_seconds: float | None,
) -> ContextFile:
    here: IterationLayout = layout.iteration(index, node, run, number)
    return ContextFile(
        session=plan.session.name,
        pipeline="loop" if plan.mode == "loop" else plan.pipeline.name,
        stage=StageRef(node.id, index, node.ref or node.stage),
        iteration=number,
        paths=Paths(
            session_dir=layout.root,
            stage_dir=layout.stage_dir(index, node, run),
            progress=layout.progress(plan.mode, index, node, run),
            output=here.output,
            status=here.status,
            result=here.result,
        ),
        inputs=Inputs(
            from_initial=plan.session.inputs,
            from_stage={},
            from_parallel={},
            from_previous_iterations=(),
            from_previous_iterations_omitted=history.outputs_omitted,
        ),
        limits=Limits(
            max_iterations=node.termination.max,
            remaining_seconds=-1 if remaining_seconds is None else int(remaining_seconds),
        ),
        commands=plan.pipeline.commands | node.commands,
    )


def context_json(context: ContextFile, history: History) -> bytes:
    """The text of the file. It lists up to a thousand earlier outputs, so each was encoded once, when it
    came about, and is only joined to the others here."""
    text = msgspec.json.format(msgspec.json.encode(context), indent=2) + b"\n"
    if not history.outputs:
        return text
    return text.replace(_NONE_LISTED, _LISTED % b",\n      ".join(history.outputs), 1)
