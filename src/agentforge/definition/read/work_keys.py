"""The keys that say how work is done: a node, its stage.yaml and a pipeline's defaults share them."""

from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.diagnostics import Report
from agentforge.definition.provider_settings import validate_settings
from agentforge.definition.read.table import Entries, Key, Nested, Table
from agentforge.definition.read.values import (
    COUNT,
    FLAG,
    SECONDS,
    SOME_TEXTS,
    TEXT,
    TIME_LIMIT,
    Flag,
    ListOf,
    Number,
    Required,
    Schema,
    Text,
    Texts,
    as_data,
    as_mapping,
)
from agentforge.definition.specs import (
    KINDS,
    LimitSpec,
    ProviderSpec,
    RetrySpec,
    SandboxSpec,
    TerminationSpec,
    WorkSpec,
    Written,
)
from agentforge.definition.yaml.tree import Keyed, Tree
from agentforge.model.plan import SANDBOXES, OnLimit, Semantics

LATER = frozenset(
    (
        *("approve", "artifact", "checks", "context_strategy", "executor", "hooks", "limits", "network"),
        *("on", "setup", "views", "workspace"),
    )
)
# How the older form of stages spells its terminations.
_COMPLETIONS = {"beads-empty": "queue", "plateau": "judgment", "fixed-n": "fixed"}
_MINIMUM = replace(COUNT, low=0)


class SettingsKind(Struct, frozen=True):
    """A provider's own settings, passed on as they stand."""

    def read(self, tree: Tree, name: str, report: Report) -> dict[str, Any] | None:
        keyed = as_mapping(tree, name, report)
        return read_settings(keyed, report) if keyed else None

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"type": "object"}


def read_settings(keyed: Keyed, report: Report, but: tuple[Key, ...] = ()) -> dict[str, Any]:
    """`but` are keys that aren't settings."""
    validate_settings(keyed, report)
    known = {key.name for key in but}
    return {
        entry.key.text: as_data(entry.value, f"`{entry.key.text}`", report)
        for entry in keyed.entries
        if entry.key.text not in known
    }


def _provider(entries: Entries) -> ProviderSpec:
    config = read_settings(entries.keyed, entries.report, but=PROVIDER.keys)
    return ProviderSpec(entries.get("type") or entries.get("name"), entries.get("model"), config)


PROVIDER = Table(
    "provider",
    (
        Key("type", TEXT, "Which provider: `claude`, `codex`, `command`, …"),
        Key("name", TEXT, "Another word for `type`."),
        Key("model", TEXT, "The provider's model."),
    ),
    _provider,
    name="provider",
    required=(Required(("type", "name"), "`provider` has no `type`", "add `type: claude` or another"),),
    is_open=True,
)

TERMINATION = Table(
    "termination",
    (
        Key("type", Text(proposed=KINDS), "What ends the stage."),
        Key("max", COUNT, "The most iterations."),
        Key("iterations", COUNT, "Another word for `max`."),
        Key("min_iterations", _MINIMUM, "`judgment`: not judged before."),
        Key("consensus", COUNT, "`judgment`: so many stops in a row."),
        Key("check_before", FLAG, "`queue`: look at it before the first iteration, too."),
        Key("command", TEXT, "`queue`: what lists the tasks."),
    ),
    lambda entries: TerminationSpec(**entries.values),
    name="termination",
    prefix="termination.",
    later=frozenset(("items", "from", "judge")),
)

RETRY = Table(
    "retry",
    (
        Key("max_attempts", Number(1, 100, "a whole number", whole=True), "Attempts at one iteration."),
        Key("initial_delay", SECONDS, "Seconds before the second attempt."),
        Key("multiplier", Number(1, 100), "How the delay grows from attempt to attempt."),
        Key("max_delay", SECONDS, "Seconds that a delay lasts at most."),
    ),
    lambda entries: RetrySpec(**entries.values),
    name="retry",
    prefix="retry.",
)

LIMIT = Table(
    "on_limit",
    (
        Key("do", Text(get_args(OnLimit)), "Wait, let the next provider take over, or fail."),
        Key("initial_delay", SECONDS, "Where the provider doesn't say until when; doubled each time."),
        Key("max_delay", SECONDS, "Seconds that such a delay lasts at most."),
        Key("max_wait", SECONDS, "A longer wait asks a person instead."),
    ),
    lambda entries: LimitSpec(**entries.values),
    name="onLimit",
    prefix="on_limit.",
)


def _sandbox(entries: Entries) -> SandboxSpec:
    spec, report = SandboxSpec(entries.at, **entries.values), entries.report
    kind = spec.type.value if spec.type else ""
    if kind == "docker" and spec.image is None:
        hint = "write `sandbox: {type: docker, image: …}`"
        report.error("missing-key", spec.at, "the docker sandbox has no `image`", hint)
    if kind != "docker" and spec.image:
        report.warning("ignored-key", spec.image.at, "`image` is for the docker sandbox", "remove it")
    if kind == "none":
        hint = "choose what confines the agent: `type: bwrap` or `type: docker`"
        if spec.network and not spec.network.value:
            report.error("bad-value", spec.network.at, "`network: off` requires a sandbox", hint)
        if spec.hidden:
            report.error("bad-value", spec.hidden[0].at, "`hidden` requires a sandbox", hint)
    return spec


