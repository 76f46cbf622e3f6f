"""Rules of the fifth pass about one stage, its levels merged: its end, approval, prompt, checks, routes."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from agentforge.definition.artifact_rules import empty_variables
from agentforge.definition.lower import pinned_text
from agentforge.definition.precedence import merged
from agentforge.definition.read.check_keys import has_no_command
from agentforge.definition.read.table import MappingSpec
from agentforge.definition.read.work_keys import FIXED, ITEMS, TERMINATIONS
from agentforge.definition.report import Report, relative
from agentforge.definition.specs import ResolvedPipeline, ResolvedStage, ids_of
from agentforge.definition.yaml_tree import Written, shown
from agentforge.model.artifact import MAX_ITEMS
from agentforge.model.check import CRITERIA, OWN_REPORT
from agentforge.model.diagnostic import SourcePlace, choice, did_you_mean, listed
from agentforge.model.names import PROMPT_VARIABLES
from agentforge.model.plan import END, ROUTE_ACTIONS, VERDICTS
from agentforge.model.secrets import REFERENCE
from agentforge.ports.sources import MAX_SOURCE_BYTES, Sources

# These rules see the values in force, and report the places where those are written. A combination that is
# wrong in stage.yaml but overridden by the node is not reported.

_VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")
# One word that ends like a text file or has a folder before it; `/review` is a command of an agent.
_PATH = re.compile(r"\S+\.(?:md|markdown|txt|prompt)|[^\s:]*\w/\S+")


def validate_termination(node: ResolvedStage, default_runs: int, report: Report) -> None:
    """Validate the merged termination of a node and its stage."""
    termination = merged(node, "termination")
    kind = termination.get("type") if termination else None
    if kind is None or kind.value == FIXED:
        return
    known, maximum = tuple(TERMINATIONS), termination.get("max")
    if kind.value not in known:
        hint = choice(kind.value, "types", known)
        report.error("bad-value", kind.at, f"unknown termination type {shown(kind.value)}", hint)
    elif kind.value == ITEMS:
        if maximum and maximum.value > MAX_ITEMS:
            message = f"a stage is over at most {MAX_ITEMS:,} items, got {maximum.value:,}"
            report.error("bad-value", maximum.at, message, "lower `max`")
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


def validate_runtime(rails: MappingSpec | None, report: Report) -> None:
    """Validate the limits of a run, or the merged ones of a stage."""
    then = rails.get("on_timeout") if rails else None
    if rails and then and rails.get("max_runtime_seconds") is None:
        message = f"`guardrails.on_timeout: {then.value}` has no effect without a limit"
        report.warning("no-effect", then.at, message, hint="add `max_runtime_seconds`")


def validate_prompt(
    node: ResolvedStage, sources: Sources, given: frozenset[SourcePlace] | None, report: Report
) -> None:
    """Agents get the prompt as it is written: also unknown variables, and the name of a file. `given`: the
    nodes that get an artifact; None: the stage runs alone, so that what its nodes add isn't known."""
    written = node.spec.work.prompt
    if written and not written.value.strip():
        hint = "write what the agent should do, or name a file: `prompt: {file: PATH}`"
        report.error("empty-prompt", written.at, "the prompt is empty", hint)
    elif written and _PATH.fullmatch(written.value.strip()):
        message = f"the prompt looks like the name of a file: the agent gets only {shown(written.value)}"
        report.warning("prompt-is-path", written.at, message, "for its text, write `prompt: {file: PATH}`")
    empty = dict(empty_variables(node, given)) if given is not None and node.is_found else {}
    names = set[str]()
    for name, at in _variables(node, sources, report):
        names.add(name)
        if name not in PROMPT_VARIABLES:
            message = f"unknown variable `${{{name}}}` in the prompt: the agent gets it as it is written"
            report.warning("unknown-variable", at, message, choice(name, "variables", PROMPT_VARIABLES))
        elif name in empty:
            why, hint = empty[name]
            report.warning("empty-variable", at, f"`${{{name}}}` in the prompt is empty: {why}", hint)
    instructed = merged(node, "result_instructions")
    is_off = instructed is not None and not instructed.value
    if is_off and merged(node, "artifact") and node.is_found and not names & {"ARTIFACT", "SCHEMA"}:
        message = "with `result_instructions: off`, this prompt doesn't ask for the artifact"
        hint = "name `${ARTIFACT}` and `${SCHEMA}` in the prompt"
        report.warning("artifact-not-named", instructed.at, message, hint)


