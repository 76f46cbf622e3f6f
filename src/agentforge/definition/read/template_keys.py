"""Templates: pipeline files whose `stages` are names. Reads them into the spec of any other pipeline."""

from collections.abc import Iterator
from posixpath import basename, splitext
from typing import Any

from msgspec.structs import replace

from agentforge.definition.read.artifact_keys import TOKENS, FieldName
from agentforge.definition.read.check_keys import LIMITS
from agentforge.definition.read.settings_keys import ById
from agentforge.definition.read.table import Entries, Key, MappingSpec, Nested, Table, mapping_of
from agentforge.definition.read.values import (
    COMMAND,
    COUNT,
    FLAG,
    MONEY,
    PROSE,
    TEXT,
    TIME_LIMIT,
    ListOf,
    Required,
    Text,
    as_data,
    refuse_control_characters,
)
from agentforge.definition.read.work_keys import (
    DEFAULT_KEYS,
    EXECUTOR,
    GUARDRAILS,
    RETRY,
    supervised_approval,
)
from agentforge.definition.report import Report, SourceText
from agentforge.definition.specs import (
    HookSpec,
    InputsSpec,
    NodeSpec,
    PipelineSpec,
    RouteSpec,
    StageFile,
    WorkSpec,
)
from agentforge.definition.yaml_tree import Entry, Keyed, Listed, Scalar, Tree, Written, shown
from agentforge.model.diagnostic import USER_PREFIX, SourcePlace, choice, did_you_mean, is_misspelled
from agentforge.model.hook import Hook, HookPoint
from agentforge.model.plan import END, PASS
from agentforge.model.plan_limits import MAX_FIELDS, VIEWS

# A template has no compiler of its own: each of its keys becomes a value of the keys that other pipelines
# have, at the place where it is written. So rules about merged values point at the line of the template.

ATTEMPTS = 3
SECONDS = 3600.0
"""Of a template that has no `timeout_seconds`."""
_AS = {"pause": "ask"}
"""Values of `exit_conditions` that a pipeline spells differently."""


EXECUTION: Table[MappingSpec] = Table(
    "execution",
    (
        Key("timeout_seconds", TIME_LIMIT, "Maximum seconds per attempt."),
        Key("max_iterations", COUNT, "How often a result is shown for approval."),
        Key("max_tokens", TOKENS.kind_of_key("total"), "How many tokens an iteration may be given."),
    ),
    name="execution",
    prefix="execution.",
)


def _stage_file(entries: Entries) -> StageFile:
    execution = entries.get("execution") or MappingSpec(EXECUTION, entries.at)
    values = {
        "timeout": execution.get("timeout_seconds"),
        "approve": supervised_approval(execution.get("max_iterations")),
        "tokens": mapping_of(TOKENS, total=execution.get("max_tokens")),
        "escalation_timeout": entries.get("escalation_timeout"),
        "executor": mapping_of(EXECUTOR, config=_data(entries)),
    }
    given = {name: value for name, value in values.items() if value is not None}
    return StageFile(entries.at, entries.get("enabled"), WorkSpec(given))


def _data(entries: Entries) -> Written[dict[str, Any]] | None:
    """The other keys: they are for the executor of the stage, which knows their names."""
    known = (*(key.name for key in STAGE_FILE.keys), "tools")
    found: list[Entry] = []
    for name, entry in entries.written.items():
        if name.startswith(USER_PREFIX):
            continue
        if name == "tools" or (name not in known and not is_misspelled(name, known)):
            found.append(entry)
        elif name not in known:
            message = f"unknown key {shown(name)} in {STAGE_FILE.where}"
            entries.report.error("unknown-key", entry.key.at, message, did_you_mean(name, known))
    data = as_data(Keyed(entries.at, tuple(found)), f"the {STAGE_FILE.where}", entries.report)
    return Written(data, found[0].key.at) if found else None


STAGE_FILE: Table[StageFile] = Table(
    "stage configuration",
    (
        Key("enabled", FLAG, "`false`: the stage is left out."),
        Key("execution", Nested(EXECUTION), "The limits of the stage."),
        Key("escalation_timeout", TIME_LIMIT, "Seconds to wait for the answer to a question."),
    ),
    _stage_file,
    name="stageConfiguration",
    is_open=True,
)

