"""Stages that deliver: what doesn't go with them, and the one that is appended to a pipeline if the caller or
the settings ask for a delivery."""

from collections.abc import Iterator

from msgspec.structs import replace

from agentforge.definition.precedence import merged
from agentforge.definition.read.deliver_keys import DELIVER
from agentforge.definition.read.table import MappingSpec
from agentforge.definition.report import Report
from agentforge.definition.specs import (
    NodeSpec,
    ResolvedNested,
    ResolvedNode,
    ResolvedPipeline,
    ResolvedStage,
    RouteSpec,
    WorkSpec,
)
from agentforge.definition.yaml_tree import Written
from agentforge.model.delivery import DeliveryMode
from agentforge.model.diagnostic import SourcePlace
from agentforge.model.plan import END, FAIL, REJECT

DELIVER_ID = "deliver"
_GOES_WITH = frozenset({"id", "name", "stage", "loop", "deliver", "description", "checkpoint"})


def delivers(stage: ResolvedStage) -> bool:
    """Whether the engine performs the stage; a program may run a stage of that name itself."""
    return stage.spec.executor is None and merged(stage, "deliver") is not None


def validate_deliver(stage: ResolvedStage, report: Report) -> None:
    """What the stage or its node says beside `deliver` is for agents, which don't run."""
    if not delivers(stage):
        return
    at, hooks = stage.spec.at, merged(stage, "deliver").get("run_hooks")
    if hooks and hooks.value:
        message = "`deliver.run_hooks` is not supported: the hooks of a repository don't run"
        report.error("unsupported", hooks.at, message, "run their commands as `checks` of a stage before")
    for level in (stage.stage_work, stage.spec.work):
        named = [name for name, value in level.values.items() if name not in _GOES_WITH and value is not None]
        named += ["provider"] * bool(level.provider) + ["prompt"] * bool(level.prompt or level.prompt_file)
        for name in sorted(named):
            message = f"`{name}` doesn't go with `deliver`: no agent runs in the stage"
            report.error("conflict", _place(level.values.get(name), at), message, f"remove `{name}`")


def _place(value: object, default: SourcePlace) -> SourcePlace:
    found = getattr(value, "at", default)
    return found if isinstance(found, SourcePlace) else default


def refuse_deliver(stage: ResolvedStage, report: Report) -> None:
    """In a parallel block, all branches change the same files."""
    if spec := merged(stage, "deliver"):
        message = "`deliver` is not possible in a parallel block: its branches work on the same files"
        report.error("unsupported", spec.at, message, hint="put it on a stage after the block")


def delivered(
    pipeline: ResolvedPipeline, mode: Written[DeliveryMode] | None, *, is_asked: bool
) -> ResolvedPipeline:
    """The outermost pipeline with a delivery in that mode. `is_asked`: by the caller, whose word counts more
    than what stages say; settings only add a stage."""
    if mode is None:
        return pipeline
    level = WorkSpec({"deliver": MappingSpec(DELIVER, mode.at, {"mode": mode})})
    if any(map(delivers, _stages(pipeline))):
        return _with_level(pipeline, level) if is_asked else pipeline
    if mode.value == "files" and not is_asked:
        return pipeline
    taken = {node.id.value for node in pipeline.spec.nodes if node.id}
    names = (DELIVER_ID, *(f"{DELIVER_ID}-{number}" for number in range(2, len(taken) + 3)))
    named = Written(next(name for name in names if name not in taken), mode.at)
    node = NodeSpec(mode.at, named, work=level)
    spec = replace(pipeline.spec, nodes=(*pipeline.spec.nodes, node))
    nodes = (_led_to(one, named) if isinstance(one, ResolvedStage) else one for one in pipeline.nodes)
    return replace(pipeline, spec=spec, nodes=(*nodes, ResolvedStage(node, None, None)))


def _led_to(stage: ResolvedStage, last: Written[str]) -> ResolvedStage:
    """What ended the run leads to the stage that delivers, unless the work was rejected."""
    routes: tuple[RouteSpec, ...] = merged(stage, "on") or ()
    changed = tuple(
        replace(one, to=last) if one.to.value == END and one.verdict.value not in (FAIL, REJECT) else one
        for one in routes
    )
    if changed == routes:
        return stage
    return replace(stage, overrides=(*stage.overrides, WorkSpec({"on": changed})))


def _stages(pipeline: ResolvedPipeline) -> Iterator[ResolvedStage]:
    for node in pipeline.nodes:
        if isinstance(node, ResolvedStage):
            yield node
        elif isinstance(node, ResolvedNested):
            yield from _stages(node.pipeline)


def _with_level(pipeline: ResolvedPipeline, level: WorkSpec) -> ResolvedPipeline:
    def changed(node: ResolvedNode | None) -> ResolvedNode | None:
        if isinstance(node, ResolvedNested):
            return replace(node, pipeline=_with_level(node.pipeline, level))
        if isinstance(node, ResolvedStage) and delivers(node):
            return replace(node, overrides=(*node.overrides, level))
        return node

    return replace(pipeline, nodes=tuple(map(changed, pipeline.nodes)))
