"""The keys that say how work is done: a node, its stage.yaml and a pipeline's defaults share them."""

from collections.abc import Sequence
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.read.artifact_keys import (
    ARTIFACT_KEYS,
    OTHER_NAMES_OF_ARTIFACTS,
    FieldName,
    artifacts_elsewhere,
)
from agentforge.definition.read.check_keys import CHECK_KEYS, PER_ATTEMPT
from agentforge.definition.read.deliver_keys import DELIVER_KEY
from agentforge.definition.read.provider_settings import merge_settings, validate_settings
from agentforge.definition.read.table import (
    Entries,
    Key,
    MappingSpec,
    Nested,
    Table,
    by_key,
    mapping_of,
    unique,
)
from agentforge.definition.read.values import (
    COUNT,
    FLAG,
    MODEL,
    MONEY,
    PROSE,
    SECONDS,
    SOME_TEXTS,
    TEXT,
    TIME_LIMIT,
    TOKENS,
    Flag,
    ListOf,
    Name,
    Number,
    Required,
    Schema,
    Text,
    Texts,
    as_data,
    as_mapping,
)
from agentforge.definition.report import Report
from agentforge.definition.specs import PromptFile, ProviderSpec, WorkSpec
from agentforge.definition.yaml_tree import Keyed, Tree, Written
from agentforge.model.plan import (
    PASS,
    SANDBOXES,
    Approval,
    Fixed,
    Guardrails,
    Items,
    Judgment,
    LimitPolicy,
    OnEscalation,
    OnExhausted,
    OnLimit,
    OnRuntime,
    OnTimeout,
    Queue,
    RetryFor,
    RetryPolicy,
    SandboxChoice,
    Semantics,
    Termination,
)
from agentforge.model.plan_limits import MAX_FIELDS, MAX_MESSAGE
from agentforge.model.request import Answerer

# Keys of the specification that this version doesn't have. They are refused, as they bound what agents may do
# or decide what they get: ignoring one would run something else than what the file says.
UNSUPPORTED = frozenset(("network", "setup", "workspace"))
# Termination types of the older stage format.
_COMPLETIONS = {"beads-empty": "queue", "plateau": "judgment", "fixed-n": "fixed"}
_MINIMUM = replace(COUNT, low=0)
SUPERVISED = "supervised"
"""Of `approve.when`."""
FIXED = "fixed"
ITEMS = "items"
TERMINATIONS: dict[str, type[Termination]] = {
    FIXED: Fixed,
    "judgment": Judgment,
    "queue": Queue,
    ITEMS: Items,
}
"""The plan of each type; its fields say which keys the type has."""


class SettingsKind(Struct, frozen=True):
    """Provider settings, passed on unchanged."""

    def read(self, tree: Tree, name: str, report: Report) -> ProviderSpec | None:
        keyed = as_mapping(tree, name, report)
        return read_settings(keyed, report) if keyed else None

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"type": "object"}


class Data(Struct, frozen=True):
    """A mapping of the user's own data."""

    def read(self, tree: Tree, name: str, report: Report) -> Written[dict[str, Any]] | None:
        keyed = as_mapping(tree, name, report)
        return Written(as_data(keyed, name, report), keyed.at) if keyed else None

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"type": "object"}


def read_settings(keyed: Keyed, report: Report, but: tuple[Key, ...] = ()) -> ProviderSpec:
    """Only the settings; `but` are keys that aren't some."""
    validate_settings(keyed, report)
    known = {key.name for key in but}
    given = {entry.key.text: entry for entry in keyed.entries if entry.key.text not in known}
    return ProviderSpec(
        config={name: as_data(entry.value, f"`{name}`", report) for name, entry in given.items()},
        places={name: entry.key.at for name, entry in given.items()},
    )


def _provider(entries: Entries) -> ProviderSpec:
    settings = read_settings(entries.keyed, entries.report, but=PROVIDER.keys)
    return replace(settings, type=entries.get("type") or entries.get("name"), model=entries.get("model"))


PROVIDER = Table(
    "provider",
    (
        Key("type", TEXT, "Which provider: `claude`, `codex`, `command`, …"),
        Key("name", TEXT, "Alias of `type`."),
        Key("model", MODEL, "The provider's model."),
    ),
    _provider,
    name="provider",
    required=(Required(("type", "name"), "`provider` has no `type`", "add `type: claude` or another"),),
    misplaced={
        **artifacts_elsewhere("put it beside `provider`"),
        **dict.fromkeys(("limits", *PER_ATTEMPT), "put it beside `provider`"),
    },
    is_open=True,
)

