"""Why the two sides went different ways: by the order of events, exit statuses, and which sessions exist."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.parity.canonical import Step

if TYPE_CHECKING:
    from tests.parity.compare import Pair
    from tests.parity.replay import Outcome, Played

Steps = list[Step]
Rejoin = Callable[[Steps, Steps, int], tuple[Steps, Steps] | None]


@dataclass(frozen=True)
class Divergence:
    rule: str
    rejoin: Rejoin
    """What is left to compare once both are at the same place again, or None if they never are."""


def _never(recorded: Steps, ours: Steps, at: int) -> None:
    return None


def _at_later_node(recorded: Steps, ours: Steps, at: int) -> tuple[Steps, Steps] | None:
    """Both continue with a node after the one where they diverged."""
    here = _node(recorded, at)
    left, right = _enters_after(recorded[at:], here), _enters_after(ours[at:], here)
    return (left, right) if left and right and left[0] == right[0] else None


def explain_divergence(recorded: Steps, ours: Steps, at: int, pair: "Pair") -> Divergence | None:
    left = recorded[at] if at < len(recorded) else None
    right = ours[at] if at < len(ours) else None
    before = recorded[at - 1] if at else None
    node = _node(recorded, at)
    if _was_edited(pair):
        return Divergence("edited-between", _never)
    if (
        left is not None
        and left.type == "session_complete"
        and right is not None
        and right.type == "node_start"
    ):
        return Divergence("passes-are-one-run", _never)
    if before is not None and before.type == "session_complete" and right is None:
        return Divergence("finished-is-finished", _never)
    if right is not None and right.type in ("failed", "error") and left is not None:
        return Divergence("failure-fails", _never) if left.type == "iteration_complete" else None
    if before is not None and before.type == "failed" and left is not None and left.type == "node_start":
        return Divergence("resumes-in-place", _at_later_node)
    if any(node.get("kind") == "pipeline" for node in (pair.our_plan or {}).get("nodes", [])):
        return Divergence("nested-pipelines-run", _never)
    if left is None and right is not None and _lacked_program(pair):
        return Divergence("mock-needs-no-agents", _never)
    return _ended_otherwise(left, right, node, pair)


def _ended_otherwise(left: Step | None, right: Step | None, node: str, pair: "Pair") -> Divergence | None:
    """One side continues a stage that the other one ended."""
    kinds = {step.type for step in (left, right) if step is not None}
    if kinds != {"node_complete", "iteration_start"}:
        return None
    plan = _plan_node(pair.our_plan, node)
    match (plan.get("termination") or {}).get("type"):
        case "judgment":
            suspected = pair.case.commands[0].environment.get("PLATEAU_TEST_MODE")
            return Divergence("plateau-is-said" if suspected else "judge-counts", _at_later_node)
        case "queue":
            return Divergence("queue-asked-once", _at_later_node)
    recorded = _plan_node(pair.recorded_plan, node)
    if plan.get("runs") != (recorded.get("termination") or {}).get("max"):
        return Divergence("runs-win", _at_later_node)
    return None


def explain_exit(outcome: "Outcome", played: "Played") -> str | None:
    command, said = outcome.command, outcome.out + outcome.err
    match (command.rc, outcome.rc):
        case (124, 0) if command.positional[:1] == ["tail"]:
            return "tail-ends"
        case (0, 1) if "already completed" in said:
            return "finished-is-finished"
        case (0, 1) if _failed_by_agent(outcome, played):
            return "failure-fails"
        case (1, 0) if "Maximum iterations" in command.out or "Stop suggested" in command.out:
            return "max-is-no-failure"
        case (1, 0) if "not found" in command.err or "Unknown provider" in command.err:
            return "mock-needs-no-agents"
        case (1, 0) if "from_parallel" in _input_text(played):
            return "lists-of-sources"
        case (1, 0) if "alphanumeric" in command.err and not (command.session or "").isascii():
            return "sessions-of-any-script"
        case (0, 2) if "missing-input" in said:
            return "named-inputs-exist"
        case (0, 2) if _is_usage(said):
            return "strict-words"
        case (0, 2) if "no session" in said and command.session is not None:
            return explain_missing(command.session, played)
        case (0, 2) if "in the definition" in said and _leads_nowhere(said):
            return explain_refusal(said)
        case (0 | 1, 0 | 2) if command.rc != 0 and outcome.rc != 0:
            return "exit-codes"
        case (0 | 1, 0 | 2) if command.positional[:1] in (["lint"], ["dry-run"]):
            return "lint-says-what-runs"
        case (1, 0) if "kind" in said or "pipeline:" in _input_text(played):
            return "nested-pipelines-run"
    return None


def explain_status(outcome: "Outcome", recorded: str, ours: str, played: "Played") -> str | None:
    if ours == "interrupted" and recorded in ("failed", "unknown"):
        return "interrupted"
    if (recorded, ours) == ("completed", "failed") and _failed_by_agent(outcome, played):
        return "failure-fails"
    return None


def explain_missing(session: str, played: "Played") -> str | None:
    """Why a recorded session has no run of ours."""
    about = [o for o in played.outcomes if o.command.session == session]
    for outcome in about:
        if outcome.rc == 2 and _is_usage(outcome.out + outcome.err):
            return "strict-words"
        refused = outcome.rc == 2 and "in the definition" in outcome.err
        if refused and (outcome.command.rc != 0 or _leads_nowhere(outcome.err)):
            return explain_refusal(outcome.err)
    return None


def explain_refusal(said: str) -> str:
    """The rule for a refused definition that the shell engine accepted, by its diagnostics."""
    return "sources-exist" if _leads_nowhere(said) else "checked-definition"


def _leads_nowhere(said: str) -> bool:
    return re.search(r":\d+:\d+: (unknown-node|later-node|wrong-kind|ambiguous-stage): ", said) is not None


def explain_added(session: str, played: "Played") -> str | None:
    """Why there is a run of ours that the recording hasn't got."""
    for outcome in (o for o in played.outcomes if o.command.session == session):
        recorded = outcome.command.err + outcome.command.out
        if "Loop type not found" in recorded:
            return "stages-everywhere"
        if "CLI not found" in recorded or "Unknown provider" in recorded:
            return "mock-needs-no-agents"
        if "Missing required command" in recorded and "Missing required command" in outcome.err:
            return "recorded-failure"
        if "alphanumeric" in recorded:
            return "sessions-of-any-script"
    return None


