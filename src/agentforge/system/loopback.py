"""Whether an address is on this machine, judged by what its name resolves to here and now."""

import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from urllib.parse import urlsplit

from agentforge.model.secrets import is_loopback, plain_address

Resolve = Callable[[str], Sequence[str]]
"""The addresses of a host. Raises OSError."""

PROXIES = ("http_proxy", "https_proxy", "all_proxy")
EXCEPTED = ("no_proxy", "NO_PROXY")


class NotLocal(OSError):
    """A host that is not on this machine."""


def resolved(host: str) -> Sequence[str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError("it is not a host name") from error
    return tuple(dict.fromkeys(str(one[4][0]) for one in found))


# All addresses count: which of them a program takes is its own choice, and another one the next time.
def local_addresses(host: str, resolve: Resolve = resolved) -> Sequence[str]:
    """The addresses of a host on this machine. Raises NotLocal."""
    try:
        found = resolve(host)
    except OSError as error:
        raise NotLocal(f"{host} has no address here: {error.strerror or error}") from error
    outside = [one for one in found if not is_loopback(one)]
    if outside or not found:
        meant = f" is {outside[0]}, which" if outside and outside[0] != host else ""
        raise NotLocal(f"{host}{meant} is not on this machine")
    return found


def remote_problem(address: str, environment: Mapping[str, str], resolve: Resolve = resolved) -> str:
    """Why a request to the address might leave this machine; empty: it stays. `environment`: that of the
    program that sends it."""
    found = plain_address(address)
    if found is None:
        return f"{address!r} is not a plain http(s) address"
    host = found[1]
    for variable, called in (("", host), *_proxies(host, environment)):
        try:
            local_addresses(called, resolve)
        except NotLocal as error:
            why = f"{variable} sends requests to {host} through a proxy: {error}; add {host} to NO_PROXY"
            return why if variable else str(error)
    return ""


# Programs differ in which of these they read, and in what order. So each one that is set counts.
def _proxies(host: str, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The proxies that a program may take for the host, by the variable."""
    excepted = [environment[name].lower().replace(",", " ") for name in EXCEPTED if environment.get(name)]
    # NO_PROXY must have the host itself: not every program knows patterns and networks.
    if excepted and all(host in {one.strip("[]") for one in text.split()} for text in excepted):
        return
    for name in (*PROXIES, *map(str.upper, PROXIES)):
        if value := environment.get(name):
            try:
                yield name, urlsplit(value if "://" in value else f"http://{value}").hostname or "an address"
            except ValueError:
                yield name, "an address"