TERMINATION: Table[MappingSpec] = Table(
    "termination",
    (
        Key("type", Text(proposed=tuple(TERMINATIONS)), "The termination type of the stage."),
        Key("max", COUNT, "Maximum number of iterations."),
        Key("iterations", COUNT, "Alias of `max`.", field=None),
        Key(
            "until",
            Text((PASS,)),
            "`fixed`: `pass`, end after the first iteration with the verdict `pass`.",
            field="until_pass",
            lower=bool,
        ),
        Key("min_iterations", _MINIMUM, "`judgment`: the first iteration that is judged."),
        Key("consensus", COUNT, "`judgment`: number of consecutive stop decisions required."),
        Key("check_before", FLAG, "`queue`: also check it before the first iteration."),
        Key("command", PROSE, "`queue`: command that lists the tasks."),
        Key("from", TEXT, "`items`: the list, as NODE.FIELD or initial.FIELD.", field="source"),
        Key("criteria", FieldName(), "`items`: the field of an item with criteria that the engine verifies."),
    ),
    name="termination",
    prefix="termination.",
    unsupported=frozenset(("judge",)),
    misplaced={"items": "write `type: items` and `from: NODE.FIELD`"},
)

RETRY: Table[MappingSpec] = Table(
    "retry",
    (
        Key("max_attempts", Number(1, 100, "a whole number", whole=True), "Maximum attempts per iteration."),
        Key("initial_delay", SECONDS, "Seconds before the second attempt."),
        Key("multiplier", Number(1, 100), "Factor by which the delay grows per attempt."),
        Key("max_delay", SECONDS, "Maximum delay in seconds."),
        Key("stage", Number(0, 10, "a whole number", whole=True), "Further tries of a stage that failed."),
        Key(
            "for",
            Text(get_args(RetryFor)),
            "The failures that are retried: `transient` or `any`.",
            field="retried",
        ),
        Key("exhausted", Text(get_args(OnExhausted)), "When no try is left: `fail`, or `ask` a person."),
    ),
    plan=RetryPolicy,
    name="retry",
    prefix="retry.",
)

LIMIT: Table[MappingSpec] = Table(
    "on_limit",
    (
        Key("do", Text(get_args(OnLimit)), "Wait, use the next provider, or fail."),
        Key(
            "initial_delay",
            SECONDS,
            "Seconds to wait if the provider reports no reset time; doubles each time.",
        ),
        Key("max_delay", SECONDS, "Maximum for that delay, in seconds."),
        Key("max_wait", SECONDS, "Maximum total wait in seconds; beyond it a person is asked."),
    ),
    plan=LimitPolicy,
    name="onLimit",
    prefix="on_limit.",
)


def _sandbox(entries: Entries) -> MappingSpec:
    spec, report = entries.spec(), entries.report
    kind = spec.get("type").value if spec.get("type") else ""
    image, network, hidden = spec.get("image"), spec.get("network"), spec.get("hidden")
    if kind == "docker" and image is None:
        hint = "write `sandbox: {type: docker, image: …}`"
        report.error("missing-key", spec.at, "the docker sandbox has no `image`", hint)
    if kind != "docker" and image:
        report.warning("ignored-key", image.at, "`image` is only used by the docker sandbox", "remove it")
    if kind in ("none", "auto"):
        hint, why = "use `type: bwrap` or `type: docker`", "requires a sandbox"
        why += ", and `auto` may find none" if kind == "auto" else ""
        if network and not network.value:
            report.error("bad-value", network.at, f"`network: off` {why}", hint)
        if hidden:
            report.error("bad-value", hidden[0].at, f"`hidden` {why}", hint)
    return spec


SANDBOX = Table(
    "sandbox",
    (
        Key("type", Text(SANDBOXES), "The sandbox type; `auto`: bwrap where it works, else none."),
        Key("network", Flag(switch=True), "Whether the agent has network access."),
        Key("image", TEXT, "`docker`: the image that the agent runs in."),
        Key("writable", SOME_TEXTS, "Additional paths that agents may write to."),
        Key("hidden", SOME_TEXTS, "Additional paths that are hidden from agents."),
    ),
    _sandbox,
    SandboxChoice,
    name="sandbox",
    prefix="sandbox.",
    required=(Required(("type",), "`sandbox` has no `type`", "add `type: bwrap` or `type: docker`"),),
)

