"""Rules about the hooks of a pipeline: their ids, and whether the nodes that they are for exist."""

from collections.abc import Iterator
from typing import Literal

from agentforge.definition.lower import lower_hooks
from agentforge.definition.report import Report
from agentforge.definition.specs import (
    HookSpec,
    ResolvedBlock,
    ResolvedNested,
    ResolvedPipeline,
    ResolvedStage,
)
from agentforge.definition.yaml_tree import Written, shown
from agentforge.model.condition import (
    Condition,
    ConstantTerm,
    ListTerm,
    Operation,
    VariableName,
    VariableTerm,
)
from agentforge.model.diagnostic import SourcePlace, choice
from agentforge.model.hook import BRANCH_POINTS, HookPoint

# A hook that is never called is worse than none: people rely on the approval that it asks for, or on the
# check that it makes. A hook for a node that doesn't exist or lacks the point is an error; what merely has no
# effect is a warning.
#
# A node that couldn't be read or found might have had the id that a hook names. With one in the pipeline,
# nothing is said about ids, which would only repeat the other error.

SESSION_POINTS: tuple[HookPoint, ...] = ("session_start", "session_end")

_Kind = Literal["stage", "block", "nested pipeline", "unknown"]


def validate_hooks(pipeline: ResolvedPipeline, report: Report, *, is_nested: bool) -> None:
    _ids(pipeline.spec.hooks, report)
    nodes = list(_nodes(pipeline)) if pipeline.spec.hooks else []
    for spec in pipeline.spec.hooks:
        if is_nested and spec.hook.point in SESSION_POINTS:
            message = f"`{spec.hook.point}` is not allowed in a nested pipeline, which is part of another run"
            hint = "put the hook into the outermost pipeline, or use `stage_start` or `stage_end`"
            report.error("conflict", spec.at, message, hint)
        elif spec.stage and spec.hook.point not in SESSION_POINTS:
            _stage(spec, spec.stage, nodes, report)
        elif spec.hook.point in BRANCH_POINTS and not any(kind in ("block", "unknown") for _, kind in nodes):
            message = f"the hook is never called: the pipeline has no parallel block for {spec.hook.point}"
            report.warning("no-effect", spec.at, message, hint="remove it, or use `stage_end`")
        if spec.condition:
            _compared(spec, spec.condition, nodes, report)


def _ids(hooks: tuple[HookSpec, ...], report: Report) -> None:
    seen: dict[str, SourcePlace] = {}
    for spec, hook in zip(hooks, lower_hooks(hooks), strict=True):
        at = spec.id.at if spec.id else spec.at
        first = seen.setdefault(hook.id, at)
        # The ids that hooks get by themselves count, too: `stage_start-2` may be written for another hook.
        # The ids that hooks get by themselves count, too: `stage_start-2` may be written for another hook.
        if first is not at:
            message = f"the id {shown(hook.id)} is already used by the hook on line {first.line}"
            report.error("duplicate-id", at, message, hint="give it another `id`")


def _stage(spec: HookSpec, stage: Written[str], nodes: list[tuple[str, _Kind]], report: Report) -> None:
    """Check that the hook is called at all: a node of that name has the point."""
    point = spec.hook.point
    kinds = {kind for name, kind in nodes if name == stage.value}
    usable: set[_Kind] = {"stage", "block"} if point in ("stage_start", "stage_end") else {"stage"}
    if point in BRANCH_POINTS:
        usable = {"block"}
    if kinds & usable or any(kind == "unknown" for _, kind in nodes):
        return
    names = [name for name, kind in nodes if kind in usable]
    what = "blocks" if usable == {"block"} else "stages"
    hint = choice(stage.value, what, names)
    if not kinds:
        report.error("unknown-node", stage.at, f"no node has the id {shown(stage.value)}", hint)
        return
    message = f"{shown(stage.value)} is a {min(kinds)}, which has no {point}"
    report.error("conflict", stage.at, message, hint)


def _nodes(pipeline: ResolvedPipeline) -> Iterator[tuple[str, _Kind]]:
    """The ids of all nodes, including those of blocks and nested pipelines."""
    for node in pipeline.nodes:
        if node is None:
            yield "", "unknown"
            continue
        name = node.spec.id.value if node.spec.id else ""
        match node:
            case ResolvedStage():
                yield name, "stage"
            case ResolvedBlock():
                yield name, "block"
                yield from ((inner.id.value, "stage") for inner in node.block.stages if inner.id)
            case ResolvedNested():  # exhaustive
                yield name, "nested pipeline"
                yield from _nodes(node.pipeline)


def _compared(
    spec: HookSpec, condition: Written[Condition], nodes: list[tuple[str, _Kind]], report: Report
) -> None:
    """Warn of a comparison with a text that the variable never has."""
    # Only variables whose values are all known here; `event` and `status` follow from the point.
    is_known = not any(kind == "unknown" for _, kind in nodes)
    status = ["running" if spec.hook.point.endswith("_start") else "completed"]
    possible: dict[VariableName, list[str]] = {
        "event": [spec.hook.point],
        "status": status + ["failed"] * (spec.hook.point == "stage_end"),
        **({"stage": [name for name, kind in nodes if kind != "nested pipeline"]} if is_known else {}),
    }
    if spec.hook.point in SESSION_POINTS:
        possible["stage"] = []
    for name, text in _comparisons(condition.value):
        if name in possible and text not in possible[name]:
            message = f"`{name}` is never {shown(text)} at {spec.hook.point}"
            report.warning("no-effect", condition.at, message, choice(text, "values", possible[name]))


def _comparisons(condition: Condition) -> Iterator[tuple[VariableName, str]]:
    """The texts that variables are compared with."""
    if not isinstance(condition, Operation):
        return
    for operand in condition.of:
        yield from _comparisons(operand)
    names = [term.name for term in condition.of if isinstance(term, VariableTerm)]
    if len(names) == 1 and condition.op in ("==", "!=", "in"):
        others = (term.items if isinstance(term, ListTerm) else (term,) for term in condition.of)
        constants = (term.value for terms in others for term in terms if isinstance(term, ConstantTerm))
        # `stage in "plan, build"` looks for a part of a text, which needs no node of that name.
        # `stage in "plan, build"` looks for a part of a text, which needs no node of that name.
        is_substring = condition.op == "in" and not isinstance(condition.of[1], ListTerm)
        yield from ((names[0], text) for text in constants if isinstance(text, str) and not is_substring)
