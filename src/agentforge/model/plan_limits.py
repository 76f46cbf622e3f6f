"""The rules that every plan keeps, whether it was compiled or read from a log: names that can be directories,
and bounded sizes. A log may have come with a repository, so its plan is checked before it is used."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from agentforge.model.artifact import MAX_ITEMS, Artifact
from agentforge.model.check import Check
from agentforge.model.condition import condition_problem
from agentforge.model.hook import Hook, Notification
from agentforge.model.layout import is_inside
from agentforge.model.names import control_character, session_problem
from agentforge.model.plan import (
    Items,
    NestedNode,
    Node,
    ParallelNode,
    PipelineInfo,
    Plan,
    StageNode,
    TokenBudget,
)

# A log is a file of the repository, and its first event has the plan. The decoder checks types; here is
# checked what would hurt although its type is right: a name becomes a folder, a number is counted up to, a
# duration is added to a time, a route is followed, a command runs. Texts that are only shown or sent aren't
# checked.
#
# The rules share their limits with the key tables, not their code: a table has the place of a value in a file
# and tells a person what to write, while here a plan is refused as a whole. A key that bounds nothing of the
# above needs no rule here.
#
# Nesting is measured level by level before anything recurses into it (`_size_problems` comes first): the
# rules below, and every reader of a plan, may then walk it recursively.

MAX_RUNS = 1_000_000
"""Of a node, of a pipeline, and of the iterations of a stage."""
MAX_STEPS = 100_000
"""Of a run: nested repetitions multiply."""
MAX_NODES = 5_000
MAX_DEPTH = 16
MAX_NAME_BYTES = 200
MAX_SECONDS = 365 * 24 * 3600.0
"""Of every duration."""
MAX_USD = 1_000_000.0
MAX_MESSAGE = 2_000
"""Characters of the question that an approval or a hook asks."""
MAX_HOOKS = 200
"""Of one pipeline, including those of the program that embeds the engine."""
MAX_YAML_HOOKS = 100
MAX_NOTIFICATIONS = 20
MAX_HOOK_ID = 4_000
"""Characters: the ids of nested nodes are part of it."""
MAX_COMMAND = 10_000
"""Characters of a command line of a hook or notification."""
MAX_URL = 2_000
MAX_PORT = 65_535
MAX_TRIES = 10
MAX_NAMED_VARIABLES = 100
VARIABLE_PATTERN = "[A-Za-z_][A-Za-z0-9_]{0,99}"
"""Of the environment variables that a plan names."""
VIEWS = ("escalations", "controller")
"""What a pipeline's `views` can name."""
MAX_CYCLES = 10
MAX_CHECKS = 50
MAX_SCOPE, MAX_GLOB = 50, 200
"""Of a check: how many patterns, and the characters of each."""
MAX_CHECK_TEXTS, MAX_CHECK_TEXT, MAX_HEADING = 20, 4_000, 200
"""Of the rules of a check about a file: how many texts, and the characters of each."""
MAX_VERDICTS = 20
NAME_PATTERN = "[A-Za-z0-9._-]{1,100}"
"""Of checkpoints."""
MAX_SCHEMA_BYTES = 100_000
"""Of the schema of an artifact: prompts contain it, and some agents get it as an argument."""
MAX_HEAL = 10
MAX_FIELDS = 100
"""Of an artifact, that a plan names."""
MAX_TOKENS = 100_000_000
VERSION_PATTERN = "[0-9]{1,6}[.][0-9]{1,6}"
"""Of artifacts."""
FIELD_PATTERN = r"[^\s.]{1,100}"

_DIRECTORY_NAME = re.compile(r"[\w-](?:[\w .-]*[\w.-])?")
_PATH = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){0,99}")


def is_directory_name(name: str) -> bool:
    """Whether a node's id or a provider's name in a block can be used as the name of a directory."""
    return bool(_DIRECTORY_NAME.fullmatch(name)) and len(name.encode()) <= MAX_NAME_BYTES


def is_plain_name(name: str) -> bool:
    return re.fullmatch(NAME_PATTERN, name) is not None


def is_variable_name(name: str) -> bool:
    return re.fullmatch(VARIABLE_PATTERN, name) is not None


def is_field_name(name: str) -> bool:
    """Whether a plan can name a field of an artifact so: a dot would end the id of its node."""
    return re.fullmatch(FIELD_PATTERN, name) is not None and not control_character(name)