GUARDRAILS: Table[MappingSpec] = Table(
    "guardrails",
    (
        Key("max_runtime_seconds", TIME_LIMIT, "Maximum runtime in seconds."),
        Key(
            "on_timeout",
            Text(get_args(OnRuntime)),
            "What happens then: `ask` a person, or `fail`.",
            shown="At the runtime limit: {}",
        ),
    ),
    plan=Guardrails,
    name="guardrails",
    prefix="guardrails.",
)

APPROVAL: Table[MappingSpec] = Table(
    "approve",
    (
        Key(
            "message",
            Text(prose=True, longest=MAX_MESSAGE),
            "The question that is asked.",
            shown="Question: {}",
        ),
        Key("by", Text(get_args(Answerer)), "`agent`: an agent that isn't part of the run may answer, too."),
        Key("timeout", TIME_LIMIT, "Seconds until an answer is due."),
        Key("on_timeout", Text(get_args(OnTimeout)), "What happens then; `wait` keeps waiting."),
        Key("rounds", COUNT, "How often the result is shown; a rejection in the last round escalates."),
        Key("feedback", FLAG, "`false`: a rejection ends the run, also one with a text."),
        Key(
            "when",
            Text(("always", SUPERVISED)),
            "`supervised`: only in a supervised run; the other keys count where approvals are on.",
            field=None,
        ),
    ),
    plan=Approval,
    name="approve",
    prefix="approve.",
)


def _approval(values: Sequence[MappingSpec | Written[bool]]) -> MappingSpec | None:
    """A mapping or `true` switches approvals on, with the keys of weaker levels; `false` switches them off,
    and discards these keys. A mapping for supervised runs has keys, and switches nothing."""
    merged, is_on = MappingSpec(APPROVAL, values[-1].at), False
    for value in values:
        if isinstance(value, MappingSpec):
            when = value.get("when")
            is_on = is_on or when is None or when.value != SUPERVISED
            merged = by_key([merged, value])
        else:
            is_on = value.value
            merged = merged if is_on else MappingSpec(APPROVAL, value.at)
    return merged if is_on else None


_NAMED_CLASS = r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*"


def supervised_approval(
    rounds: Written[int] | None, feedback: Written[bool] | None = None
) -> MappingSpec | None:
    """How results are approved in a supervised run."""
    how = mapping_of(APPROVAL, rounds=rounds, feedback=feedback)
    return how and replace(how, values={"when": Written(SUPERVISED, how.at), **how.values})


EXECUTOR: Table[MappingSpec] = Table(
    "executor",
    (
        Key("python", Name(_NAMED_CLASS, "MODULE:CLASS", "for example `tools.stages:Lint`"), "The class."),
        Key("config", Data(), "What an instance of the class is given."),
    ),
    name="executor",
    prefix="executor.",
    required=(Required(("python",), "`executor` has no `python`", "add `python: MODULE:CLASS`"),),
)


def _executor(values: Sequence[MappingSpec]) -> MappingSpec:
    """The class of the strongest level, with the merged data of all."""
    merged: MappingSpec = by_key(values)
    given = [value.get("config") for value in values if value.get("config")]
    if not given:
        return merged
    data: dict[str, Any] = {}
    for one in given:
        data = merge_settings(data, one.value)
    return replace(merged, values={**merged.values, "config": Written(data, given[-1].at)})


PROMPT: Table[PromptFile | None] = Table(
    "prompt",
    (Key("file", TEXT, "In a node: a prompt file, relative to the pipeline file."),),
    lambda entries: PromptFile(entries.values["file"]) if "file" in entries.values else None,
    name="promptFile",
    prefix="prompt.",
    required=(Required(("file",), "`prompt` has no `file`", "write `prompt: {file: PATH}`, or the text"),),
)

# The same key means different things in different mappings, or nothing. Where a reader might expect it to
# work, it is refused with the place where it does; a warning would scroll by.
_TOP = "put it at the top of the pipeline file"
_OF_PIPELINE = {
    "views": _TOP,
    "require": _TOP,
    "settings": _TOP,
    "hooks": f"{_TOP}; a hook's `stage` names the node that it is for",
}
OF_PIPELINE = {**_OF_PIPELINE, "notify": _TOP}
NOT_FOR_STAGES = {"checkpoint": "put it on the node that runs the stage", **_OF_PIPELINE}


