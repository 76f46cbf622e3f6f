"""Fifth pass: rules about names, rules that span several mappings or files, and the text of prompts."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from agentforge.definition.pins import pinned_text
from agentforge.definition.precedence import canonical, merged
from agentforge.definition.read.work_keys import FIXED, TERMINATIONS, UNSUPPORTED_TERMINATIONS
from agentforge.definition.report import Report, relative
from agentforge.definition.resolve import is_stage_name
from agentforge.definition.specs import (
    BlockSpec,
    NodeSpec,
    PipelineSpec,
    ResolvedNested,
    ResolvedPipeline,
    ResolvedStage,
)
from agentforge.definition.yaml_tree import Written, shown
from agentforge.model.diagnostic import SourcePlace, choice
from agentforge.model.names import PROMPT_VARIABLES
from agentforge.model.plan_limits import MAX_RUNS, MAX_STEPS, is_directory_name
from agentforge.model.secrets import REFERENCE
from agentforge.ports.sources import MAX_SOURCE_BYTES, Sources


def validate_nodes(spec: PipelineSpec, report: Report) -> None:
    """Validate the pipeline file alone."""
    _nodes(spec.nodes, "node", report)


def validate_termination(node: ResolvedStage, default_runs: int, report: Report) -> None:
    """Validate the merged termination of a node and its stage."""
    termination = merged(node, "termination")
    kind = termination.get("type") if termination else None
    if kind is None or kind.value == FIXED:
        return
    known, maximum = tuple(TERMINATIONS), termination.get("max")
    if kind.value in UNSUPPORTED_TERMINATIONS:
        hint = f"use one of {', '.join(known)}"
        report.error("unsupported", kind.at, f"termination type `{kind.value}` is not supported yet", hint)
    elif kind.value not in known:
        hint = choice(kind.value, "types", known)
        report.error("bad-value", kind.at, f"unknown termination type {shown(kind.value)}", hint)
    elif not node.is_found:
        return  # Its stage.yaml may set `max`.
    elif maximum is None and default_runs == 1:
        message = f"`{kind.value}` without `max` ends after one iteration in a pipeline"
        report.warning("no-maximum", node.spec.at, message, hint="add `runs: …` or `max: …`")
    else:
        runs = maximum.value if maximum else default_runs
        minimum = termination.get("min_iterations")
        if kind.value == "judgment" and minimum and minimum.value > runs:
            message = f"never judged: `min_iterations` is {minimum.value}, but the maximum is {runs}"
            report.warning("never-judged", minimum.at, message, hint="raise `max` or lower `min_iterations`")


def validate_approval(node: ResolvedStage, report: Report) -> None:
    """Validate the merged approval of a node, its stage and the pipeline."""
    approval = merged(node, "approve")
    if approval is None:
        return
    due, then = approval.get("timeout"), approval.get("on_timeout")
    if due and then is None:
        message = "`approve.timeout` without `on_timeout` only shows when an answer is due"
        hint = "add `on_timeout: approve` or `abort`, or `wait` to keep waiting"
        report.warning("no-effect", due.at, message, hint)
    if then and then.value != "wait" and due is None:
        message = f"`on_timeout: {then.value}` has no effect without `timeout`"
        report.warning("no-effect", then.at, message, hint="add `timeout`, in seconds")


def validate_checkpoints(pipelines: Iterable[PipelineSpec], report: Report) -> None:
    """A checkpoint is asked once in a run, so a second one of the same name would never be asked."""
    seen: dict[str, Written[str]] = {}
    names = (node.work.get("checkpoint") for spec in pipelines for node in spec.nodes)
    for name in filter(None, names):
        first = seen.setdefault(name.value, name)
        if first.at == name.at:
            continue
        hint = "give it another name"
        if first.at.file == name.at.file:
            message = f"the checkpoint {shown(name.value)} is already on line {first.at.line}"
            report.error("duplicate-checkpoint", name.at, message, hint)
        else:
            message = f"the checkpoint {shown(name.value)} is also in {first.at.file}; the run asks only once"
            report.warning("duplicate-checkpoint", name.at, message, hint)


def validate_provider(named: Written[str], known: Collection[str] | None, report: Report) -> None:
    """Check that the provider is registered; without a list every name passes."""
    if not named.value.strip():
        report.error("bad-value", named.at, "the provider's name is empty", hint="for example `claude`")
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
            hint = "add a short name: `id: …`"
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
            f"invalid stage name {shown(node.stage.value)}",
            hint="use the name of the stage's folder, such as `plan`, without `.`, `..` or empty parts",
        )
    if not (node.stage or node.work.prompt or node.work.prompt_file):
        hint = "add `stage: NAME`, `prompt: TEXT` or `prompt: {file: PATH}`"
        report.error("missing-key", node.at, f"{what} needs `stage` or `prompt`", hint)


def _block(block: BlockSpec, report: Report) -> None:
    seen: dict[str, Written[str]] = {}
    for branch in block.branches:
        if branch.name:
            _name(branch.name, "provider", seen, report)
    _nodes(block.stages, "stage", report)
    for stage in block.stages:
        named = stage.work.provider.type if stage.work.provider else None
        if named:
            message = "`provider` is ignored here; the block's `providers` apply"
            report.warning("ignored-key", named.at, message, hint="remove it; `model` is allowed")


def _name(name: Written[str], what: str, seen: dict[str, Written[str]], report: Report) -> None:
    """A node's id or a branch's name: used as a directory name, so it must be valid and unique."""
    if not is_directory_name(name.value):
        report.error(
            "bad-id",
            name.at,
            f"the {what} {shown(name.value)} cannot be used as a directory name",
            hint="use letters, digits, `-`, `_` and `.` (not first)",
        )
    first = seen.setdefault(name.value, name)
    if first is not name and what == "id":
        message = f"the id {shown(name.value)} is already used by the node on line {first.at.line}"
        report.error("duplicate-id", name.at, message)
    elif first is not name:
        message = f"the block lists the provider {shown(name.value)} twice"
        hint = f"give one of them another name: `{{name: other, type: {name.value}}}`"
        report.error("duplicate-provider", name.at, message, hint)


def validate_size(pipeline: ResolvedPipeline, passes: int, report: Report) -> None:
    """Bound the number of steps: nested repetitions multiply."""
    if not 1 <= passes <= MAX_RUNS:
        at = report.argument(f"{pipeline.spec.name} {passes}")
        message = f"the number of runs must be from 1 to {MAX_RUNS:,}, got {passes:,}"
        report.error("bad-value", at, message)
        return
    steps = passes * _steps(pipeline)
    if steps > MAX_STEPS:
        message = f"the run would have {steps:,} steps; the maximum is {MAX_STEPS:,}"
        hint = "lower the `runs` of nested pipelines, or how often the pipeline runs"
        report.error("too-large", pipeline.spec.source.start, message, hint)


def _steps(pipeline: ResolvedPipeline) -> int:
    total = 0
    for node in pipeline.nodes:
        if isinstance(node, ResolvedNested):
            runs = node.spec.work.get("runs")
            total += max(runs.value if runs else 1, 1) * _steps(node.pipeline)
        else:
            total += 1
    return total


_VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")


# One word that ends like a text file or has a folder before it; `/review` is a command of an agent.
_PATH = re.compile(r"\S+\.(?:md|markdown|txt|prompt)|[^\s:]*\w/\S+")


def validate_prompt(node: ResolvedStage, sources: Sources, report: Report) -> None:
    """Agents get the prompt as it is written: also unknown variables, and the name of a file."""
    written = node.spec.work.prompt
    if written and not written.value.strip():
        hint = "write what the agent should do, or name a file: `prompt: {file: PATH}`"
        report.error("empty-prompt", written.at, "the prompt is empty", hint)
    elif written and _PATH.fullmatch(written.value.strip()):
        message = f"the prompt looks like the name of a file: the agent gets only {shown(written.value)}"
        report.warning("prompt-is-path", written.at, message, "for its text, write `prompt: {file: PATH}`")
    for name, at in _unknown(node, sources, report):
        message = f"unknown variable `${{{name}}}` in the prompt: the agent gets it as it is written"
        report.warning("unknown-variable", at, message, choice(name, "variables", PROMPT_VARIABLES))


def _unknown(node: ResolvedStage, sources: Sources, report: Report) -> Iterator[tuple[str, SourcePlace]]:
    if node.prompt_path is not None:
        file = relative(sources.project, node.prompt_path)
        text = pinned_text(file, sources) or ""
        report.add_text(file, text)
        for found in re.finditer(re.escape(REFERENCE), text):
            report.refuse_reference(found[0], _place(file, text, found.start()))
        if not text.strip():
            report.error(
                "empty-prompt",
                SourcePlace(file, 1, 1),
                "the prompt file is empty",
                "write the prompt into it",
            )
        if len(text.encode()) > MAX_SOURCE_BYTES:
            message = f"the prompt file is larger than {MAX_SOURCE_BYTES:,} bytes"
            report.error("too-large", SourcePlace(file, 1, 1), message, "put most of it into another file")
        for found in _variables(text):
            yield found[1], _place(file, text, found.start())
    elif node.spec.work.prompt is not None:
        for found in _variables(node.spec.work.prompt.value):
            yield found[1], node.spec.work.prompt.at


def _place(file: str, text: str, offset: int) -> SourcePlace:
    line_start = text.rfind("\n", 0, offset) + 1
    return SourcePlace(file, text.count("\n", 0, offset) + 1, offset - line_start + 1)


def _variables(text: str) -> Iterator[re.Match[str]]:
    return (found for found in _VARIABLE.finditer(text) if found[1] not in PROMPT_VARIABLES)
