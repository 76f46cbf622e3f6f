"""The keys of checks, routes and the limits of cycles."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.read.table import Entries, Key, MappingSpec, Nested, Table, by_key, unique
from agentforge.definition.read.values import (
    COMMAND,
    COUNT,
    FLAG,
    MONEY,
    TIME_LIMIT,
    TOKENS,
    ListOf,
    Name,
    Number,
    Required,
    Schema,
    Text,
    as_mapping,
    as_text,
)
from agentforge.definition.report import Report
from agentforge.definition.specs import RouteSpec
from agentforge.definition.yaml_tree import Keyed, Tree, Written, shown
from agentforge.model.check import Check, CheckExpectation, CheckParser, CheckTime, FileRule
from agentforge.model.diagnostic import USER_PREFIX
from agentforge.model.plan import ROUTE_ACTIONS, Limits, Route
from agentforge.model.plan_limits import (
    MAX_CHECK_TEXT,
    MAX_CHECK_TEXTS,
    MAX_CHECKS,
    MAX_CYCLES,
    MAX_GLOB,
    MAX_HEADING,
    MAX_SCOPE,
    MAX_VERDICTS,
    NAME_PATTERN,
    is_plain_name,
)


def _file_text(longest: int = MAX_CHECK_TEXT) -> Text:
    return Text(prose=True, longest=longest, only_text=True)


_TEXTS = ListOf(_file_text(), or_one=True, longest=MAX_CHECK_TEXTS)
_HEADING = replace(_TEXTS, item=_file_text(MAX_HEADING))
FILE: Table[MappingSpec] = Table(
    "file",
    (
        Key("path", Text(inside=True, only_text=True), "The file, relative to the project. It must exist."),
        Key("contains", _TEXTS, "Texts that must be in it.", lower=unique),
        Key("absent", _TEXTS, "Texts that must not be in it.", lower=unique),
        Key("heading", _HEADING, "Headings that its Markdown must have.", lower=unique),
    ),
    plan=FileRule,
    name="file",
    prefix="checks.file.",
    required=(Required(("path",), "`file` has no `path`", "add `path: FILE`"),),
)
AUTO = "auto"
"""The value of `parse` that the command decides on."""
RULES = ("file", "scope")
"""The keys of a check without a command."""
_OF_COMMANDS = ("run", "parse", "report", "timeout", "needs", "optional", "regressions")
_NOT_WITH = {"file": (*_OF_COMMANDS, "scope"), "scope": (*_OF_COMMANDS, "expect")}
_SCOPE = ListOf(
    Text(inside=True, only_text=True, longest=MAX_GLOB),
    required=Required((), "`checks.scope` is empty", "for example `scope: [src/**, tests/**]`"),
    longest=MAX_SCOPE,
)


_WORD = Text(get_args(CheckExpectation))
_TOLERANCE = Number(0, 0.99)


class Expected(Struct, frozen=True):
    word: str
    tolerance: float = 0.0


class Expectation(Struct, frozen=True):
    """`pass`, `fail`, `red`, or `{red: NUMBER}`."""

    def read(self, tree: Tree, name: str, report: Report) -> Written[Expected] | None:
        if not isinstance(tree, Keyed):
            word = _WORD.read(tree, name, report)
            return Written(Expected(word.value), word.at) if word else None
        entry = next((entry for entry in tree.entries if entry.key.text == "red"), None)
        if entry is None or len(tree.entries) > 1:
            report.error("bad-type", tree.at, f"{name} must be a word or `{{red: NUMBER}}`")
            return None
        part = _TOLERANCE.read(entry.value, f"{name[:-1]}.red`", report)
        return Written(Expected("red", part.value), tree.at) if part else None

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        part = {"type": "object", "properties": {"red": _TOLERANCE.schema(definitions)}}
        both = [_WORD.schema(definitions), {**part, "required": ["red"], "additionalProperties": False}]
        return {"anyOf": both}


_TIMES = ListOf(
    Text(get_args(CheckTime)),
    or_one=True,
    required=Required((), "`checks.at` is empty", "for example `at: [start, end]`"),
)


def _check(entries: Entries) -> MappingSpec | None:
    """None without a name or a valid rule."""
    rule = next((name for name in RULES if entries.key(name)), None)
    for name in _NOT_WITH[rule] if rule else ():
        if (key := entries.key(name)) is not None:
            message = f"`checks.{name}` doesn't go with `{rule}`"
            entries.report.error("conflict", key.at, message, f"remove `{name}` or `{rule}`")
    expect, regressions = entries.get("expect"), entries.get("regressions")
    word, parse = expect.value.word if expect else "", entries.get("parse")
    if word == "red" and not (parse and parse.value in ("junit", "pytest", AUTO)):
        message = "`expect: red` needs the results of the tests"
        entries.report.error("conflict", expect.at, message, "add `parse: junit`, or use `expect: fail`")
    if word == "red" and regressions and regressions.value and parse and parse.value == "pytest":
        message = "`expect: red` with `regressions` needs the ids of all tests"
        entries.report.error("conflict", regressions.at, message, "use `parse: junit`")
    if word == "fail" and regressions and regressions.value:
        message = "`checks.regressions` doesn't go with `expect: fail`"
        entries.report.error("conflict", regressions.at, message, "remove one of them")
    if (optional := entries.key("optional")) and entries.key("run"):
        message = "`optional` has no effect on a check with `run`: it always has a command"
        entries.report.warning("ignored-key", optional.at, message, "remove it")
    times = {time.value: time for time in entries.get("at") or ()}
    for early in (times[name] for name in ("start", "need") if rule == "scope" and name in times):
        message = "`scope` can't fail at the start of a visit: nothing has changed yet"
        entries.report.error("bad-value", early.at, message, "use `at: iteration` or `at: end`")
    if {"need", "start"} <= times.keys():
        message = "`at: need` doesn't go with `at: start`: no agent would ever run"
        entries.report.error("conflict", times["need"].at, message, "remove one of them")
    name, is_valid = entries.get("name"), rule is None or entries.get(rule)
    return replace(entries.spec(), at=name.at) if name and is_valid else None


NEEDS = Key(
    "needs",
    Text(("network",)),
    "`network`: it gets the network, also in a sandbox, and is left out under `network: local`.",
    field="network",
    lower=bool,
)
CHECK: Table[MappingSpec | None] = Table(
    "check",
    (
        Key("name", Name(), "The name of the check; alone, it runs the command of that name."),
        Key("run", COMMAND, "The command line; by default the pipeline's command of that name."),
        Key(
            "expect",
            Expectation(),
            "`fail`: the command must fail. `red`: its tests must, such as those that are written before the"
            " code; `{red: 0.3}`: at most 30 % of them may pass.",
            field=None,
        ),
        Key(
            "parse",
            Text((*get_args(CheckParser), AUTO)),
            "How its output is read. `auto`: by the command, with a JUnit report if it can write one.",
        ),
        Key("report", Text(inside=True), "`junit`: the file that the command writes."),
        Key("timeout", TIME_LIMIT, "Maximum seconds; 600 by default."),
        Key("at", _TIMES, "When it runs, or a list of times; `end` by default.", lower=unique),
        NEEDS,
        Key("regressions", FLAG, "Only failures count that were not there before the first agent."),
        Key(
            "optional",
            FLAG,
            "Leave the check out, instead of an error, if no command has its name.",
            field=None,
        ),
        Key(
            "file",
            Nested(FILE, shape="for example `file: {path: README.md, heading: Install}`"),
            "Instead of a command: what a file of the project must be like.",
        ),
        Key(
            "scope",
            _SCOPE,
            "Instead of a command: what the files that change in a visit must match.",
            lower=unique,
        ),
    ),
    _check,
    Check,
    name="check",
    prefix="checks.",
    required=(Required(("name",), "a check has no `name`", "add a name, for example `name: test`"),),
)

CAP_KEYS = (
    Key("cost_usd", MONEY, "Maximum cost in US dollars; at the cap, a person is asked."),
    Key("tokens", TOKENS, "Maximum number of tokens, sent and received; at the cap, a person is asked."),
)
CAPS: Table[MappingSpec] = Table(
    "limits",
    CAP_KEYS,
    plan=Limits,
    name="caps",
    prefix="limits.",
    misplaced=dict.fromkeys(("cycles", "no_progress", "cluster", "runtime"), "put it on a stage"),
    is_closed=True,
)
"""Of a node with several stages."""


def without_caps(limits: MappingSpec) -> MappingSpec:
    """What is for each stage of a pipeline, not for all of them together."""
    caps = {key.name for key in CAP_KEYS}
    return replace(limits, values={name: value for name, value in limits.values.items() if name not in caps})


_CYCLES = Number(1, MAX_CYCLES, "a whole number", whole=True)
LIMITS: Table[MappingSpec] = Table(
    "limits",
    (
        Key("cycles", _CYCLES, "Maximum number of cycles before a person is asked."),
        Key("no_progress", COUNT, "Visits in a row with the same failures on the same files."),
        Key("cluster", COUNT, "Visits with the same failure."),
        Key(
            "runtime",
            TIME_LIMIT,
            "Maximum runtime in seconds, as `guardrails.max_runtime_seconds`.",
            field=None,
        ),
        *CAP_KEYS,
    ),
    plan=Limits,
    name="limits",
    prefix="limits.",
    is_closed=True,
)


# Routes keep the places of both sides until they are lowered: whether a verdict exists, and whether a target
# is a node, is known only when all levels and all nodes are (`stage_rules`).


class Routes(Struct, frozen=True):
    """A mapping from verdicts to nodes, or to `ask`, `fail` or `end`."""

    def read(self, tree: Tree, name: str, report: Report) -> tuple[RouteSpec, ...] | None:
        keyed = as_mapping(tree, name, report)
        if keyed is None:
            return None
        found: list[RouteSpec] = []
        for entry in keyed.entries:
            verdict = entry.key.text
            if verdict.startswith(USER_PREFIX):
                continue
            if not is_plain_name(verdict):
                message = f"{shown(verdict)} can't be a verdict"
                report.error("bad-value", entry.key.at, message, "use letters, digits, `.`, `_` and `-`")
                continue
            to = as_text(entry.value, f"`on.{verdict}`", report)
            if to is not None:
                found.append(RouteSpec(Written(verdict, entry.key.at), to))
        return tuple(found)

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"type": "object", "propertyNames": {"pattern": f"^{NAME_PATTERN}$|^{USER_PREFIX}"}}


def _route(spec: RouteSpec) -> Route:
    verdict, to = spec.verdict.value, spec.to.value
    return Route(verdict, to) if to in ROUTE_ACTIONS else Route(verdict, "go", to)  # type: ignore[arg-type]


def _some(values: Sequence[Any]) -> Any:
    """An empty list doesn't override."""
    return next((value for value in reversed(values) if value), None)