def other_names(runs: str, retries: str) -> dict[str, str]:
    """What other tools call `runs` and `retry`, with the hint what to write instead."""
    return {
        **dict.fromkeys(
            ("max", "iterations", "max_iterations", "max_runs", "times", "count", "repeat"), runs
        ),
        **OTHER_NAMES_OF_ARTIFACTS,
        **dict.fromkeys(("retries", "max_retries", "attempts", "max_attempts"), retries),
    }


OTHER_NAMES = other_names("the maximum number of iterations is `runs`", "use `retry.max_attempts`")
OTHER_NAMES_ABOVE = other_names(
    "put `runs` on a node: it is the maximum number of its iterations", "use `retry.max_attempts`"
)

_NAMED = Required(("provider",), "`provider` is an empty list", "name one or more: `[claude, codex]`")

DEFAULT_KEYS = (
    Key(
        "provider",
        ListOf(Nested(PROVIDER, short="type"), or_one=True, required=_NAMED),
        "The provider, or a list of a provider and its fallbacks.",
        field=None,
    ),
    Key("provider_config", SettingsKind(), "Provider-specific settings.", field=None),
    Key("model", MODEL, "The provider's model.", field=None),
    Key("delay", SECONDS, "Seconds between iterations.", shown="Delay: {:g} s between iterations"),
    Key("timeout", TIME_LIMIT, "Maximum seconds per attempt.", shown="Limits: {} for an attempt"),
    Key("idle_timeout", TIME_LIMIT, "Maximum seconds without output.", shown="Limits: {} without output"),
    Key(
        "retry",
        Nested(RETRY, shape="write `retry: {max_attempts: 3}`"),
        "How failed attempts are retried.",
        merge=by_key,
    ),
    Key("on_limit", Nested(LIMIT, short="do"), "What to do at a quota or rate limit.", merge=by_key),
    Key(
        "semantics",
        Text(get_args(Semantics)),
        "`at_most_once`: ask a person before retrying a failed attempt.",
    ),
    Key(
        "on_escalation",
        Text(get_args(OnEscalation)),
        "What follows a question of the agent: `ask` a person, `fail` the stage, or `skip` it.",
        shown="At a question: {}",
    ),
    Key(
        "escalation_timeout",
        TIME_LIMIT,
        "Seconds that a program that handles its questions waits for an answer.",
        shown="Limits: {} for an answer to a program",
    ),
    Key(
        "max_iteration_cost_usd",
        MONEY,
        "Maximum cost in US dollars of an attempt, and of a call of the judge.",
        shown="Limits: {:usd} for an attempt",
    ),
    Key(
        "max_iteration_tokens",
        TOKENS,
        "Maximum number of tokens of an attempt, and of a call of the judge.",
        shown="Limits: {:,} tokens for an attempt",
    ),
    Key("sandbox", Nested(SANDBOX, short="type"), "The sandbox of the agent."),
    Key(
        "approve",
        Nested(APPROVAL, plain=Flag(mapping=", ".join(f"`{key.name}`" for key in APPROVAL.keys))),
        "Whether someone approves the result of a stage before the run continues.",
        merge=_approval,
        lower=lambda spec: Approval(**spec.fields()),
    ),
    Key(
        "result_instructions",
        Flag(switch=True),
        "Whether a prompt that names neither `${RESULT}` nor `${STATUS}` is extended to ask for the result.",
    ),
    *ARTIFACT_KEYS,
)

WORK_KEYS = (
    *DEFAULT_KEYS,
    Key("description", PROSE, "What the stage is for."),
    Key(
        "prompt",
        Nested(PROMPT, plain=PROSE),
        "In a node: the prompt text, or `{file: PATH}`. In stage.yaml: the prompt file.",
        field=None,
    ),
    Key(
        "executor",
        Nested(EXECUTOR, shape="write `executor: {python: MODULE:CLASS}`"),
        "The Python class that runs the stage, in place of an agent.",
        field=None,
        merge=_executor,
    ),
    Key("context", PROSE, "The value of `${CONTEXT}` in the prompt.", shown="Context: {}"),
    Key(
        "output_path",
        Text(inside=True),
        "The output path given to the agent, relative to the project; `${SESSION}` is replaced.",
    ),
    Key("commands", Texts(), "The project's commands; override the pipeline's key by key.", merge=by_key),
    Key(
        "runs",
        Nested(TERMINATION, plain=COUNT),
        "Number of iterations, or a termination mapping.",
        field=None,
    ),
    Key("termination", Nested(TERMINATION), "When the stage ends.", field=None, merge=by_key),
    Key("check_before", FLAG, "`queue`: also check it before the first iteration.", field=None),
    Key(
        "completion",
        Text(proposed=tuple(_COMPLETIONS)),
        "Use `termination`.",
        deprecated=True,
        field=None,
    ),
    Key("min_iterations", _MINIMUM, "Use `termination`.", deprecated=True, field=None),
    Key("consensus", COUNT, "Use `termination`.", deprecated=True, field=None),
    Key(
        "guardrails",
        Nested(GUARDRAILS),
        "Limits of the stage.",
        merge=by_key,
        shown="Limits: {0.max_runtime_seconds} for the stage",
    ),
    *CHECK_KEYS,
    DELIVER_KEY,
    Key(
        "freeze",
        ListOf(FieldName(), or_one=True, longest=MAX_FIELDS),
        "Fields of the artifact with the paths of files that stay as they are once the stage has passed.",
        lower=unique,
        shown="Frozen: the files in {} of the artifact, when the verdict is `pass`",
    ),
    Key(
        "rollback",
        FLAG,
        "Undo what the agents of a visit changed if its verdict isn't `pass`.",
        shown="Rollback: what its agents changed is undone if the verdict isn't `pass`",
    ),
)


