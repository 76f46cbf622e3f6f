"""The keys of hooks and notifications."""

from typing import Any, get_args

from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.read.check_keys import NEEDS
from agentforge.definition.read.table import Entries, Key, Nested, Table, fields, unique
from agentforge.definition.read.values import (
    ADDRESS,
    COMMAND,
    FLAG,
    SECONDS,
    SECRET,
    TEXT,
    ListOf,
    Name,
    NamedVariable,
    Number,
    Required,
    Schema,
    Text,
    as_mapping,
    as_text,
)
from agentforge.definition.report import Report
from agentforge.definition.specs import HookSpec
from agentforge.definition.yaml_tree import Tree, Written, shown
from agentforge.model.condition import MAX_LENGTH as MAX_CONDITION
from agentforge.model.condition import Condition
from agentforge.model.diagnostic import USER_PREFIX, choice
from agentforge.model.hook import (
    CALL_POINTS,
    OCCASIONS,
    YAML_POINTS,
    Hook,
    HookAction,
    HookPoint,
    Notification,
    OnFailure,
    OnLost,
)
from agentforge.model.plan_limits import (
    MAX_MESSAGE,
    MAX_NAMED_VARIABLES,
    MAX_NOTIFICATIONS,
    MAX_TRIES,
    MAX_YAML_HOOKS,
)


class ConditionKind(Struct, frozen=True):
    """A condition, parsed and checked."""

    def read(self, tree: Tree, name: str, report: Report) -> Written[Condition] | None:
        from agentforge.definition.conditions import parse_condition  # Loads Lark.

        text = as_text(tree, name, report)
        condition = parse_condition(text, report) if text else None
        return None if condition is None else Written(condition, tree.at)

    def schema(self, _: dict[str, Schema]) -> Schema:
        return {"type": ["string", "boolean"], "maxLength": MAX_CONDITION}


# One table serves the four actions, as most keys belong to several of them. Which keys an action has is in a
# table of its own (`_KEYS`), by which both the compiler and the schema refuse the others: a `timeout` of a
# `pause` would have no effect.

_OF_CALLS = ("timeout", "on_timeout", "on_failure", "on_lost")
_KEYS: dict[HookAction, tuple[str, ...]] = {
    "pause": ("message",),
    "confirm": ("message",),
    "webhook": ("url", "secret", "tries", "needs", *_OF_CALLS),
    "script": ("script", "environment", "needs", *_OF_CALLS),
}
"""The keys of each action, besides those that all have."""
_COMMON = ("id", "action", "stage", "condition")
_REQUIRED: dict[HookAction, str] = {"webhook": "url", "script": "script"}
_ACTIONS: tuple[HookAction, ...] = tuple(_KEYS)
_SECONDS = replace(SECONDS, low=0.1)
DESKTOP = "desktop"
_ON_FAILURE = Text(get_args(OnFailure))


HOOK = Table(
    "hook",
    (
        Key("id", Name(), "A name, unique in the file; by default the point and a number."),
        Key("action", Text(_ACTIONS), "What the hook does."),
        Key("stage", TEXT, "The id of the node that the hook is for; without it, all nodes."),
        Key(
            "condition",
            ConditionKind(),
            'When it is called: `iteration % 3 == 0 && stage == "build"`.',
        ),
        Key("message", Text(prose=True, longest=MAX_MESSAGE), "`pause`, `confirm`: what a person is asked."),
        Key("url", ADDRESS, "`webhook`: the address that gets a POST; its answer is added to the context."),
        Key("secret", SECRET, "`webhook`: the environment variable with the secret that signs it."),
        Key("script", COMMAND, "`script`: a shell command; its output is added to the context."),
        Key(
            "environment",
            ListOf(NamedVariable(), or_one=True, longest=MAX_NAMED_VARIABLES),
            "`script`: further environment variables that the command gets.",
        ),
        NEEDS,
        Key("timeout", _SECONDS, "Maximum seconds per try: 60 for a webhook, 30 for a script by default."),
        Key("tries", Number(1, MAX_TRIES, "a whole number", whole=True), "`webhook`: tries; 3 by default."),
        Key("on_timeout", _ON_FAILURE, "What to do when no answer comes in time."),
        Key("on_failure", _ON_FAILURE, "What to do when the hook fails."),
        Key("on_lost", Text(get_args(OnLost)), "`pause`: ask before repeating a call that the engine lost."),
    ),
    lambda entries: entries,
    name="hook",
    required=(
        Required(
            ("action",), "the hook has no `action`", "add `action: pause`, `confirm`, `webhook` or `script`"
        ),
    ),
)


