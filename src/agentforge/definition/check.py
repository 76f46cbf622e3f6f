"""Fourth pass: every rule about values and their combination, all of them on everything."""

import re
from collections.abc import Collection, Iterable

from agentforge.definition.diagnostics import Report
from agentforge.definition.precedence import canonical
from agentforge.definition.resolve import ResolvedNode
from agentforge.definition.spec import Leftover, NodeSpec, PipelineSpec, StageSpec, WorkSpec, Written
from agentforge.definition.suggest import choice, did_you_mean
from agentforge.definition.termination import FIXED, LATER, merge
from agentforge.definition.tree import shown

# Keys with a meaning that this version doesn't have yet. Ignoring one would silently drop a promise,
# so they are refused.
NOT_YET = frozenset(
    (
        "approve",
        "artifact",
        "check_before",
        "checks",
        "context_strategy",
        "executor",
        "hooks",
        "limits",
        "network",
        "on",
        "parallel",
        "pipeline",
        "sandbox",
        "setup",
        "views",
        "workspace",
    )
)
_NOT_YET_IN = {
    "inputs": frozenset(("from", "from_parallel", "select")),
    "termination": frozenset(("items", "from", "judge")),
}

MAX_RUNS = 1_000_000
MAX_SECONDS = 365 * 24 * 3600.0
MAX_ATTEMPTS = 100
MAX_MULTIPLIER = 100.0

# A node's id becomes part of a directory's name.
_NODE_ID = re.compile(r"[\w-](?:[\w .-]*[\w.-])?")
_MAX_ID_BYTES = 200
_STAGE_NAME = re.compile(r"[^/\x00]+(?:/[^/\x00]+)*")


def check_pipeline(spec: PipelineSpec, report: Report) -> None:
    """Everything that can be said about the pipeline file alone."""
    _leftovers(spec.leftovers, report)
    _above_zero(spec.max_runtime, "guardrails.max_runtime_seconds", report)
    for level in spec.levels:
        _work(level, report)
    seen: dict[str, Written[str]] = {}
    for index, node in enumerate(spec.nodes):
        _node(index, node, seen, report)


def check_stage(stage: StageSpec, report: Report) -> None:
    _leftovers(stage.leftovers, report)
    _work(stage.work, report)


def check_node(node: ResolvedNode, report: Report) -> None:
    """What only the node and its stage together show."""
    stage = node.stage.work if node.stage else WorkSpec()
    kind = merge(node.spec.work, stage).type
    if kind is None or kind.value == FIXED:
        return
    if kind.value in LATER:
        report.error("unsupported", kind.at, f"not supported yet: termination `{kind.value}`", "use `fixed`")
    else:
        known = (FIXED, *LATER)
        report.error(
            "bad-value",
            kind.at,
            f"no termination type {shown(kind.value)}",
            hint=choice(kind.value, "types", known),
        )


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


def is_stage_name(name: str) -> bool:
    return bool(_STAGE_NAME.fullmatch(name)) and not {".", ".."} & set(name.split("/"))


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


def _node(index: int, node: NodeSpec, seen: dict[str, Written[str]], report: Report) -> None:
    _work(node.work, report)
    if node.id is None:
        report.error(
            "missing-key", node.at, f"node {index + 1} has no `id`", hint="add `id: …`, a short name"
        )
    else:
        _node_id(node.id, seen, report)
    if node.stage and not is_stage_name(node.stage.value):
        report.error(
            "bad-value",
            node.stage.at,
            f"{shown(node.stage.value)} can't be the name of a stage",
            hint="a stage is named by its folder, such as `plan`; `.`, `..` and empty parts are refused",
        )
    if node.is_stage and not node.stage and not node.work.prompt:
        name = f"node `{node.id.value}`" if node.id else f"node {index + 1}"
        report.error("missing-key", node.at, f"{name} needs `stage` or `prompt`", hint="add `stage: …`")


def _node_id(node_id: Written[str], seen: dict[str, Written[str]], report: Report) -> None:
    name = node_id.value
    if not _NODE_ID.fullmatch(name) or len(name.encode()) > _MAX_ID_BYTES:
        report.error(
            "bad-id",
            node_id.at,
            f"the id {shown(name)} can't be part of a directory's name",
            hint="use letters, digits, `-`, `_` and `.` (not first)",
        )
    if name in seen:
        first = seen[name].at.line
        report.error("duplicate-id", node_id.at, f"the id {shown(name)} is taken by the node on line {first}")
    seen.setdefault(name, node_id)


def _work(work: WorkSpec, report: Report) -> None:
    _runs(work.runs, "runs", report)
    if work.termination:
        _runs(work.termination.max, "termination.max", report)
        _runs(work.termination.iterations, "termination.iterations", report)
    _seconds(work.delay, "delay", report)
    _above_zero(work.timeout, "timeout", report)
    _above_zero(work.idle_timeout, "idle_timeout", report)
    _above_zero(work.max_runtime, "guardrails.max_runtime_seconds", report)
    if work.retry:
        _range(work.retry.max_attempts, "retry.max_attempts", 1, MAX_ATTEMPTS, report)
        _seconds(work.retry.initial_delay, "retry.initial_delay", report)
        _range(work.retry.multiplier, "retry.multiplier", 1, MAX_MULTIPLIER, report)
        _seconds(work.retry.max_delay, "retry.max_delay", report)


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
