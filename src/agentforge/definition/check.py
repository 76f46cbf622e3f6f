"""Fifth pass: every rule about values and their combination, all of them on everything."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import get_args

from agentforge.definition.diagnostics import Report
from agentforge.definition.precedence import canonical
from agentforge.definition.resolve import is_stage_name
from agentforge.definition.resolved import ResolvedStage
from agentforge.definition.spec import (
    BlockSpec,
    Leftover,
    NodeSpec,
    PipelineSpec,
    SandboxSpec,
    StageSpec,
    WorkSpec,
    Written,
)
from agentforge.definition.suggest import choice, did_you_mean
from agentforge.definition.termination import FIXED, KINDS, LATER, merge
from agentforge.definition.tree import shown
from agentforge.model.plan import SANDBOXES, OnLimit, Semantics

# Keys with a meaning that this version doesn't have yet. Ignoring one would silently drop a promise,
# so they are refused.
NOT_YET = frozenset(
    (
        "approve",
        "artifact",
        "checks",
        "context_strategy",
        "executor",
        "hooks",
        "limits",
        "network",
        "on",
        "setup",
        "views",
        "workspace",
    )
)
_NOT_YET_IN = {"termination": frozenset(("items", "from", "judge"))}

MAX_RUNS = 1_000_000
MAX_SECONDS = 365 * 24 * 3600.0
MAX_ATTEMPTS = 100
MAX_MULTIPLIER = 100.0

_DIRECTORY_NAME = re.compile(r"[\w-](?:[\w .-]*[\w.-])?")
_MAX_NAME_BYTES = 200


def check_pipeline(spec: PipelineSpec, report: Report) -> None:
    """Everything that can be said about the pipeline file alone."""
    _leftovers(spec.leftovers, report)
    _above_zero(spec.max_runtime, "guardrails.max_runtime_seconds", report)
    for level in spec.levels:
        _work(level, report)
    _nodes(spec.nodes, "node", report)


def check_stage(stage: StageSpec, report: Report) -> None:
    _leftovers(stage.leftovers, report)
    _work(stage.work, report)


def check_termination(node: ResolvedStage, default_runs: int, report: Report) -> None:
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
    elif merged.count is None and default_runs == 1:
        message = f"`{kind.value}` without `max` ends after one iteration in a pipeline"
        report.warning("no-maximum", node.spec.at, message, hint="add `runs: …` or `max: …`")
    else:
        runs = merged.count.value if merged.count else default_runs
        minimum = merged.min_iterations
        if kind.value == "judgment" and minimum and minimum.value > runs:
            message = f"never judged: `min_iterations` is {minimum.value}, but {runs} is the maximum"
            report.warning("never-judged", minimum.at, message, hint="raise `max` or lower `min_iterations`")


def check_provider(named: Written[str], known: Collection[str] | None, report: Report) -> None:
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


def _leftovers(leftovers: Iterable[Leftover], report: Report) -> None:
    for left in leftovers:
        name = left.key.text
        if name in NOT_YET or name in _NOT_YET_IN.get(left.where, ()):
            key = f"{left.where}.{name}" if left.where in _NOT_YET_IN else name
            hint = "remove the key; this version would not honour it"
            report.error("unsupported", left.key.at, f"not supported yet: {key}", hint)
        else:
            report.warning(
                "unknown-key",
                left.key.at,
                f"unknown key {shown(name)} in {left.where} is ignored",
                hint=did_you_mean(name, left.known) or f"known keys: {', '.join(sorted(left.known))}",
            )


def _nodes(nodes: Sequence[NodeSpec], what: str, report: Report) -> None:
    seen: dict[str, Written[str]] = {}
    for index, node in enumerate(nodes):
        _work(node.work, report)
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


def _work(work: WorkSpec, report: Report) -> None:
    _runs(work.runs, "runs", report)
    if work.termination:
        _runs(work.termination.max, "termination.max", report)
        _runs(work.termination.iterations, "termination.iterations", report)
        _range(work.termination.min_iterations, "min_iterations", 0, MAX_RUNS, report)
        _runs(work.termination.consensus, "consensus", report)
    _seconds(work.delay, "delay", report)
    _above_zero(work.timeout, "timeout", report)
    _above_zero(work.idle_timeout, "idle_timeout", report)
    _above_zero(work.max_runtime, "guardrails.max_runtime_seconds", report)
    if work.retry:
        _range(work.retry.max_attempts, "retry.max_attempts", 1, MAX_ATTEMPTS, report)
        _seconds(work.retry.initial_delay, "retry.initial_delay", report)
        _range(work.retry.multiplier, "retry.multiplier", 1, MAX_MULTIPLIER, report)
        _seconds(work.retry.max_delay, "retry.max_delay", report)
    if work.on_limit:
        _one_of(work.on_limit.do, "on_limit", get_args(OnLimit), report)
        _seconds(work.on_limit.initial_delay, "on_limit.initial_delay", report)
        _seconds(work.on_limit.max_delay, "on_limit.max_delay", report)
        _seconds(work.on_limit.max_wait, "on_limit.max_wait", report)
    _one_of(work.semantics, "semantics", get_args(Semantics), report)
    if work.sandbox:
        _sandbox(work.sandbox, report)


def _sandbox(sandbox: SandboxSpec, report: Report) -> None:
    _one_of(sandbox.type, "sandbox", SANDBOXES, report)
    kind = sandbox.type.value if sandbox.type else ""
    if kind == "docker" and sandbox.image is None:
        hint = "write `sandbox: {type: docker, image: …}`"
        report.error("missing-key", sandbox.at, "the docker sandbox has no `image`", hint)
    if kind != "docker" and sandbox.image:
        report.warning("ignored-key", sandbox.image.at, "`image` is for the docker sandbox", "remove it")
    if kind == "none":
        _without_sandbox(sandbox, report)


def _without_sandbox(sandbox: SandboxSpec, report: Report) -> None:
    """Whoever writes these counts on them."""
    hint = "choose what confines the agent: `type: bwrap` or `type: docker`"
    if sandbox.network and not sandbox.network.value:
        report.error(
            "bad-value", sandbox.network.at, "nothing switches the network off without a sandbox", hint
        )
    if sandbox.hidden:
        report.error("bad-value", sandbox.hidden[0].at, "nothing is hidden without a sandbox", hint)


def _one_of(written: Written[str] | None, name: str, known: Sequence[str], report: Report) -> None:
    if written is not None and written.value not in known:
        message = f"`{name}` can't be {shown(written.value)}"
        report.error("bad-value", written.at, message, choice(written.value, "values", known))


def _runs(count: Written[int] | None, name: str, report: Report) -> None:
    _range(count, name, 1, MAX_RUNS, report)


def _seconds(number: Written[float] | None, name: str, report: Report) -> None:
    _range(number, name, 0, MAX_SECONDS, report)


def _above_zero(number: Written[float] | None, name: str, report: Report) -> None:
    if number and number.value == 0:
        message = f"`{name}` must be more than 0"
        report.error("bad-value", number.at, message, hint="leave the key out for no limit")
    else:
        _seconds(number, name, report)


def _range(
    number: Written[int] | Written[float] | None, name: str, low: float, high: float, report: Report
) -> None:
    if number is not None and not low <= number.value <= high:
        message = f"`{name}` must be from {low:g} to {high:,.0f}, not {number.value:g}"
        report.error("bad-value", number.at, message)