def combined_runtime(entries: Entries) -> MappingSpec | None:
    """`limits.runtime` and `guardrails.max_runtime_seconds` are one limit."""
    limits, guardrails = entries.get("limits"), entries.get("guardrails")
    guardrail, other = guardrails and guardrails.get("max_runtime_seconds"), limits and limits.get("runtime")
    if guardrail and other:
        message = "`limits.runtime` and `guardrails.max_runtime_seconds` are the same limit"
        entries.report.error("conflict", other.at, message, hint="keep one of them")
    limit, then = guardrail or other, guardrails and guardrails.get("on_timeout")
    keys = {"max_runtime_seconds": limit, "on_timeout": then}
    given = {name: value for name, value in keys.items() if value}
    return MappingSpec(GUARDRAILS, next(iter(given.values())).at, given) if given else None


def build_work(entries: Entries) -> WorkSpec:
    """Combine keys that belong together."""
    values = dict(entries.values)
    chain, model = values.pop("provider", ()), values.pop("model", None)
    settings, provider = values.pop("provider_config", ProviderSpec()), None
    first = replace(chain[0], fallbacks=chain[1:]) if chain else ProviderSpec()
    if chain or model or settings.config:
        provider = replace(
            first,
            model=model or first.model,
            config=first.config | settings.config,
            places=first.places | settings.places,
        )
    values["guardrails"] = combined_runtime(entries)
    prompt = values.pop("prompt", None)
    file = prompt.path if isinstance(prompt, PromptFile) else None
    values["termination"] = _termination(entries, values)
    given = {name: value for name, value in values.items() if value is not None}
    return WorkSpec(given, provider, None if file else prompt, file)


# Three generations of keys say how often a stage runs: `completion` with its siblings (the shell engine's
# first format), `termination` (its second) and `runs` (on nodes). Each level is brought into one form, so
# that a node's `runs: 3` overrides the `max` of stage.yaml and keeps its `type`, as if all had been written
# in one way.
def _termination(entries: Entries, values: dict[str, Any]) -> MappingSpec | None:
    """All ways to write it as one mapping, so that levels merge key by key."""
    termination, report = values.get("termination"), entries.report
    if isinstance(runs := values.get("runs"), MappingSpec):
        if termination:
            message = "`runs` must be a whole number if `termination` is set, got a mapping"
            report.error("bad-type", entries.written["runs"].value.at, message)
        termination, runs = termination or runs, None
        del values["runs"]
    older = {name: values.pop(name, None) for name in ("min_iterations", "consensus")}
    completion = values.pop("completion", None)
    if completion and termination is None:
        kind = Written(_COMPLETIONS.get(completion.value, completion.value), completion.at)
        termination = MappingSpec(TERMINATION, completion.at, {"type": kind, **older})
    else:
        for name in (name for name, value in older.items() if value):
            message = f"`{name}` is only used with the deprecated `completion` and is ignored here"
            at = entries.written[name].key.at
            report.warning("ignored-key", at, message, hint="move it into `termination`")
    keys = dict(termination.values) if termination else {}
    keys["max"] = keys.get("max") or keys.pop("iterations", None) or runs
    keys["check_before"] = keys.get("check_before") or values.pop("check_before", None)
    keys = {name: value for name, value in keys.items() if value is not None}
    return MappingSpec(TERMINATION, entries.at, keys) if keys else None
