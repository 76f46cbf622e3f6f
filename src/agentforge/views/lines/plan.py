"""What a plan does, as `graph`, `dry-run`, `lint` and the first line of a run show it: checks, routes, hooks,
notifications, and what its agents may do."""

from collections.abc import Iterator, Mapping, Sequence

from agentforge.engine.decide.stage_at import check_timeout
from agentforge.model.check import Check
from agentforge.model.condition import condition_text
from agentforge.model.hook import OCCASIONS, Hook, Notification
from agentforge.model.plan import PYTHON, Judgment, Plan, ProviderChoice
from agentforge.views.graph import (
    GraphHook,
    GraphLimits,
    GraphNode,
    GraphRoute,
    graph,
    judged_stages,
    run_hooks,
)
from agentforge.views.text import counted, one_line, span

TEXT_CHARS = 100
TIMES = {
    "need": "before the first iteration, to see whether the stage is needed",
    "start": "before the first iteration",
    "iteration": "after each iteration",
    "end": "at the end",
}
PARSERS = {"exit": "", "junit": "JUnit XML", "pytest": "the output of pytest", "lines": "lines of a linter"}


def graph_lines(plan: Plan) -> list[str]:
    """The nodes in order, each with its checks and what follows."""
    hooks = (f"  {graph_hook_line(hook)}" for hook in run_hooks(plan))
    return [one_line(plan.pipeline.name), *hooks, *_nodes(graph(plan), "  ")]


def judgment_lines(node: GraphNode) -> Iterator[str]:
    """The lines of a stage in `dry-run`: its checks, routes and limits; none if it has only the next node."""
    if node.is_judged:
        yield from (f"- Check: {check_line(check)}" for check in node.checks)
        yield from (f"- Verdict: {route_line(route, node.limits)}" for route in node.routes)
    if node.limits:
        yield f"- Cycles: {limits_line(node.limits)}"


def lint_lines(plan: Plan) -> Iterator[str]:
    """The checks and routes of a valid pipeline, without those to the next node."""
    for stage in judged_stages(plan):
        name = one_line(stage.id)
        yield from (f"check of {name}: {check_line(check)}" for check in stage.checks)
        routes = (route for route in stage.routes if route.action != "next")
        yield from (f"route of {name}: {route_line(route, stage.limits)}" for route in routes)


def _nodes(nodes: Sequence[GraphNode], indent: str) -> Iterator[str]:
    for node in nodes:
        yield ""
        yield f"{indent}{node_title(node)}{', required' if node.required else ''}"
        yield from (f"{indent}  {line}" for line in people_lines(node))
        if node.artifact:
            yield f"{indent}  leaves an artifact, version {node.artifact}"
        if node.nodes:
            yield from _nodes(node.nodes, f"{indent}  ")
            yield ""
        yield from (f"{indent}  check {check_line(check)}" for check in node.checks)
        left_out = node.left_out.items()
        yield from (f"{indent}  check {one_line(name)} is not run: {why}" for name, why in left_out)
        yield from (f"{indent}  {graph_hook_line(hook)}" for hook in node.hooks)
        yield from (f"{indent}  {route_line(route, node.limits)}" for route in node.routes)
        if node.limits:
            yield f"{indent}  cycles: {limits_line(node.limits)}"


def people_lines(node: GraphNode) -> Iterator[str]:
    if node.checkpoint:
        yield f"checkpoint {one_line(node.checkpoint)}: a person approves before it is entered"
    if node.approval:
        who = "a person" if node.approval == "person" else "a person or another agent"
        later = unanswered(node.approval_timeout, node.approval_on_timeout)
        yield f"approval: {who} approves its result{f'; {later}' if later else ''}"


def unanswered(timeout: float | None, then: str | None) -> str:
    """`after 1h 00m without an answer: approve`; empty without a timeout."""
    follows = "still waits" if then == "wait" else then
    return f"after {span(timeout)} without an answer: {follows}" if timeout is not None else ""


def graph_hook_line(hook: GraphHook) -> str:
    """`hook stage_end-1: confirm at stage_end, if iteration > 3`."""
    when = f", if {one_line(hook.condition)}" if hook.condition else ""
    return f"hook {one_line(hook.id)}: {hook.action} at {hook.point}{when}"


