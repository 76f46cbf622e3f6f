"""Fifth pass: every rule about names, and about what several mappings or files say together."""

import re
from collections.abc import Collection, Sequence

from agentforge.definition.diagnostics import Report
from agentforge.definition.precedence import canonical
from agentforge.definition.read.values import MAX_RUNS
from agentforge.definition.resolve import is_stage_name
from agentforge.definition.specs import (
    FIXED,
    KINDS,
    LATER,
    BlockSpec,
    NodeSpec,
    PipelineSpec,
    ResolvedNested,
    ResolvedPipeline,
    ResolvedStage,
    Written,
    merge,
)
from agentforge.definition.yaml.tree import shown
from agentforge.model.diagnostic import choice

MAX_STEPS = 100_000

_DIRECTORY_NAME = re.compile(r"[\w-](?:[\w .-]*[\w.-])?")
_MAX_NAME_BYTES = 200


def validate_nodes(spec: PipelineSpec, report: Report) -> None:
    """Everything that can be said about the pipeline file alone."""
    _nodes(spec.nodes, "node", report)


def validate_termination(node: ResolvedStage, default_runs: int, report: Report) -> None:
    """What only the node and its stage together show."""
    merged = merge(node.spec.work, node.stage_work)
    kind = merged.type
    if kind is None or kind.value == FIXED:
        return
    if kind.value in LATER:
        hint = f"use one of {', '.join(KINDS)}"
        report.error("unsupported", kind.at, f"not supported yet: termination `{kind.value}`", hint)
    elif kind.value not in KINDS:
        hint = choice(kind.value, "types", KINDS)
        report.error("bad-value", kind.at, f"no termination type {shown(kind.value)}", hint)
    elif not node.is_found:
        return  # Its stage.yaml may say more.
    elif merged.count is None and default_runs == 1:
        message = f"`{kind.value}` without `max` ends after one iteration in a pipeline"
        report.warning("no-maximum", node.spec.at, message, hint="add `runs: …` or `max: …`")
    else:
        runs = merged.count.value if merged.count else default_runs
        minimum = merged.min_iterations
        if kind.value == "judgment" and minimum and minimum.value > runs:
            message = f"never judged: `min_iterations` is {minimum.value}, but {runs} is the maximum"
            report.warning("never-judged", minimum.at, message, hint="raise `max` or lower `min_iterations`")


def validate_provider(named: Written[str], known: Collection[str] | None, report: Report) -> None:
    """Whether the provider is among the registered ones; without a list every name passes."""
    if not named.value.strip():
        report.error("bad-value", named.at, "the provider's name is empty", hint="name one, such as `claude`")
    elif known is not None and canonical(named.value) not in known:
        report.error(
            "unknown-provider",
            named.at,
            f"no provider named {shown(named.value)}",
            hint=choice(named.value, "providers", known),
        )


def _nodes(nodes: Sequence[NodeSpec], what: str, report: Report) -> None:
    seen: dict[str, Written[str]] = {}
    for index, node in enumerate(nodes):
        if node.id is None:
            hint = "add `id: …`, a short name"
            report.error("missing-key", node.at, f"{what} {index + 1} has no `id`", hint)
        else:
            _name(node.id, "id", seen, report)
        if node.block:
            _block(node.block, report)
        elif node.is_stage:
            _stage_node(node, f"{what} `{node.id.value}`" if node.id else f"{what} {index + 1}", report)


def _stage_node(node: NodeSpec, what: str, report: Report) -> None:
    if node.stage and not is_stage_name(node.stage.value):
        report.error(
            "bad-value",
            node.stage.at,
            f"{shown(node.stage.value)} can't be the name of a stage",
            hint="a stage is named by its folder, such as `plan`; `.`, `..` and empty parts are refused",
        )
    if not node.stage and not node.work.prompt:
        report.error("missing-key", node.at, f"{what} needs `stage` or `prompt`", hint="add `stage: …`")


def _block(block: BlockSpec, report: Report) -> None:
    seen: dict[str, Written[str]] = {}
    for branch in block.branches:
        if branch.name:
            _name(branch.name, "provider", seen, report)
    _nodes(block.stages, "stage", report)
    for stage in block.stages:
        named = stage.work.provider.type if stage.work.provider else None
        if named:
            message = "the block's `providers` decide; a stage's `provider` is ignored"
            report.warning("ignored-key", named.at, message, hint="remove it; `model` may stay")


def _name(name: Written[str], what: str, seen: dict[str, Written[str]], report: Report) -> None:
    """A node's id or a branch's name: a directory is called after it, so it is fit for one and unique."""
    if not _DIRECTORY_NAME.fullmatch(name.value) or len(name.value.encode()) > _MAX_NAME_BYTES:
        report.error(
            "bad-id",
            name.at,
            f"the {what} {shown(name.value)} can't be part of a directory's name",
            hint="use letters, digits, `-`, `_` and `.` (not first)",
        )
    first = seen.setdefault(name.value, name)
    if first is not name and what == "id":
        message = f"the id {shown(name.value)} is taken by the node on line {first.at.line}"
        report.error("duplicate-id", name.at, message)
    elif first is not name:
        message = f"the block has the provider {shown(name.value)} twice"
        hint = f"tell them apart: `{{name: other, type: {name.value}}}`"
        report.error("duplicate-provider", name.at, message, hint)


def validate_size(pipeline: ResolvedPipeline, passes: int, report: Report) -> None:
    """A run's course is laid out in full, so repetitions within repetitions are bounded."""
    if not 1 <= passes <= MAX_RUNS:
        at = report.argument(f"{pipeline.spec.name} {passes}")
        message = f"a pipeline runs from 1 to {MAX_RUNS:,} times, not {passes:,}"
        report.error("bad-value", at, message)
        return
    steps = passes * _steps(pipeline)
    if steps > MAX_STEPS:
        message = f"the run would have {steps:,} steps; {MAX_STEPS:,} are possible"
        hint = "lower the `runs` of pipelines within it, or how often it runs"
        report.error("too-large", pipeline.spec.source.start, message, hint)


def _steps(pipeline: ResolvedPipeline) -> int:
    total = 0
    for node in pipeline.nodes:
        if isinstance(node, ResolvedNested):
            runs = node.spec.work.runs
            total += max(runs.value if runs else 1, 1) * _steps(node.pipeline)
        else:
            total += 1
    return total