def _hook(point: HookPoint, entries: Entries) -> HookSpec | None:
    written = entries.get("action")
    action: HookAction | None = next((name for name in _ACTIONS if written and name == written.value), None)
    if action is None:
        return None
    allowed, report = (*_COMMON, *_KEYS[action]), entries.report
    for key in HOOK.keys:
        if key.name not in allowed and (found := entries.key(key.name)):
            hint = f"its keys are {', '.join(allowed)}"
            report.error("conflict", found.at, f"`{key.name}` is not a key of the action `{action}`", hint)
    required = _REQUIRED.get(action)
    if required and entries.tree(required) is None:
        report.error("missing-key", entries.at, f"the {action} has no `{required}`", f"add `{required}: …`")
    _validate_point(point, written, entries)
    rows = [key for key in HOOK.keys if key.name in _KEYS[action]]
    # At the end of a run there is nothing left to pause.
    ended = {"on_timeout": "continue", "on_failure": "continue"} if point == "session_end" else {}
    hook = Hook("", point, action, **{**ended, **fields(rows, [entries.values])})
    return HookSpec(entries.at, hook, entries.get("id"), entries.get("stage"), entries.get("condition"))


def _validate_point(point: HookPoint, action: Written[str], entries: Entries) -> None:
    report, stage = entries.report, entries.get("stage")
    if stage and point in ("session_start", "session_end"):
        message = f"`stage` has no effect at {point}, which belongs to the whole run"
        report.error("conflict", entries.written["stage"].key.at, message, "remove it, or use `stage_end`")
    if point != "session_end":
        return
    if action.value in ("pause", "confirm"):
        hint = "use the `stage_end` of the last stage"
        report.error("conflict", action.at, f"`{action.value}` is not possible at session_end", hint)
    for name in ("on_timeout", "on_failure", "on_lost"):
        value = entries.get(name)
        if value and value.value == "pause":
            message = f"`{name}: pause` is not possible at session_end"
            report.error("conflict", value.at, message, hint="use `continue` or `fail`")


_HOOKS = ListOf(Nested(HOOK), or_one=True)
_ABOUT: dict[HookPoint, str] = {
    "session_start": "Before the first node.",
    "session_end": "After the last node, before the run completes.",
    "stage_start": "Before the first iteration of a stage, or before a block.",
    "stage_end": "After a stage or a block; context is for the next one.",
    "iteration_start": "Before each iteration.",
    "iteration_end": "After each iteration; context is for the following ones.",
    "parallel_provider_start": "Before the first stage of each provider of a block.",
    "parallel_provider_end": "After the last stage of each provider of a block.",
}


def _hooks(entries: Entries) -> tuple[HookSpec, ...]:
    found = [_hook(point, hook) for point in YAML_POINTS for hook in entries.get(point, ())]
    if len(found) > MAX_YAML_HOOKS:
        message = f"the pipeline has {len(found)} hooks; the maximum is {MAX_YAML_HOOKS}"
        entries.report.error("too-large", entries.at, message)
    return tuple(hook for hook in found if hook)


POINTS = Table(
    "hooks", tuple(Key(point, _HOOKS, _ABOUT[point]) for point in YAML_POINTS), _hooks, name="hooks"
)


def _schema_of(action: HookAction) -> Schema:
    """Which keys a hook with this action needs, and which it can't have."""
    others = [key.name for key in HOOK.keys if key.name not in (*_COMMON, *_KEYS[action])]
    required = [_REQUIRED[action]] if action in _REQUIRED else []
    then = {"properties": dict.fromkeys(others, False), "required": required}
    return {"if": {"properties": {"action": {"const": action}}, "required": ["action"]}, "then": then}