def node_title(node: GraphNode) -> str:
    """`build`, `plan (planner), at most 5 iterations`, `duel: claude, codex in parallel`."""
    name = one_line(node.id)
    if node.kind == "parallel":
        return f"{name}: {', '.join(map(one_line, node.providers))} in parallel"
    if node.kind == "pipeline":
        times = f", {node.runs} times" if node.runs > 1 else ""
        return f"{name}: pipeline {one_line(node.ref)}{times}"
    other = f" ({one_line(node.ref)})" if node.ref != node.id else ""
    most = f", at most {counted(node.runs, 'iteration')}" if node.runs > 1 else ""
    if node.items:
        most = f", one iteration for each item of {one_line(node.items)}"
    return f"{name}{other}{most}"


def check_line(check: Check) -> str:
    """`test at the end: pytest -q (must fail; reads JUnit XML from report.xml; at most 5m 00s)`."""
    source = f" from {one_line(check.report, TEXT_CHARS)}" if check.report else ""
    reads = f"reads {PARSERS[check.parse]}{source}" if PARSERS[check.parse] else ""
    network = "with network" if check.network else ""
    limit = f"at most {span(check_timeout(check))}" if check.run else ""
    new = "only new failures count" if check.regressions else ""
    most = f", at most {check.red_tolerance:.0%} may pass" if check.red_tolerance else ""
    expected = {"pass": "", "fail": "must fail", "red": f"its tests must fail{most}"}[check.expect]
    details = [part for part in (expected, new, reads, network, limit) if part]
    more = f" ({'; '.join(details)})" if details else ""
    when = " and ".join(TIMES[time] for time in check.at)
    items = f" for each item{' whose criteria name it' if check.run else ''}" if check.criteria else ""
    return f"{one_line(check.name)} {when}{items}: {check_subject(check)}{more}"


def check_subject(check: Check) -> str:
    """Its command; of a check without one, such as `file README.md contains 'x', has heading 'Install'`."""
    rule = check.file
    if rule is None:
        if check.criteria and not check.run:
            return "the criteria that the engine verifies"
        return one_line(check.run or f"only {', '.join(check.scope)} may change", TEXT_CHARS)
    texts = {"contains": rule.contains, "doesn't contain": rule.absent, "has heading": rule.heading}
    parts = [f"{what} {', '.join(map(repr, named))}" for what, named in texts.items() if named]
    return one_line(f"file {rule.path} {', '.join(parts) or 'exists'}", TEXT_CHARS)


def route_line(route: GraphRoute, limits: GraphLimits | None) -> str:
    """`fail, reject → build (back, at most 3 cycles)`."""
    arrow = f"→ {_target(route, limits)}"
    return f"{', '.join(map(one_line, route.verdicts))} {arrow}" if route.verdicts else arrow


def limits_line(limits: GraphLimits) -> str:
    same, failure = counted(limits.no_progress, "visit"), counted(limits.cluster, "visit")
    early = f"after {same} without progress, or after {failure} with the same failure"
    return f"a person is asked at the limit, {early}"


def _target(route: GraphRoute, limits: GraphLimits | None) -> str:
    to = one_line(route.to or "")
    match route.action:
        case "next":
            return to or "done"
        case "back":
            assert limits is not None, "a stage with a route back has limits"
            return f"{to} (back, at most {counted(limits.cycles, 'cycle')})"
        case "skip":
            return f"{to} (skips {', '.join(map(one_line, route.skipped))})"
        case "ask":
            return "a person is asked"
        case "fail":
            return "the run fails"
        case "end":  # exhaustive
            return "the end"


def hook_sections(plan: Plan) -> Iterator[str]:
    left_out = plan.pipeline.left_out.items()
    if plan.all_hooks or left_out:
        yield from ("", "## Hooks")
    yield from (f"- {one_line(id)} is not called: {why}" for id, why in left_out)
    for hook in plan.all_hooks:
        yield ""
        yield from _hook(hook)
    if plan.pipeline.notify:
        yield from ("", "## Notifications")
        yield from (f"- {_notification(one)}" for one in plan.pipeline.notify)


def hook_line(hook: Hook) -> str:
    """`stage_end-1: confirm at stage_end of plan, if iteration > 3`."""
    when = f", if {one_line(condition_text(hook.condition))}" if hook.condition else ""
    return f"{one_line(hook.id)}: {hook.action} at {_point(hook)}{when}"


