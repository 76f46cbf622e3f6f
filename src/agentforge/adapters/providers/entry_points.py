"""Providers of installed packages: found by their metadata, loaded only when used."""

import inspect
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from msgspec import Struct

from agentforge.model.errors import AgentForgeError, ProviderUnusable
from agentforge.ports.provider import Provider

GROUP = "agentforge.providers"
_MEMBERS = ("name", "init", "execute", "shutdown", "capabilities", "validate")


class Offered(Struct, frozen=True):
    name: str
    entries: tuple[EntryPoint, ...]
    """More than one only if several packages use the name."""

    @property
    def place(self) -> str:
        return " and ".join(dict.fromkeys(_distribution(entry) for entry in self.entries))

    def load(self, environ: Mapping[str, str]) -> Provider:
        """Raises ProviderUnusable with the package and the cause for any error in its code."""
        if len(self.entries) > 1:
            raise ProviderUnusable(
                f"provider {self.name!r} is offered by several packages: {self.place}",
                hint="uninstall all but one of them",
            )
        entry = self.entries[0]
        try:
            return _made(entry, environ)
        except AgentForgeError as error:
            raise _unusable(entry, error.message, error.hint) from error
        except (Exception, SystemExit) as error:
            raise _unusable(entry, f"{type(error).__name__}: {error}") from error


def offered_providers() -> dict[str, Offered]:
    """By name; the packages themselves are not imported."""
    found: dict[str, dict[tuple[str, str], EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        # A package may be on the path twice.
        found.setdefault(entry.name, {}).setdefault((_project(entry), entry.value), entry)
    return {name: Offered(name, tuple(entries.values())) for name, entries in found.items()}


def _made(entry: EntryPoint, environ: Mapping[str, str]) -> Provider:
    make = entry.load()
    if not callable(make):
        raise ProviderUnusable(f"`{entry.value}` must be a class or a function that returns a provider")
    provider = make(environ=dict(environ)) if _takes_environ(make) else make()
    missing = [member for member in _MEMBERS if not hasattr(provider, member)]
    if missing:
        lacking = ", ".join(f"`{member}`" for member in missing)
        raise ProviderUnusable(f"`{entry.value}` doesn't return a provider: it has no {lacking}")
    made: Provider = provider
    return made


def _takes_environ(make: Callable[..., Any]) -> bool:
    try:
        return "environ" in inspect.signature(make).parameters
    except (TypeError, ValueError):
        # A builtin without a signature.
        return False


def _project(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else ""


def _distribution(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unnamed package"


def _unusable(entry: EntryPoint, cause: str, hint: str = "") -> ProviderUnusable:
    return ProviderUnusable(
        f"provider {entry.name!r} of {_distribution(entry)} can't be loaded: {cause}",
        hint=hint or f"repair or uninstall {_project(entry) or 'the package'} (entry point `{entry.value}`)",
    )
