"""Rules about checks and routes: commands exist, and routes lead to nodes of the same pipeline."""

from collections.abc import Collection, Mapping, Sequence

from agentforge.definition.precedence import merged
from agentforge.definition.read.table import MappingSpec
from agentforge.definition.report import Report
from agentforge.definition.specs import ResolvedStage
from agentforge.definition.yaml_tree import Written, shown
from agentforge.model.diagnostic import SourcePlace, choice, did_you_mean, listed
from agentforge.model.plan import ROUTE_ACTIONS, VERDICTS


def validate_checks(stage: ResolvedStage, report: Report) -> None:
    commands: Mapping[str, str] = merged(stage, "commands")
    seen: dict[str, SourcePlace] = {}
    for check in merged(stage, "checks") or ():
        name = check.get("name").value
        if check.get("run") is None and name not in commands:
            message = f"check {shown(name)} has no `run`, and there is no command {shown(name)}"
            hint = choice(name, "commands", commands) if commands else f"add `commands: {{{name}: …}}`"
            report.error("missing-key", check.at, message, hint)
        _validate_report(check, report)
        if seen.setdefault(name, check.at) is not check.at:
            message = f"the check {shown(name)} is already on line {seen[name].line}"
            report.error("duplicate-id", check.at, message, hint="give it another `name`")


def _validate_report(check: MappingSpec, report: Report) -> None:
    parse, path = check.get("parse"), check.get("report")
    is_junit = parse is not None and parse.value == "junit"
    if is_junit and path is None:
        hint, name = "add `report: PATH`, the file that the command writes", check.get("name").value
        report.error("missing-key", check.at, f"check {shown(name)} has no `report`", hint)
    if path and not is_junit:
        message, hint = "`report` is only read with `parse: junit`", "add `parse: junit`, or remove it"
        report.warning("ignored-key", path.at, message, hint)


def validate_routes(
    stage: ResolvedStage, ids: Sequence[str], elsewhere: Collection[str], report: Report
) -> None:
    """`ids`: the nodes beside the stage; `elsewhere`: those of other pipelines, blocks and branches."""
    given = [level.get("verdicts") for level in stage.levels]
    declared = next((verdicts for verdicts in reversed(given) if verdicts is not None), ())
    words = _verdicts(declared, report)
    for route in merged(stage, "on") or ():
        verdict, to = route.verdict, route.to
        if verdict.value not in words:
            message = f"{shown(verdict.value)} is not a verdict of this stage"
            hint = f"add {shown(verdict.value)} to `verdicts`, or use one of: {', '.join(words)}"
            report.error("unknown-verdict", verdict.at, message, _meant(verdict.value, words, hint))
        _validate_target(to, ids, elsewhere, report)


def _verdicts(declared: Sequence[Written[str]], report: Report) -> tuple[str, ...]:
    """All verdicts of a stage. Those of results are compared without regard to case."""
    words = {word.lower(): word for word in VERDICTS}
    for word in declared:
        known = words.setdefault(word.value.lower(), word.value)
        if known != word.value:
            same = f"{shown(word.value)} is the same as {shown(known)}"
            message = f"the verdict {same}: verdicts are not case-sensitive"
            report.error("conflict", word.at, message, f"use {shown(known)}, or another word")
    return (*VERDICTS, *(word.value for word in declared))


def _validate_target(
    to: Written[str], ids: Sequence[str], elsewhere: Collection[str], report: Report
) -> None:
    hint = _meant(to.value, (*ids, *ROUTE_ACTIONS), f"use a node ({listed(ids)}), or ask, fail or end")
    if to.value in ROUTE_ACTIONS and to.value in ids:
        message = f"{shown(to.value)} is a node and also an action of routes"
        report.error("conflict", to.at, message, "give the node another id: ask, fail and end are actions")
    elif to.value in ROUTE_ACTIONS or to.value in ids:
        return
    elif to.value in elsewhere:
        message = f"{shown(to.value)} is a node of another pipeline or block, which a route can't enter"
        report.error("conflict", to.at, message, hint)
    else:
        report.error("unknown-node", to.at, f"no node has the id {shown(to.value)}", hint)


def _meant(name: str, known: Sequence[str], hint: str) -> str:
    meant = did_you_mean(name, known)
    return f"{meant} {hint}" if meant else hint


def refuse_checks(stage: ResolvedStage, report: Report) -> None:
    """In a parallel block, all branches change the same files."""
    for check in (merged(stage, "checks") or ())[:1]:
        message = "`checks` are not possible in a parallel block: its branches work on the same files"
        report.error("unsupported", check.at, message, hint="put them on a stage after the block")