class HooksKind(Struct, frozen=True):
    """Hooks by their points. Ignoring an unknown point would silently drop a hook."""

    def read(self, tree: Tree, name: str, report: Report) -> Any:
        keyed = as_mapping(tree, name, report)
        if keyed is None:
            return None
        keys = [entry.key for entry in keyed.entries if not entry.key.text.startswith(USER_PREFIX)]
        unknown = [key for key in keys if key.text not in YAML_POINTS]
        for key in unknown:
            hint = choice(key.text, "points", YAML_POINTS)
            if key.text in CALL_POINTS:
                hint = f"`{key.text}` is only available to functions: `engine.on_{key.text}`, see docs/sdk.md"
            report.error("unknown-point", key.at, f"unknown hook point {shown(key.text)}", hint)
        return POINTS.read(keyed, report, skipped=[key.text for key in unknown])

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        schema = POINTS.inline_schema(definitions)
        definitions[HOOK.name]["allOf"] = [_schema_of(action) for action in _ACTIONS]
        return {**schema, "patternProperties": {f"^{USER_PREFIX}": {}}, "additionalProperties": False}


HOOKS_KEY = Key("hooks", HooksKind(), "Your own code and services, called at points of the run.", field=None)


def _notification(entries: Entries) -> Written[Notification]:
    get, report = entries.get, entries.report
    desktop, command = get("desktop"), get("command")
    if desktop and not desktop.value and command is None and get("url") is None:
        _WAYS.report_missing(entries.at, report)
    if "secret" in entries.values and entries.tree("url") is None:
        at = entries.written["secret"].key.at
        report.warning("no-effect", at, "`secret` has no effect without `url`", "remove it, or add `url`")
    if command is None:
        for name in ("environment", "in_project"):
            if name in entries.values:
                at = entries.written[name].key.at
                report.warning("no-effect", at, f"`{name}` has no effect without `command`", "remove it")
    return Written(Notification(**fields(NOTIFICATION.keys, [entries.values])), entries.at)


_WAYS = Required(
    ("desktop", "command", "url"),
    "the notification has no receiver",
    "add `desktop: true`, `command: …` or `url: …`",
)
_OCCASIONS = Required(("on",), "`on` is an empty list", f"name some of {', '.join(OCCASIONS)}, or omit it")
NOTIFICATION = Table(
    "notification",
    (
        Key(
            "on",
            ListOf(Text(OCCASIONS), or_one=True, required=_OCCASIONS),
            "When: a run needs a person, failed, completed or was cancelled; by default all of these.",
            lower=unique,
        ),
        Key("desktop", FLAG, "Show a notification on the desktop."),
        Key("command", COMMAND, "Run a shell command, outside of the project."),
        Key(
            "environment",
            ListOf(NamedVariable(), or_one=True, longest=MAX_NAMED_VARIABLES),
            "`command`: further environment variables that the command gets.",
        ),
        Key("in_project", FLAG, "`command`: run it in the project, whose files agents may have changed."),
        Key("url", ADDRESS, "Send a POST to this address."),
        Key("secret", SECRET, "The environment variable with the secret that signs the POST."),
    ),
    _notification,
    name="notification",
    required=(_WAYS,),
)


class ReceiverKind(Struct, frozen=True):
    """A receiver in one word: `desktop`, or an address. Not a command, as a typo would be one."""

    def read(self, tree: Tree, name: str, report: Report) -> Written[Notification] | None:
        text = as_text(tree, name, report)
        if text is None:
            return None
        if text.value == DESKTOP:
            return Written(Notification(desktop=True), text.at)
        if text.value.lower().startswith(("http://", "https://")):
            return Written(Notification(url=ADDRESS.read(tree, name, report)), text.at)
        message = f"{name} must be `{DESKTOP}`, a URL or a mapping, got {shown(text.value)}"
        report.error("bad-value", text.at, message, "for a command, write `notify: {command: …}`")
        return None

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"anyOf": [{"const": DESKTOP}, ADDRESS.schema(definitions)]}


NOTIFY_KEY = Key(
    "notify",
    ListOf(Nested(NOTIFICATION, plain=ReceiverKind()), or_one=True, longest=MAX_NOTIFICATIONS),
    "Where notifications are sent when a run needs a person, fails, completes or is cancelled.",
)
