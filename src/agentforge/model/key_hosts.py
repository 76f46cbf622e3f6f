"""Where a key may be sent: to its maker, to this machine, or to a host that the user's environment names."""

import re
from collections.abc import Mapping
from ipaddress import ip_address

VARIABLE = "AGENTFORGE_KEY_HOSTS"
"""Further hosts, separated by commas or blanks."""
HINT = "a definition may send keys only to their vendor or to this machine; see docs/providers-api.md"
MAKERS = frozenset(
    {"api.anthropic.com", "api.openai.com", "generativelanguage.googleapis.com", "openrouter.ai"}
)
# Strict, so that no other reader of the address can find another host in it.
_ADDRESS = re.compile(
    r"(https?)://(\[[0-9a-f:]+\]|[a-z0-9_.-]+)(?::[0-9]{1,5})?(?:[/?][!-~]*)?", re.IGNORECASE
)
_ADDRESS_NAME = re.compile(r"\w*_(?:BASE_URL|API_BASE|API_URL|ENDPOINT)", re.IGNORECASE)


def names_address(variable: str) -> bool:
    """Whether a program sends its requests, with their keys, to the address in this variable."""
    return _ADDRESS_NAME.fullmatch(variable) is not None


def host_problem(address: str, environ: Mapping[str, str]) -> str:
    """Why no key may be sent to an address of a definition; "" if it may. `environ` is the user's."""
    found = _ADDRESS.fullmatch(address)
    if found is None:
        return f"{address!r} is not a plain http(s) address"
    scheme, host = found[1].lower(), found[2].lower().strip("[]").rstrip(".")
    if _is_loopback(host):
        return ""
    if scheme == "http":
        return f"{host} would get the key unencrypted; use https"
    if host in MAKERS or host in _allowed(environ):
        return ""
    return f"refusing to send a key to {host}, which only a file names; to allow it, set {VARIABLE}={host}"


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _allowed(environ: Mapping[str, str]) -> set[str]:
    """The hosts that the user's environment names: in the variable of the makers' programs, or in ours."""
    found = (_ADDRESS.fullmatch(value) for name, value in environ.items() if names_address(name))
    named = {match[2].lower().rstrip(".") for match in found if match}
    return named | set(re.split(r"[\s,]+", environ.get(VARIABLE, "").lower().strip()))
