"""Secrets are never part of a definition: it is kept in plans, logs and version control."""

import re
from collections.abc import Mapping
from typing import Any

from agentforge.definition.diagnostics import Report
from agentforge.definition.tree import Keyed, Scalar, Tree
from agentforge.model.diagnostic import Place
from agentforge.model.secrecy import can_be_secret, is_secret_name, looks_like_path

# As `lm-studio` or `not-needed`, for a server on this machine that wants a key and doesn't look at it.
_PLAIN_WORDS = re.compile(r"[a-z]+(?:[-_ ][a-z]+)*")


def validate_settings(keyed: Keyed, report: Report) -> None:
    """A provider's settings as somebody wrote them, its `env` included."""
    for entry in keyed.entries:
        _validate_tree(entry.key, entry.value, report)
        if entry.key.text == "env" and isinstance(entry.value, Keyed):
            for variable in entry.value.entries:
                _validate_tree(variable.key, variable.value, report, in_env=True)


def validate_given(config: Mapping[str, Any], at: Place, report: Report) -> None:
    """The same of settings that a caller gave as data."""
    env = config.get("env")
    for name, value in config.items():
        _validate(name, value, at, report)
    for name, value in env.items() if isinstance(env, Mapping) else ():
        _validate(str(name), value, at, report, in_env=True)


def _validate_tree(key: Scalar, value: Tree, report: Report, *, in_env: bool = False) -> None:
    if isinstance(value, Scalar):
        _validate(key.text, value.value, value.at, report, in_env=in_env)


def _validate(name: str, value: Any, at: Place, report: Report, *, in_env: bool = False) -> None:
    if not (isinstance(value, str) and is_secret_name(name) and _is_literal_secret(value)):
        return
    variable = name if in_env else name.upper()
    hint = f"keep it in the environment, as {variable}, and let it through: `pass_env: [{variable}]`"
    message = f"the value of `{name}` looks like a secret, which a definition must not hold"
    report.hide(value)
    report.error("secret-in-file", at, message, hint)


def _is_literal_secret(value: str) -> bool:
    refers = value.startswith("$") or looks_like_path(value)
    return can_be_secret(value) and not refers and _PLAIN_WORDS.fullmatch(value) is None