DEFAULTS: Table[MappingSpec] = Table(
    "defaults of the template",
    (
        Key("supervised", FLAG, "Whether a person approves the result of every stage."),
        Key("iteration_enabled", FLAG, "`false`: a rejection ends the run."),
        Key("max_iterations_per_stage", COUNT, "How often a result is shown for approval."),
        Key("timeout_seconds", TIME_LIMIT, "Maximum runtime in seconds; an hour by default."),
        Key("exit_after", TEXT, "The stage after which the run ends."),
    ),
    name="templateDefaults",
    prefix="defaults.",
)
EXIT_CONDITIONS: Table[MappingSpec] = Table(
    "exit_conditions",
    (
        Key("on_escalation", Text(("pause", "fail", "skip")), "What follows a question of a stage."),
        Key("on_timeout", Text(("pause", "fail")), "What happens at the runtime limit."),
        Key("max_total_cost_usd", MONEY, "Maximum cost in US dollars; at the cap, a person is asked."),
    ),
    name="exitConditions",
    prefix="exit_conditions.",
)
_COMMANDS = ListOf(COMMAND, or_one=True)
_POINTS: dict[str, HookPoint] = {"on_stage_complete": "stage_end", "on_pipeline_complete": "session_end"}
HOOKS: Table[tuple[HookSpec, ...]] = Table(
    "hooks of the template",
    (
        Key("on_stage_complete", _COMMANDS, "Commands that run after each stage."),
        Key("on_pipeline_complete", _COMMANDS, "Commands that run before the run completes."),
    ),
    lambda entries: tuple(_hooks(entries)),
    name="templateHooks",
    prefix="hooks.",
)


def _hooks(entries: Entries) -> Iterator[HookSpec]:
    from agentforge.definition.conditions import parse_condition  # Loads Lark.

    for name, point in _POINTS.items():
        for command in entries.get(name, ()):
            at = entries.written[name].key.at
            if point == "session_end":  # Then there is nothing left to pause.
                hook = Hook("", point, "script", script=command, on_timeout="continue", on_failure="continue")
                yield HookSpec(at, hook)
            else:
                completed = parse_condition(Written('status == "completed"', at), entries.report)
                condition = Written(completed, at) if completed else None
                yield HookSpec(at, Hook("", point, "script", script=command), condition=condition)


_STAGES = Required(("stages",), "empty pipeline: it has no stages", "name at least one", "empty-pipeline")
_OF_OTHERS = {
    *(key.name for key in DEFAULT_KEYS),
    *("inputs", "request", "require", "settings", "network", "commands", "guardrails", "limits"),
    *("views", "notify", "nodes"),
}
TEMPLATE: Table[Entries] = Table(
    "template",
    (
        Key("name", TEXT, "The pipeline's name; defaults to the file name."),
        Key("description", PROSE, "What the pipeline is for; `agentforge pipelines` shows it."),
        Key("version", TEXT, "A version for people; `dry-run` shows it."),
        Key("stages", ListOf(TEXT, required=_STAGES), "The names of the stages, in order."),
        Key("defaults", Nested(DEFAULTS), "How the stages run."),
        Key("stage_config", ById(Nested(STAGE_FILE)), "What is for one stage only."),
        Key("exit_conditions", Nested(EXIT_CONDITIONS), "When the run stops or asks."),
        Key("hooks", Nested(HOOKS), "Commands that run at points of the run."),
        Key(
            "required_context",
            ListOf(FieldName(), or_one=True, longest=MAX_FIELDS),
            "The fields that the artifact must have with which the run is started.",
        ),
    ),
    lambda entries: entries,
    required=(_STAGES,),
    misplaced=dict.fromkeys(_OF_OTHERS, "a template has no such key: list `nodes` in place of `stages`"),
)
_ONLY_HERE = ("stage_config", "exit_conditions", "required_context")


def is_template(tree: Keyed) -> bool:
    """Whether it lists names of stages; an empty list may be one of either form."""
    values: dict[str, Tree] = {entry.key.text: entry.value for entry in tree.entries}
    stages = values.get("stages")
    if "nodes" in values or not isinstance(stages, Listed):
        return False
    if stages.items:
        return any(isinstance(item, Scalar) for item in stages.items)
    return any(name in values for name in _ONLY_HERE)


