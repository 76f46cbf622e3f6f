"""What an agent program finds in its environment, and what of it is secret."""

import os
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from agentforge.model.secrecy import can_be_secret, is_secret_name, looks_like_path
from agentforge.ports.provider import ExecuteRequest

RESULT = "AGENTFORGE_RESULT"
STATUS = "AGENTFORGE_STATUS"
PROMPT = "AGENTFORGE_PROMPT"

ALWAYS_PASSED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "COLORTERM", "NO_COLOR", "TMPDIR", "TZ"),
    *("LANG", "LANGUAGE", "LC_*", "XDG_*_HOME", "XDG_*_DIR", "XDG_*_DIRS"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
)
"""What reaches an agent even where its environment is declared; docs/sandboxes.md lists it for users."""

Scalar = str | int | float | bool


def agent_environment(
    inherited: Mapping[str, str],
    request: ExecuteRequest,
    extra: Mapping[str, Scalar] | None = None,
    *,
    passes: Collection[str] | None = None,
) -> dict[str, str]:
    """The inherited variables, what the engine adds, the stage's own, and where to write.

    With `passes`, only those inherited that every program needs and those that it names; a name may be a
    shell pattern (`ANTHROPIC_*`).
    """
    environment = dict(inherited) if passes is None else _passing(inherited, passes)
    environment.update(request.environment)
    environment.update((name, as_text(value)) for name, value in (extra or {}).items())
    environment[RESULT] = request.result_path
    environment[STATUS] = request.status_path
    if request.prompt_path:
        environment[PROMPT] = request.prompt_path
    return environment


def secrets_in(
    environment: Mapping[str, str], names: Collection[str] = (), *, inherited: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The values that must not be seen: of variables whose name says so, and of `names` (or patterns).

    An agent may come upon a value that is `inherited` and wasn't passed on to it, in a file for instance.
    """
    found = {
        value
        for name, value in (*environment.items(), *(inherited or {}).items())
        if (is_secret_name(name) or _matches(name, names)) and can_be_secret(value) and not _is_path(value)
    }
    return tuple(sorted(found))


def as_text(value: Scalar) -> str:
    """As YAML spells it: `true`, not `True`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _passing(inherited: Mapping[str, str], passes: Collection[str]) -> dict[str, str]:
    patterns = (*ALWAYS_PASSED, *passes)
    return {name: value for name, value in inherited.items() if _matches(name, patterns)}


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _is_path(value: str) -> bool:
    """A key may begin with a slash, too; a path's first folder is there."""
    if not value.startswith("/"):
        return looks_like_path(value)
    return os.path.exists("/" + value.split("/", 2)[1])
