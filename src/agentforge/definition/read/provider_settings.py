"""Provider settings from the command line and the environment, and how levels of them merge. Secrets are not
allowed in them: a definition is stored in plans, logs and version control."""

import re
from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any

import msgspec

from agentforge.definition.read.values import as_data
from agentforge.definition.report import Report, SourceText
from agentforge.definition.yaml_tree import Keyed, Scalar, kind_of, parse_value
from agentforge.model.diagnostic import SourcePlace
from agentforge.model.errors import DefinitionError
from agentforge.model.secrets import can_be_secret, is_secret_name, looks_like_path

# A setting whose name says that it is a secret (`api_key`, `token`) must not have a value that can be one:
# the plan is in the log, and a definition is in version control. References (`$NAME`), paths and plain words
# aren't secrets; a false alarm costs a rename, a missed key is public for good. Plain words are placeholders
# such as `lm-studio` or `not-needed`, for a local server that requires a key but ignores it.
_PLAIN_WORDS = re.compile(r"[a-z]+(?:[-_ ][a-z]+)*")
VARIABLE = "AGENTFORGE_PROVIDER_CONFIG"
OPTION = "--provider-config"
_SHAPE = "for example timeout=60, or env.LANG=C for a nested key"


def validate_settings(keyed: Keyed, report: Report, *, in_env: bool = False) -> None:
    """Validate a provider's settings as written, including its `env`."""
    for entry in keyed.entries:
        if isinstance(entry.value, Scalar):
            _validate(entry.key.text, entry.value.value, entry.value.at, report, in_env=in_env)
        elif isinstance(entry.value, Keyed) and entry.key.text == "env" and not in_env:
            validate_settings(entry.value, report, in_env=True)


def _validate(name: str, value: Any, at: SourcePlace, report: Report, *, in_env: bool = False) -> None:
    if not (isinstance(value, str) and is_secret_name(name) and can_be_secret(value)):
        return
    if value.startswith("$") or looks_like_path(value) or _PLAIN_WORDS.fullmatch(value):
        return
    variable = name if in_env else name.upper()
    hint = f"set {variable} in the environment and pass it on with `pass_env: [{variable}]`"
    message = f"the value of `{name}` looks like a secret; a definition must not contain secrets"
    report.hide(value)
    report.error("secret-in-file", at, message, hint)


def merge_settings(weaker: Mapping[str, Any], stronger: Mapping[str, Any]) -> dict[str, Any]:
    """Merge key by key, including nested mappings; lists are replaced."""
    found = dict(weaker)
    for key, value in stronger.items():
        before = found.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            found[key] = merge_settings(before, value)
        else:
            found[key] = value
    return found


def settings_from_environment(environment: Mapping[str, str], report: Report) -> dict[str, Any]:
    """Settings from the environment variable, a mapping in YAML or JSON."""
    text = environment.get(VARIABLE, "")
    if not text.strip():
        return {}
    tree = parse_value(SourceText(f"<{VARIABLE}>", text), report)
    if isinstance(tree, Keyed):
        validate_settings(tree, report)
        return dict(as_data(tree, VARIABLE, report))
    if tree:
        message = f"{VARIABLE} must be a mapping, got {kind_of(tree)}"
        report.error("not-a-mapping", tree.at, message, hint='for example {"timeout": 60}')
    return {}


def settings_from_data(given: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Settings that a caller gave as objects, converted to JSON data."""
    try:
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(given))
    except (TypeError, ValueError) as error:
        at = report.argument(f"provider_config={given!r}")
        report.error("bad-value", at, f"the provider's settings cannot be represented as JSON: {error}")
        return {}
    env = found.get("env")
    for name, value in found.items():
        _validate(name, value, report.argument("provider_config"), report)
    for name, value in env.items() if isinstance(env, Mapping) else ():
        _validate(name, value, report.argument("provider_config"), report, in_env=True)
    return found


def settings_from_pairs(pairs: Iterable[str]) -> dict[str, Any]:
    """Merge `KEY=VALUE` pairs, later ones override; raises DefinitionError with all errors."""
    report = Report()
    found = reduce(merge_settings, [_setting(pair, report) for pair in pairs], dict[str, Any]())
    if report.has_errors:
        raise DefinitionError(report.diagnostics)
    return found


def _setting(pair: str, report: Report) -> dict[str, Any]:
    key, equals, text = pair.partition("=")
    keys = [part.strip() for part in key.split(".")]
    if not equals or not all(keys):
        at = report.argument(f"{OPTION} {pair}")
        report.error("bad-value", at, f"expected KEY=VALUE, got `{pair}`", hint=_SHAPE)
        return {}
    value: Any = ""  # YAML would read an empty value as null.
    if text.strip():
        tree = parse_value(SourceText(f"<{OPTION} {key}>", text), report)
        value = as_data(tree, f"`{key}`", report) if tree else None
    for part in reversed(keys):
        value = {part: value}
    return dict(value)