def is_address(url: str) -> bool:
    """Whether it is an http or https address without a user and a password."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    is_visible = url.isprintable() and " " not in url
    return has_host and is_visible and parts.scheme in ("http", "https") and "@" not in parts.netloc


def wrong_port(url: str) -> str:
    """The port of the address, if it has one that isn't from 1 to 65535; else empty."""
    host = url.partition("//")[2].partition("/")[0].partition("?")[0].partition("#")[0].rpartition("@")[2]
    port = host.rpartition("]")[2].partition(":")[2]
    is_number = port.isascii() and port.isdigit() and len(port.lstrip("0")) <= len(str(MAX_PORT))
    return port if port and not (is_number and 1 <= int(port) <= MAX_PORT) else ""


def plan_problem(plan: Plan) -> str:
    """Why the plan can't be one that was compiled; empty if it can."""
    return next(filter(None, _problems(plan)), "")


def plan_defect(plan: Plan) -> str:
    """Why a fact can't carry the plan; empty if it can."""
    problem = plan_problem(plan)
    return f"its plan is not valid: {problem}" if problem else ""


def folder_defect(folder: str) -> str:
    """Why a fact can't name the folder, relative to the run directory; empty if it can."""
    return "" if is_inside(folder) else f"its folder is outside the run: {folder!r}"


def artifact_defect(artifact: Artifact | None) -> str:
    """Why a fact can't have the artifact; empty if it can."""
    if artifact is None:
        return ""
    if not re.fullmatch(VERSION_PATTERN, artifact.version):
        return "its artifact has no valid version"
    return "" if is_inside(artifact.file) else "its artifact is outside the run"


def name_defect(*names: str) -> str:
    """Why one of the names can't become a directory; empty if all can."""
    wrong = next((name for name in names if not is_directory_name(name)), None)
    return "" if wrong is None else f"{wrong!r} cannot be used as a directory name"


def _problems(plan: Plan) -> Iterator[str]:
    yield from _size_problems(plan)
    yield session_problem(plan.session.name)
    if plan.mode == "loop" and not isinstance(plan.nodes[0], StageNode):
        yield "a loop has no stage"
    for node in _nodes(plan):
        yield from _node_problems(node)
    plans = [plan, *(node.plan for node in _nodes(plan) if isinstance(node, NestedNode))]
    for part in plans:
        yield from _route_problems(part.nodes)
    for view in plan.pipeline.views:
        if view not in VIEWS:
            yield f"{view!r} is not a view"
    for part in plans:
        yield from _hook_problems(part.pipeline)
    for stage in plan.stages:
        yield from _item_problems(stage, plan)
    ids = Counter(hook.id for hook in plan.all_hooks)
    yield from (f"two hooks have the id {id!r}" for id, number in ids.items() if number > 1)


def _size_problems(plan: Plan) -> Iterator[str]:
    """Nothing is repeated or entered before its number is known to be small."""
    if not 1 <= plan.passes <= MAX_RUNS:
        yield f"it runs {plan.passes:,} times; the maximum is {MAX_RUNS:,}"
    depth, level, nodes = 0, [plan], 0
    while level:
        depth, nodes = depth + 1, nodes + sum(len(inner.nodes) for inner in level)
        if depth > MAX_DEPTH or nodes > MAX_NODES:
            yield f"nested pipelines exceed {MAX_DEPTH} levels or {MAX_NODES} nodes"
        if not all(inner.nodes for inner in level):
            yield "a pipeline has no nodes"
        level = [node.plan for inner in level for node in inner.nodes if isinstance(node, NestedNode)]
    steps = plan.passes * _steps(plan)
    if steps > MAX_STEPS:
        yield f"it has {steps:,} steps; the maximum is {MAX_STEPS:,}"


def _steps(plan: Plan) -> int:
    return sum(
        max(node.runs, 1) * _steps(node.plan) if isinstance(node, NestedNode) else 1 for node in plan.nodes
    )


def _nodes(plan: Plan) -> Iterator[Node]:
    for node in plan.nodes:
        yield node
        if isinstance(node, NestedNode):
            yield from _nodes(node.plan)
        elif isinstance(node, ParallelNode):
            yield from (stage for branch in node.branches for stage in branch.stages)