def _variables(node: ResolvedStage, sources: Sources, report: Report) -> Iterator[tuple[str, SourcePlace]]:
    """Those in the prompt."""
    if node.prompt_path is not None:
        file = relative(sources.project, node.prompt_path)
        text = pinned_text(file, sources) or ""
        report.add_text(file, text)
        for found in re.finditer(re.escape(REFERENCE), text):
            report.refuse_reference(found[0], _place(file, text, found.start()))
        if not text.strip():
            at = SourcePlace(file, 1, 1)
            report.error("empty-prompt", at, "the prompt file is empty", "write the prompt into it")
        if len(text.encode()) > MAX_SOURCE_BYTES:
            message = f"the prompt file is larger than {MAX_SOURCE_BYTES:,} bytes"
            report.error("too-large", SourcePlace(file, 1, 1), message, "put most of it into another file")
        for found in _VARIABLE.finditer(text):
            yield found[1], _place(file, text, found.start())
    elif node.spec.work.prompt is not None:
        for found in _VARIABLE.finditer(node.spec.work.prompt.value):
            yield found[1], node.spec.work.prompt.at


def _place(file: str, text: str, offset: int) -> SourcePlace:
    line_start = text.rfind("\n", 0, offset) + 1
    return SourcePlace(file, text.count("\n", 0, offset) + 1, offset - line_start + 1)


def validate_checks(stage: ResolvedStage, report: Report) -> None:
    commands: Mapping[str, str] = merged(stage, "commands")
    seen: dict[str, SourcePlace] = {}
    termination = merged(stage, "termination")
    has_criteria = termination is not None and termination.get("criteria") is not None
    for check in merged(stage, "checks") or ():
        name = check.get("name").value
        if has_criteria and name == CRITERIA:
            message = f"{shown(name)} is the check that verifies the criteria of items"
            report.error("duplicate-id", check.at, message, hint="give it another `name`")
        optional = check.get("optional")
        if has_no_command(check, commands) and not (optional and optional.value):
            message = f"check {shown(name)} has no `run`, and there is no command {shown(name)}"
            known = [one for one, run in commands.items() if run.strip()]
            hint = choice(name, "commands", known) if known else f"add `commands: {{{name}: …}}`"
            hint += ", or `optional: true`"
            report.error("missing-key", check.at, message, hint)
        _validate_report(check, commands, report)
        if seen.setdefault(name, check.at) is not check.at:
            message = f"the check {shown(name)} is already on line {seen[name].line}"
            report.error("duplicate-id", check.at, message, hint="give it another `name`")


def _validate_report(check: MappingSpec, commands: Mapping[str, str], report: Report) -> None:
    parse, path, name = check.get("parse"), check.get("report"), check.get("name").value
    is_junit = parse is not None and parse.value == "junit"
    run = check.get("run") or commands.get(name, "")
    if is_junit and path is None and OWN_REPORT not in run:
        hint = f"add `report: PATH`, the file that the command writes, or have it write to ${OWN_REPORT}"
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
    # An agent writes its verdict by hand. `Pass` must not be another verdict than `pass`.
    words = {word.lower(): word for word in VERDICTS}
    for word in declared:
        known = words.setdefault(word.value.lower(), word.value)
        if known != word.value:
            same = f"{shown(word.value)} is the same as {shown(known)}"
            message = f"the verdict {same}: verdicts are not case-sensitive"
            report.error("conflict", word.at, message, f"use {shown(known)}, or another word")
    return (*VERDICTS, *(word.value for word in declared))


def validate_required(pipeline: ResolvedPipeline, elsewhere: Collection[str], report: Report) -> None:
    """No route may lead past a required node. Without such a route, each way to the end visits all of them:
    other nodes lead to the next one."""
    ids, required = ids_of(pipeline.spec.nodes), pipeline.spec.get("require") or ()
    for node in required:
        hint = choice(node.value, "nodes", ids)
        if node.value in elsewhere and node.value not in ids:
            message = f"{shown(node.value)} is a node of another pipeline or block"
            report.error("conflict", node.at, message, "require it there, or the node that contains it")
        elif node.value not in ids:
            report.error("unknown-node", node.at, f"no node has the id {shown(node.value)}", hint)
    names = {node.value for node in required}
    for stage in pipeline.nodes:
        if not isinstance(stage, ResolvedStage) or stage.spec.id is None:
            continue
        after = ids[ids.index(stage.spec.id.value) + 1 :]
        for to in (route.to for route in merged(stage, "on") or ()):
            places = {id: number for number, id in enumerate(after)} | {END: len(after)}
            passed = after[: places.get(to.value, 0)]
            if skipped := [id for id in passed if id in names]:
                message = f"the route to {shown(to.value)} skips required nodes: {listed(skipped)}"
                hint = f"lead it to {shown(skipped[0])} or to an earlier node, or change `require`"
                report.error("skips-required", to.at, message, hint)


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
    for key, frozen in (("freeze", merged(stage, "freeze")), ("rollback", merged(stage, "rollback"))):
        one = frozen[0] if isinstance(frozen, tuple) else frozen
        if one and one.value:
            message = f"`{key}` is not possible in a parallel block: its branches work on the same files"
            report.error("unsupported", one.at, message, hint="put it on a stage after the block")
    termination = merged(stage, "termination")
    if termination and (criteria := termination.get("criteria")):
        message = "`criteria` are not verified in a parallel block: its branches work on the same files"
        report.error("unsupported", criteria.at, message, hint="remove `criteria`")
