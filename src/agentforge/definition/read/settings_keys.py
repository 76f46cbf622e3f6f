"""The keys of settings files: `.agentforge/config/settings.yaml`, `.agent/config.yml` and the user's own."""

from collections.abc import Iterator
from typing import Any, get_args

from msgspec import Struct

from agentforge.definition.read.artifact_keys import TOKENS
from agentforge.definition.read.check_keys import CAP_KEYS, LIMITS
from agentforge.definition.read.deliver_keys import MODES
from agentforge.definition.read.hook_keys import NOTIFY_KEY
from agentforge.definition.read.table import Entries, Key, MappingSpec, Nested, Table
from agentforge.definition.read.values import (
    FLAG,
    MONEY,
    TEXT,
    TIME_LIMIT,
    Anything,
    Number,
    Schema,
    Text,
    Texts,
    ValueKind,
    as_mapping,
)
from agentforge.definition.read.work_keys import DEFAULT_KEYS, RETRY
from agentforge.definition.report import Report
from agentforge.definition.yaml_tree import Tree, Written, is_null
from agentforge.model.artifact import Strategy
from agentforge.model.diagnostic import USER_PREFIX

TIMEOUT = "_timeout"
"""The end of the key that sets the time limit of a stage."""
TOTAL = "total"
NETWORKS = ("any", "local")

_OF_STAGES = {key.name: key for key in DEFAULT_KEYS}
_RETRIES = RETRY.kind_of_key("stage")


class ById(Struct, frozen=True):
    """A mapping from the ids of stages to values of one kind."""

    kind: ValueKind
    others: tuple[Key, ...] = ()
    """Keys that aren't ids."""

    def read(self, tree: Tree, name: str, report: Report) -> dict[str, Any] | None:
        keyed = as_mapping(tree, name, report)
        kinds = {key.name: key.kind for key in self.others}
        found: dict[str, Any] = {}
        for entry in keyed.entries if keyed else ():
            key = entry.key.text
            if not key.startswith(USER_PREFIX) and not is_null(entry.value):
                found[key] = kinds.get(key, self.kind).read(entry.value, f"`{name.strip('`')}.{key}`", report)
        return found if keyed else None

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        others = {key.name: key.kind.schema(definitions) for key in self.others}
        return {
            "type": "object",
            "properties": others,
            "additionalProperties": self.kind.schema(definitions),
        }


def _stage(entries: Entries) -> MappingSpec:
    steps = entries.get("parallel_steps")
    if steps and steps.value:
        message = "the steps of a stage can't run in parallel: they work on the same files"
        entries.report.error("unsupported", steps.at, message, "remove `parallel_steps`")
    return entries.spec()


STAGE_SETTINGS = Table(
    "stage",
    (
        Key("timeout", TIME_LIMIT, "Maximum seconds per attempt."),
        Key("retry_limit", _RETRIES, "Further tries of the stage when it failed."),
        Key("context_strategy", Text(get_args(Strategy)), "What `${BRIEFING}` tells in the prompt."),
        Key("parallel_steps", FLAG, "Only `false`: the steps of a stage work on the same files."),
        Key("auto_retry_on_failure", FLAG, "`false`: after the verdict `fail`, a person is asked."),
        Key("require_human_approval", FLAG, "Whether a person approves the result of the stage."),
    ),
    _stage,
    prefix="orchestration.stages.",
)

_ORCHESTRATION: Table[MappingSpec] = Table(
    "orchestration",
    (
        Key("step_retry_limit", Number(0, 99, "a whole number", whole=True), "Retries of an iteration."),
        Key("stage_retry_limit", _RETRIES, "Further tries of a stage that failed."),
        Key(
            "cycle_limit", LIMITS.kind_of_key("cycles"), "Maximum number of cycles before a person is asked."
        ),
        Key(
            "token_budget",
            ById(TOKENS.kind_of_key("share"), (Key(TOTAL, TOKENS.kind_of_key("total"), "Of an iteration."),)),
            "The share of each stage in percent, and the `total` of an iteration.",
        ),
        Key("stages", ById(Nested(STAGE_SETTINGS)), "What is for one stage only."),
    ),
    prefix="orchestration.",
)