def read_template(source: SourceText, tree: Keyed, report: Report) -> PipelineSpec:
    entries = TEMPLATE.read(tree, report)
    refuse_control_characters(source.file, "the path of the file", source.start, report)
    get = entries.get
    defaults: MappingSpec = get("defaults") or MappingSpec(DEFAULTS, tree.at)
    exits: MappingSpec = get("exit_conditions") or MappingSpec(EXIT_CONDITIONS, tree.at)
    stages: tuple[Written[str], ...] = get("stages", ())
    _validate(stages, defaults.get("exit_after"), entries)
    files: dict[str, StageFile | None] = get("stage_config", {})
    nodes = [_node(stage, files.get(stage.value), defaults.get("exit_after")) for stage in stages]
    if nodes and (needed := get("required_context")):
        inputs = InputsSpec({"artifact": [field.value for field in needed]}, artifact=needed)
        nodes[0] = replace(nodes[0], inputs=inputs)
    name = get("name")
    return PipelineSpec(
        source,
        name.value if name else splitext(basename(source.file))[0],
        tuple(nodes),
        levels=tuple(_levels(defaults, exits, source.start)),
        values=_values(entries, defaults, exits, source.start),
        hooks=get("hooks", ()),
    )


def _levels(defaults: MappingSpec, exits: MappingSpec, start: SourcePlace) -> Iterator[WorkSpec]:
    """Approvals are switched before the keys that they have in a supervised run, which are kept."""
    values = {
        "retry": mapping_of(RETRY, max_attempts=Written(ATTEMPTS, start)),
        "approve": defaults.get("supervised"),
        "on_escalation": _spelled(exits.get("on_escalation")),
    }
    yield WorkSpec({name: value for name, value in values.items() if value is not None})
    rounds, feedback = defaults.get("max_iterations_per_stage"), defaults.get("iteration_enabled")
    if how := supervised_approval(rounds, feedback):
        yield WorkSpec({"approve": how})


def _values(
    entries: Entries, defaults: MappingSpec, exits: MappingSpec, start: SourcePlace
) -> dict[str, Any]:
    """What other pipelines say at the top."""
    limit = defaults.get("timeout_seconds") or Written(SECONDS, start)
    then = _spelled(exits.get("on_timeout"))
    values = {
        "description": entries.get("description"),
        "version": entries.get("version"),
        "request": Written("required", start),
        "views": tuple(Written(view, start) for view in VIEWS),
        "guardrails": mapping_of(GUARDRAILS, max_runtime_seconds=limit, on_timeout=then),
        "limits": mapping_of(LIMITS, cost_usd=exits.get("max_total_cost_usd")),
    }
    return {name: value for name, value in values.items() if value is not None}


def _node(stage: Written[str], file: StageFile | None, last: Written[str] | None) -> NodeSpec:
    work = dict(file.work.values) if file else {}
    if last and last.value == stage.value:
        work["on"] = (RouteSpec(Written(PASS, last.at), Written(END, last.at)),)
    return NodeSpec(stage.at, stage, stage, WorkSpec(work), enabled=file.enabled if file else None)


def _validate(stages: tuple[Written[str], ...], last: Written[str] | None, entries: Entries) -> None:
    report, names = entries.report, [stage.value for stage in stages]
    if last and names and last.value not in names:
        message = f"`defaults.exit_after` names {shown(last.value)}, which is not a stage of the template"
        report.error("unknown-stage", last.at, message, choice(last.value, "stages", names))
    if "green" in names and "red" not in names:
        message = "`green` makes the tests pass that `red` writes, and the template has no stage `red`"
        at = stages[names.index("green")].at
        report.warning("no-tests", at, message, "add `red` before it, or start the run with its artifact")
    configured = entries.tree("stage_config")
    for entry in configured.entries if isinstance(configured, Keyed) else ():
        if entry.key.text not in names:
            message = (
                f"`stage_config` has no effect on {shown(entry.key.text)}: the template has no such stage"
            )
            hint = choice(entry.key.text, "stages", names)
            report.warning("unknown-stage", entry.key.at, message, hint)


def _spelled(word: Written[str] | None) -> Written[str] | None:
    return word and Written(_AS.get(word.value, word.value), word.at)