def _node_problems(node: Node) -> Iterator[str]:
    names = [node.id]
    if isinstance(node, ParallelNode):
        names += [branch.provider for branch in node.branches]
        for branch in node.branches:
            yield from _route_problems(branch.stages)
        if any(stage.checkpoint for branch in node.branches for stage in branch.stages):
            yield f"a stage of block {node.id!r} has a checkpoint"
    yield name_defect(*names)
    if not _PATH.fullmatch(node.path):
        yield f"{node.path!r} is not the path of a node"
    if node.checkpoint is not None and not is_plain_name(node.checkpoint):
        yield f"{node.checkpoint!r} is not the name of a checkpoint"
    if isinstance(node, StageNode):
        yield from _stage_problems(node)


def _stage_problems(stage: StageNode) -> Iterator[str]:
    if not 0 <= stage.termination.max <= MAX_RUNS:
        yield f"stage {stage.id!r} has {stage.termination.max:,} iterations; the maximum is {MAX_RUNS:,}"
    if stage.escalation_timeout is not None and not 0 < stage.escalation_timeout <= MAX_SECONDS:
        yield f"stage {stage.id!r} has a timeout of {stage.escalation_timeout:g} s for its questions"
    yield from _approval_problems(stage)
    yield from _check_problems(stage)
    yield from _artifact_problems(stage)
    for choice in stage.chain:
        for name in (choice.type, choice.model):
            if found := control_character(name):
                yield f"stage {stage.id!r} has a provider or model with the control character {found}"


def _check_problems(stage: StageNode) -> Iterator[str]:
    """The name of a check is part of a path, and routes are followed by their ids."""
    if (
        sum(not check.criteria for check in stage.checks) + len(stage.left_out) > MAX_CHECKS
        or len(stage.verdicts) > MAX_VERDICTS
    ):
        yield f"stage {stage.id!r} has too many checks or verdicts"
    if len(stage.routes) > MAX_VERDICTS + 3:
        yield f"stage {stage.id!r} has too many routes"
    for check in stage.checks:
        if not is_plain_name(check.name) or not _has_one_rule(check):
            yield f"stage {stage.id!r} has a check without a usable name or command"
        if not 1 <= len(check.at) == len(set(check.at)):
            yield f"check {check.name!r} runs at no time, or twice at the same"
        if not 0 <= check.red_tolerance < 1:
            yield f"check {check.name!r} tolerates {check.red_tolerance:g} of its tests"
        if len(check.scope) > MAX_SCOPE or any(len(pattern) > MAX_GLOB for pattern in check.scope):
            yield f"the scope of check {check.name!r} is too large"
        if check.file and not is_inside(check.file.path):
            yield f"the file of check {check.name!r} is outside the project: {check.file.path!r}"
        if check.timeout is not None and not 0 < check.timeout <= MAX_SECONDS:
            yield f"check {check.name!r} has a timeout of {check.timeout:g} s"
        if check.report is not None and not is_inside(check.report):
            yield f"the report of check {check.name!r} is outside the project: {check.report!r}"
    limits = stage.limits
    if limits is not None and not 1 <= (limits.cycles or 1) <= MAX_CYCLES:
        yield f"stage {stage.id!r} has a limit of {limits.cycles:,} cycles; the maximum is {MAX_CYCLES}"


def _has_one_rule(check: Check) -> bool:
    rules = [bool(check.run.strip()), bool(check.file), bool(check.scope)].count(True)
    return rules == 1 or (check.criteria and not rules)


def _artifact_problems(stage: StageNode) -> Iterator[str]:
    """Prompts contain the schema, attempts are counted up to the limit of corrections, and a part of the
    budget is computed."""
    rule, budget, fields = (
        stage.artifact,
        stage.tokens or TokenBudget(),
        stage.sources.artifact if stage.sources else (),
    )
    if rule is not None:
        if len(msgspec.json.encode(rule.schema)) > MAX_SCHEMA_BYTES:
            yield f"the schema of stage {stage.id!r} has more than {MAX_SCHEMA_BYTES:,} bytes"
        if not re.fullmatch(VERSION_PATTERN, rule.version):
            yield f"the artifact of stage {stage.id!r} has no valid version"
        if not 0 <= rule.heal <= MAX_HEAL:
            yield f"stage {stage.id!r} may correct {rule.heal:,} artifacts; the maximum is {MAX_HEAL}"
        fields = (*fields, *rule.fill)
    # A stage may also have to meet the needs of all pipelines that it is the first of.
    if len(fields) > (MAX_DEPTH + 1) * MAX_FIELDS or not all(map(is_field_name, fields)):
        yield f"stage {stage.id!r} names too many fields of artifacts, or one that can't exist"
    is_part = 0 <= budget.reserve < 100 and 0 < budget.share <= 100
    if not is_part or not 0 < (1 if budget.total is None else budget.total) <= MAX_TOKENS:
        yield f"stage {stage.id!r} has no valid budget of tokens"