def _node(recorded: Steps, at: int) -> str:
    """The node that both were in when they parted."""
    return next((step.node for step in reversed(recorded[: at + 1]) if step.node), "0")


def _enters_after(found: Steps, node: str) -> Steps:
    for index, step in enumerate(found):
        if step.type == "node_start" and step.node.isdigit() and int(step.node) > int(node):
            return found[index:]
    return []


def _plan_node(plan: Any, node: str) -> dict[str, Any]:
    nodes = (plan or {}).get("nodes") or []
    return next((found for found in nodes if found.get("path") == node), {})


def _was_edited(pair: "Pair") -> bool:
    """Whether the first pass of the recording ran by another plan than the one that was kept."""
    for event in pair.recorded_events:
        data = event.get("data") or {}
        if event["type"] == "node_start" and "runs" in data:
            kept = _plan_node(pair.recorded_plan, str((event.get("cursor") or {}).get("node_path")))
            return bool(kept) and kept["termination"].get("max") != data["runs"]
    return False


def _lacked_program(pair: "Pair") -> bool:
    return any("CLI not found" in command.err for command in pair.case.commands)


def _failed_by_agent(outcome: "Outcome", played: "Played") -> bool:
    session = outcome.command.session
    errors = r"provider_crashed|result_missing|result_invalid|agent_error"
    log = played.run_dir(session or "") / "events.jsonl"
    return log.is_file() and re.search(f'"type":"({errors})"', log.read_text()) is not None


def _is_usage(said: str) -> bool:
    return (
        re.search(r"No such option|unexpected extra argument|requires an argument|is not a valid", said)
        is not None
    )


def _input_text(played: "Played") -> str:
    root = played.case.input.root if played.case.input else None
    return "\n".join(path.read_text() for path in root.glob("*.yaml")) if root else ""