def has_no_command(check: MappingSpec, commands: Mapping[str, str]) -> bool:
    """Whether it needs a command of its name, and there is none. An empty command is none."""
    own = commands.get(check.get("name").value, "")
    return not own.strip() and not any(map(check.get, ("run", *RULES)))


def is_auto(check: MappingSpec) -> bool:
    """Whether its command decides how its output is read."""
    parse = check.get("parse")
    return parse is not None and parse.value == AUTO


PER_ATTEMPT = ("max_iteration_cost_usd", "max_iteration_tokens")
OF_STAGES = dict.fromkeys(("checks", "verdicts", "on", "freeze", "rollback"), "put it on a stage")
"""Keys that only stages have, with a hint."""

CHECK_KEYS = (
    Key(
        "checks",
        ListOf(Nested(CHECK, short="name"), longest=MAX_CHECKS),
        "Commands that the engine runs to verify the work of the stage.",
        field=None,
    ),
    Key(
        "verdicts",
        ListOf(Name(), longest=MAX_VERDICTS),
        "Verdicts that a result may have beside `pass`, `fail` and `reject`.",
        merge=_some,
    ),
    Key(
        "on",
        Routes(),
        "Where the run goes after a verdict: a node's id, `ask`, `fail` or `end`.",
        field="routes",
        lower=lambda routes: tuple(map(_route, routes)),
    ),
    Key("limits", Nested(LIMITS), "When a person is asked instead of repeating work.", merge=by_key),
)