def _hook(hook: Hook) -> Iterator[str]:
    yield f"### {one_line(hook.id)}: {hook.action}"
    yield f"- When: {_point(hook)}"
    if hook.condition:
        yield f"- Condition: {one_line(condition_text(hook.condition))}"
    if hook.message:
        yield f"- Question: {one_line(hook.message, TEXT_CHARS)}"
    if hook.url:
        yield f"- Address: {_address(hook.url, hook.secret)}"
    if hook.script:
        yield f"- Command: {one_line(hook.script, TEXT_CHARS)}"
    if hook.environment:
        yield f"- Variables: {', '.join(hook.environment)}"
    if hook.action in ("pause", "confirm"):
        return
    if hook.network:
        yield "- Network: needed"
    if hook.seconds is not None:
        tries = "1 try" if hook.max_tries == 1 else f"at most {hook.max_tries} tries"
        yield f"- Limits: {span(hook.seconds)} per try, {tries}"
    after = f"on timeout: {hook.on_timeout}; if the engine dies during the call: {hook.on_lost}"
    yield f"- On failure: {hook.on_failure}; {after}"


def _point(hook: Hook) -> str:
    return f"{hook.point} of {one_line(hook.stage)}" if hook.stage else hook.point


def _address(url: str, secret: str | None) -> str:
    return one_line(url, TEXT_CHARS) + (f", signed with {secret}" if secret else "")


def _notification(one: Notification) -> str:
    ways = ["on the desktop"] if one.desktop else []
    given = f", with {', '.join(one.environment)}" if one.environment else ""
    given += ", in the project" if one.in_project else ""
    ways += [f"command {one_line(one.command, TEXT_CHARS)}{given}"] if one.command else []
    ways += [f"POST to {_address(one.url, one.secret)}"] if one.url else []
    texts = {
        "request": "needs a person",
        "failed": "fails",
        "completed": "completes",
        "cancelled": "is cancelled",
    }
    when = [texts[occasion] for occasion in OCCASIONS if occasion in one.on]
    any_of = " or ".join(filter(None, (", ".join(when[:-1]), *when[-1:])))
    return f"When the run {any_of}: {'; '.join(ways)}"


OWN_PERMISSIONS = "as configured in the CLI's own settings"
MAX_AGENTS = 4
NAME_CHARS = 60

Permissions = Mapping[str, Sequence[str]]
"""By provider: the arguments that let its CLI work without asking, unless the stage sets others."""


def agents_line(plan: Plan, permissions: Permissions, folder: str) -> str:
    """`Agents in /srv/app: claude / opus, all permissions, bwrap`."""
    found = list(dict.fromkeys(_agents(plan, permissions)))
    more = len(found) - MAX_AGENTS
    rest = [f"and {more} more (`agentforge dry-run` shows them)"] if more > 0 else []
    return f"Agents in {one_line(folder)}: {'; '.join([*found[:MAX_AGENTS], *rest])}"


def permission_words(choice: ProviderChoice, permissions: Permissions, limit: int) -> str | None:
    """`all (--yolo)`, or the ones that the definition gives; empty: those of the CLI's own settings. None for
    an agent that has no permissions of its own."""
    if choice.type not in permissions:
        return None
    given = choice.config.get("permissions")
    words = permissions[choice.type] if given is None else given
    line = one_line(" ".join(map(str, words)), limit) if isinstance(words, Sequence) else ""
    return f"all ({line})" if line and given is None else line


def provider_text(choice: ProviderChoice) -> str:
    if choice.type == PYTHON:
        return f"{PYTHON} / {one_line(str(choice.config.get('class')), TEXT_CHARS)}"
    return f"{choice.type} / {choice.model}" if choice.model else choice.type


def _agents(plan: Plan, permissions: Permissions) -> Iterator[str]:
    for stage in (stage for step in plan.steps for stage in step.stages):
        judges = [plan.judge_of(stage)] if isinstance(stage.termination, Judgment) else []
        for choice in (*stage.chain, *judges):
            words = permission_words(choice, permissions, NAME_CHARS)
            is_all = words and choice.config.get("permissions") is None
            allowed = "all permissions" if is_all else f"permissions {words or OWN_PERMISSIONS}"
            is_confined = stage.sandbox is not None and stage.sandbox.type != "none"
            sandbox = stage.sandbox.type if stage.sandbox and is_confined else "no sandbox"
            details = (sandbox,) if words is None else (allowed, sandbox)
            yield ", ".join((one_line(provider_text(choice), NAME_CHARS), *details))
