"""Rules of the fifth pass about artifacts and budgets: keys that have no effect without others, and variables
of prompts that are empty."""

from collections.abc import Iterable, Iterator

from agentforge.definition.precedence import merged
from agentforge.definition.read.work_keys import ITEMS
from agentforge.definition.report import Report
from agentforge.definition.specs import ResolvedStage
from agentforge.definition.yaml_tree import shown
from agentforge.model.diagnostic import SourcePlace


def empty_variables(
    node: ResolvedStage, given: frozenset[SourcePlace]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """The variables that only other keys fill, each with the reason and the hint."""
    artifact, termination = merged(node, "artifact"), merged(node, "termination")
    kind = termination.get("type") if termination else None
    if artifact is None:
        for name in ("ARTIFACT", "SCHEMA"):
            yield name, ("the stage leaves no artifact", "add `artifact: …`")
    # One that leaves an artifact itself gets that when it is visited again.
    if artifact is None and node.spec.at not in given:
        yield "INPUT_ARTIFACT", ("no earlier stage leaves an artifact", "add `artifact: …` to one")
    if kind is None or kind.value != ITEMS:
        hint = "add `termination: {type: items, from: NODE.FIELD}`"
        yield "ITEM", ("the stage is not over items", hint)
    if merged(node, "context_strategy") is None:
        yield "BRIEFING", ("the stage has no `context_strategy`", "add `context_strategy: full`")


def validate_tokens(stages: Iterable[ResolvedStage], report: Report) -> None:
    """Shares of a budget may be defaults, for those of the stages that have one."""
    budgets = [budget for stage in stages if stage.is_found and (budget := merged(stage, "tokens"))]
    used = {budget.get(key).at for budget in budgets if budget.get("total") for key in budget.values}
    for budget in budgets:
        for key in ("reserve", "share"):
            part = budget.get(key)
            if part and part.at not in used:
                message = f"`tokens.{key}` has no effect without `total`: nothing is cut"
                report.warning("no-effect", part.at, message, "add `total`, the number of tokens")


def validate_fill(stages: Iterable[ResolvedStage], report: Report) -> None:
    """Those of a run without a user request."""
    for artifact in filter(None, (merged(stage, "artifact") for stage in stages)):
        for field, source in (artifact.get("fill") or {}).items():
            if source.value != "request":
                continue
            message = f"{shown(field)} is filled with the user request, and the pipeline takes none"
            hint = "add `request: optional` or `required` at the top of the pipeline"
            report.warning("no-effect", source.at, message, hint)