def _item_problems(stage: StageNode, plan: Plan) -> Iterator[str]:
    """Their artifact is read, and their number is counted up to."""
    if not isinstance(stage.termination, Items):
        return
    if stage.termination.max > MAX_ITEMS or not is_field_name(stage.termination.field):
        yield f"stage {stage.id!r} is over more than {MAX_ITEMS:,} items, or names no field"
    source = stage.sources.items if stage.sources else None
    if source is None:
        yield f"stage {stage.id!r} takes its items from nowhere"
    elif source.path:
        of = plan.stage(source.path, source.provider)
        if of is None or of.artifact is None or isinstance(of.termination, Items):
            yield f"stage {stage.id!r} takes its items from {source.path!r}, which leaves no list"


def _route_problems(nodes: Iterable[Node]) -> Iterator[str]:
    """Of one pipeline or branch."""
    known = list(nodes)
    ids = {node.id for node in known}
    for node in known:
        for route in node.routes if isinstance(node, StageNode) else ():
            if route.action == "go" and route.to not in ids:
                yield f"a route of stage {node.id!r} leads to {route.to!r}, which is not a node beside it"


def _approval_problems(stage: StageNode) -> Iterator[str]:
    """A due time is computed from it, and a number of rounds is counted up to."""
    approval = stage.approve
    if approval is None:
        return
    if not 1 <= approval.rounds <= MAX_RUNS:
        yield f"stage {stage.id!r} has {approval.rounds:,} rounds of approval; the maximum is {MAX_RUNS:,}"
    if approval.timeout is not None and not 0 < approval.timeout <= MAX_SECONDS:
        yield f"stage {stage.id!r} has a timeout of {approval.timeout:g} s for its approval"
    if len(approval.message or "") > MAX_MESSAGE:
        yield f"the approval of stage {stage.id!r} has a question of more than {MAX_MESSAGE:,} characters"


def _hook_problems(pipeline: PipelineInfo) -> Iterator[str]:
    if len(pipeline.hooks) > MAX_HOOKS or len(pipeline.notify) > MAX_NOTIFICATIONS:
        yield f"a pipeline has more than {MAX_HOOKS} hooks or {MAX_NOTIFICATIONS} notifications"
    for hook in pipeline.hooks:
        if not hook.id or len(hook.id) > MAX_HOOK_ID or control_character(hook.id):
            yield f"{hook.id[:100]!r} is not the id of a hook"
        yield from (f"hook {hook.id!r} {problem}" for problem in _problems_of_hook(hook))
    for notification in pipeline.notify:
        yield from (f"a notification {problem}" for problem in _problems_of_call(notification))


def _problems_of_hook(hook: Hook) -> Iterator[str]:
    """A due time is computed from its timeout, and a number of tries is counted up to."""
    if hook.timeout is not None and not 0 < hook.timeout <= MAX_SECONDS:
        yield f"has a timeout of {hook.timeout:g} s"
    if not 1 <= hook.tries <= MAX_TRIES:
        yield f"has {hook.tries:,} tries; the maximum is {MAX_TRIES}"
    if len(hook.message or "") > MAX_MESSAGE:
        yield f"has a message of more than {MAX_MESSAGE:,} characters"
    if hook.stage is not None and not is_directory_name(hook.stage):
        yield f"is for {hook.stage!r}, which can't be a stage"
    if hook.condition is not None and (problem := condition_problem(hook.condition)):
        yield f"is not valid: {problem}"
    yield from _problems_of_call(hook)


def _problems_of_call(call: Hook | Notification) -> Iterator[str]:
    command = call.script if isinstance(call, Hook) else call.command
    if len(command or "") > MAX_COMMAND or "\0" in (command or ""):
        yield f"has a command of more than {MAX_COMMAND:,} characters, or with a null character"
    if len(call.environment) > MAX_NAMED_VARIABLES or not all(map(is_variable_name, call.environment)):
        yield "names environment variables that can't exist"
    if call.url is not None and not (len(call.url) <= MAX_URL and is_address(call.url)):
        yield "has no valid address"
    if call.secret is not None and not is_variable_name(call.secret):
        yield "names a secret that can't be an environment variable"