SANDBOX = Table(
    "sandbox",
    (
        Key("type", Text(SANDBOXES), "What confines the agent."),
        Key("network", Flag(switch=True), "Whether the agent has a network."),
        Key("image", TEXT, "`docker`: the image that the agent runs in."),
        Key("writable", SOME_TEXTS, "Further paths that agents may write to."),
        Key("hidden", SOME_TEXTS, "Further paths that agents don't see."),
    ),
    _sandbox,
    name="sandbox",
    prefix="sandbox.",
    required=(Required(("type",), "`sandbox` has no `type`", "add `type: bwrap` or `type: docker`"),),
)

GUARDRAILS: Table[Written[float] | None] = Table(
    "guardrails",
    (Key("max_runtime_seconds", TIME_LIMIT, "After so many seconds the run pauses and asks."),),
    lambda entries: entries.get("max_runtime_seconds"),
    name="guardrails",
    prefix="guardrails.",
)

_NAMED = Required(("provider",), "`provider` is an empty list", "name one or more: `[claude, codex]`")

DEFAULT_KEYS = (
    Key(
        "provider",
        ListOf(Nested(PROVIDER, short="type"), or_one=True, required=_NAMED),
        "Who does the work. In a list the next takes over when one can't work.",
    ),
    Key("provider_config", SettingsKind(), "The provider's own settings."),
    Key("model", TEXT, "The provider's model."),
    Key("delay", SECONDS, "Seconds between iterations."),
    Key("timeout", TIME_LIMIT, "Seconds for one attempt."),
    Key("idle_timeout", TIME_LIMIT, "Seconds without any output."),
    Key("retry", Nested(RETRY), "How often and when a failed attempt is made again."),
    Key("on_limit", Nested(LIMIT, short="do"), "What to do at a quota or a rate limit."),
    Key(
        "semantics",
        Text(get_args(Semantics)),
        "`at_most_once`: ask a person before an attempt that failed is made again.",
    ),
    Key("sandbox", Nested(SANDBOX, short="type"), "What the agent is confined by."),
)

WORK_KEYS = (
    *DEFAULT_KEYS,
    Key("description", TEXT, "What the stage is for."),
    Key("prompt", TEXT, "In a node: the prompt itself. In stage.yaml: its file."),
    Key("context", TEXT, "What `${CONTEXT}` in the prompt stands for."),
    Key("output_path", TEXT, "Where the agent is asked to write; `${SESSION}` is filled in."),
    Key("commands", Texts(), "The project's commands, over those of the pipeline, key by key."),
    Key("runs", Nested(TERMINATION, plain=COUNT), "How many iterations; a mapping is a termination."),
    Key("termination", Nested(TERMINATION), "When the stage ends."),
    Key("check_before", FLAG, "`queue`: look at it before the first iteration, too."),
    Key("completion", Text(proposed=tuple(_COMPLETIONS)), "Now `termination`.", deprecated=True),
    Key("min_iterations", _MINIMUM, "Now in `termination`.", deprecated=True),
    Key("consensus", COUNT, "Now in `termination`.", deprecated=True),
    Key("guardrails", Nested(GUARDRAILS), "Limits of the stage."),
)


def build_work(entries: Entries) -> WorkSpec:
    """Keys that mean something only together are put together; all others are the spec's fields."""
    values = dict(entries.values)
    chain, model = values.pop("provider", ()), values.pop("model", None)
    config = values.pop("provider_config", {})
    first = replace(chain[0], fallbacks=chain[1:]) if chain else ProviderSpec()
    if chain or model or config:
        values["provider"] = replace(first, model=model or first.model, config=first.config | config)
    values["max_runtime"] = values.pop("guardrails", None)
    runs, termination = values.pop("runs", None), values.pop("termination", None)
    if isinstance(runs, TerminationSpec):
        if termination:
            message = "`runs` must be a whole number beside `termination`, not a mapping"
            entries.report.error("bad-type", entries.written["runs"].value.at, message)
        runs, termination = None, termination or runs
    older = {name: values.pop(name, None) for name in ("min_iterations", "consensus")}
    completion = values.pop("completion", None)
    if completion and termination is None:
        kind = Written(_COMPLETIONS.get(completion.value, completion.value), completion.at)
        termination = TerminationSpec(kind, **older)
    else:
        for name in (name for name, value in older.items() if value):
            message = f"`{name}` belongs to the older `completion` and has no effect here"
            at = entries.written[name].key.at
            entries.report.warning("ignored-key", at, message, hint="move it into `termination`")
    return WorkSpec(runs=runs, termination=termination, **values)