class Orchestration(Struct, frozen=True):
    """What pipelines with `settings: orchestration` take for their stages: values by dotted keys."""

    def read(self, tree: Tree, name: str, report: Report) -> dict[str, Written[Any]] | None:
        keyed = as_mapping(tree, name, report)
        if keyed is None:
            return None
        timeouts = [entry for entry in keyed.entries if entry.key.text.endswith(TIMEOUT)]
        spec = _ORCHESTRATION.read(keyed, report, skipped=[entry.key.text for entry in timeouts])
        limits = {
            entry.key.text: TIME_LIMIT.read(entry.value, f"`orchestration.{entry.key.text}`", report)
            for entry in timeouts
            if not is_null(entry.value)
        }
        return dict(_flat({**limits, **spec.values}, ""))

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        schema = _ORCHESTRATION.inline_schema(definitions)
        timeouts = {f"{TIMEOUT}$": TIME_LIMIT.schema(definitions)}
        return {**schema, "patternProperties": timeouts}


def _flat(values: dict[str, Any], prefix: str) -> Iterator[tuple[str, Written[Any]]]:
    for name, value in values.items():
        if isinstance(value, Written):
            yield f"{prefix}{name}", value
        elif inner := value.values if isinstance(value, MappingSpec) else value:
            yield from _flat(inner, f"{prefix}{name}.")


def _default_pipeline(entries: Entries) -> MappingSpec:
    if (flag := entries.get("auto_commit")) and flag.value:
        message = "`pipeline.auto_commit` has no effect in this version"
        entries.report.warning("no-effect", flag.at, message, "use `hooks` of a pipeline")
    return entries.spec()


_DEFAULT_PIPELINE: Table[MappingSpec] = Table(
    "pipeline",
    (
        Key("default_type", TEXT, "The pipeline that `run` uses without `-p`: a name or a file."),
        Key(
            "supervised_by_default",
            FLAG,
            "Whether pipelines with `views: [controller]` are supervised if they don't say it themselves.",
        ),
        Key("auto_commit", FLAG, "For tools that deliver what a pipeline made."),
    ),
    _default_pipeline,
    prefix="pipeline.",
)
_LLM: Table[MappingSpec] = Table("llm", (_OF_STAGES["provider"], _OF_STAGES["model"]), prefix="llm.")

SPENDING: Table[MappingSpec] = Table(
    "limits",
    (
        *CAP_KEYS,
        Key("daily_usd", MONEY, "Maximum cost in US dollars of all runs of a day."),
        Key("warn_usd", MONEY, "The cost in US dollars at which a run gives a notice; nothing stops."),
    ),
    prefix="limits.",
    is_closed=True,
)
COST = {"max_per_pipeline_usd": "cost_usd", "max_daily_usd": "daily_usd", "warn_threshold_usd": "warn_usd"}
_COST: Table[MappingSpec] = Table(
    "cost",
    tuple(Key(name, MONEY, f"Another way to write `limits.{short}`.") for name, short in COST.items()),
    prefix="cost.",
    is_closed=True,
)

SETTINGS: Table[Entries] = Table(
    "the settings",
    (
        Key("version", Anything(), "Ignored."),
        Key("pipeline", Nested(_DEFAULT_PIPELINE, short="default_type"), "The default pipeline."),
        _OF_STAGES["provider"],
        _OF_STAGES["model"],
        Key("llm", Nested(_LLM), "Another way to write `provider` and `model`."),
        Key("commands", Texts(), "The project's commands, for checks and the agents' context."),
        NOTIFY_KEY,
        _OF_STAGES["sandbox"],
        Key("network", Text(NETWORKS), "`local`: only providers on this machine."),
        Key("delivery", Text(MODES), "How pipelines without `deliver` deliver what they changed."),
        Key("limits", Nested(SPENDING), "What runs may spend; the lowest of all files counts."),
        Key("cost", Nested(_COST), "Another way to write `limits`."),
        Key("orchestration", Orchestration(), "For pipelines with `settings: orchestration`."),
    ),
    lambda entries: entries,
)
