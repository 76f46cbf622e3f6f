"""The environment of programs: which variables reach them, and which values of it are secrets."""

import os
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from agentforge.model.secrets import can_be_secret, is_secret_name, looks_like_path
from agentforge.ports.provider import ExecuteRequest

RESULT = "AGENTFORGE_RESULT"
STATUS = "AGENTFORGE_STATUS"
ARTIFACT = "AGENTFORGE_ARTIFACT"
PROMPT = "AGENTFORGE_PROMPT"

ALWAYS_PASSED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "NO_COLOR", "TMPDIR", "TZ"),
    *("LANG", "LANGUAGE", "LC_*", "XDG_*_HOME", "XDG_*_DIR", "XDG_*_DIRS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
)
"""Variables that reach an agent even if its environment is declared; docs/sandboxes.md lists them for
users."""

SettingValue = str | int | float | bool


def agent_environment(
    inherited: Mapping[str, str],
    request: ExecuteRequest,
    extra: Mapping[str, SettingValue] | None = None,
    *,
    passes: Collection[str] | None = None,
) -> dict[str, str]:
    """The inherited variables, the engine's, the stage's, and the paths of what the agent writes.

    With `passes`, only the inherited variables that every program needs and those that it names; a name may
    be a shell pattern (`ANTHROPIC_*`).
    """
    environment = dict(inherited) if passes is None else passed_variables(inherited, passes)
    # The last one counts. The paths of the result can't be overridden: the engine reads the result there.
    environment.update(request.environment)
    environment.update((name, as_text(value)) for name, value in (extra or {}).items())
    environment[RESULT] = request.result_path
    environment[STATUS] = request.status_path
    environment.pop(ARTIFACT, None)  # That of an agent which has started this engine.
    if request.artifact_path:
        environment[ARTIFACT] = request.artifact_path
    if request.prompt_path:
        environment[PROMPT] = request.prompt_path
    return environment


def passed_variables(inherited: Mapping[str, str], passes: Collection[str]) -> dict[str, str]:
    """The variables that every program needs, and those that `passes` names."""
    patterns = (*ALWAYS_PASSED, *passes)
    return {name: value for name, value in inherited.items() if _matches(name, patterns)}


def secrets_in(
    environment: Mapping[str, str], names: Collection[str] = (), *, inherited: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The values of variables with a secret's name, and of those that match `names`.

    Includes `inherited` values that aren't passed on: an agent may find them elsewhere, such as in a file.
    """
    found = {
        value
        for name, value in (*environment.items(), *(inherited or {}).items())
        if (is_secret_name(name) or _matches(name, names)) and can_be_secret(value) and not _is_path(value)
    }
    return tuple(sorted(found))


def named_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables with a secret's name and value."""
    return {name: value for name, value in environment.items() if secrets_in({name: value})}


def as_text(value: SettingValue) -> str:
    """As YAML spells it: `true`, not `True`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_path(value: str) -> bool:
    """A key may start with a slash, too; of a path, the first folder exists."""
    if not value.startswith("/"):
        return looks_like_path(value)
    return os.path.exists("/" + value.split("/", 2)[1])
