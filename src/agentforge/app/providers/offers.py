"""The providers available to a project, and where each comes from; created on first use."""

import inspect
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Literal

from msgspec import Struct

from agentforge.model.errors import AgentForgeError, ProviderUnusable, StorageFailed
from agentforge.model.layout import PROVIDERS, TRUST_FILE, config_folder
from agentforge.ports.provider import Provider
from agentforge.system import files
from agentforge.version import __version__

log = logging.getLogger("agentforge.providers")

GROUP = "agentforge.providers"
"""Of the entry points of packages."""
METHODS = ("init", "execute", "shutdown", "capabilities", "validate")
"""What a provider must have besides its name."""
Origin = Literal["registered", "project", "entry point", "built in"]
AGENTS = ("claude", "codex", "opencode", "gemini")
"""The agent CLIs that are built in. The first is proposed to people who have none."""


def _built_in(name: str, environ: Mapping[str, str]) -> Provider:
    # A run uses one or two of them, and the code of all would take a good part of the time of a start.
    match name:
        case "cli":
            from agentforge.adapters.providers.cli import InlineCli

            return InlineCli(environ)
        case "api":
            from agentforge.adapters.providers.api import ApiProvider

            return ApiProvider(environ)
        case "command":
            from agentforge.adapters.providers.command import CommandProvider

            return CommandProvider(environ)
        case "mock":
            from agentforge.adapters.providers.mock import MockProvider

            return MockProvider(environ)
        case "python":
            from agentforge.adapters.providers.python_class import PythonProvider

            return PythonProvider(environ)
        case "replay":
            from agentforge.adapters.providers.replay import ReplayProvider

            return ReplayProvider(environ)
        case _:
            from agentforge.adapters.providers.cli import CliAgent
            from agentforge.app.providers.described import BASES

            return CliAgent(BASES[name], environ)


BUILTIN: dict[str, Callable[[Mapping[str, str]], Provider]] = {
    name: partial(_built_in, name) for name in (*AGENTS, "cli", "api", "command", "python", "mock", "replay")
}
"""By name; each takes the environment that its agents inherit. Only those that a run uses are created."""
_NAME = re.compile(r"\w[\w.-]*")


class Offer(Struct, frozen=True):
    name: str
    origin: Origin
    place: str
    """The package or file that it comes from."""
    make: Callable[[], Provider]
    """Raises ProviderUnusable with the reason."""
    shadows: bool = False
    """Whether it overrides a built-in provider."""


def find_offers(project: str, environ: Mapping[str, str]) -> dict[str, Offer]:
    """By name. Providers of the project override those of packages, and both override built-in ones."""
    here = f"agentforge {__version__}"
    found = {name: Offer(name, "built in", here, partial(make, environ)) for name, make in BUILTIN.items()}
    found |= {offer.name: offer for offer in _offers_of_packages(environ)}
    for name, file in find_described(project).items():
        described = partial(_trusted_provider, project, name, file, environ)
        found[name] = Offer(name, "project", file, described, shadows=name in BUILTIN)
    return found


def refuse_untrusted(names: Iterable[str], project: str, environ: Mapping[str, str]) -> None:
    """Raises ProviderUnusable if the project overrides one of these built-in providers without the user's
    consent."""
    shadows = untrusted_files(project, environ)
    for name in names:
        if name in shadows:
            raise untrusted(name, shadows[name])


def untrusted_files(project: str, environ: Mapping[str, str]) -> dict[str, str]:
    """The project's files that would override built-in providers without the user's consent, by name."""
    described = find_described(project)
    shadows = described.keys() & BUILTIN.keys()
    if not shadows or is_trusted(project, environ):
        return {}
    return {name: described[name] for name in sorted(shadows)}


# -- descriptions


def find_described(project: str) -> dict[str, str]:
    """Provider descriptions by name, as file paths relative to the project."""
    try:
        found = sorted(files.listing(os.path.join(os.path.realpath(project), PROVIDERS)))
    except StorageFailed as error:
        log.warning("the project's providers can't be read: %s", error.message)
        return {}
    named = ((os.path.splitext(file)[0], file) for file in found if file.endswith((".yaml", ".yml")))
    return {name: os.path.join(PROVIDERS, file) for name, file in named if _NAME.fullmatch(name)}


def _trusted_provider(project: str, name: str, file: str, environ: Mapping[str, str]) -> Provider:
    if name in BUILTIN and not is_trusted(project, environ):
        raise untrusted(name, file)
    from agentforge.app.providers.described import described_provider

    return described_provider(project, name, file, environ)


# -- packages


def _offers_of_packages(environ: Mapping[str, str]) -> Iterator[Offer]:
    """Found by the metadata of the packages, which are imported only when their provider is used."""
    found: dict[str, dict[tuple[str, str], EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        # A package may be on the path twice.
        package = entry.dist.name if entry.dist else ""
        found.setdefault(entry.name, {}).setdefault((package, entry.value), entry)
    for name, entries in found.items():
        place = " and ".join(dict.fromkeys(map(_distribution, entries.values())))
        load = partial(_loaded, tuple(entries.values()), place, environ)
        yield Offer(name, "entry point", place, load, shadows=name in BUILTIN)


def _loaded(entries: Sequence[EntryPoint], place: str, environ: Mapping[str, str]) -> Provider:
    """Raises ProviderUnusable with the package and the cause for any error in its code."""
    entry = entries[0]
    if len(entries) > 1:
        raise ProviderUnusable(
            f"provider {entry.name!r} is offered by several packages: {place}",
            hint="uninstall all but one of them",
        )
    try:
        return _made(entry, environ)
    except (Exception, SystemExit) as error:
        cause, hint = f"{type(error).__name__}: {error}", ""
        if isinstance(error, AgentForgeError):
            cause, hint = error.message, error.hint
        package = entry.dist.name if entry.dist else "the package"
        raise ProviderUnusable(
            f"provider {entry.name!r} of {place} can't be loaded: {cause}",
            hint=hint or f"repair or uninstall {package} (entry point `{entry.value}`)",
        ) from error


def _made(entry: EntryPoint, environ: Mapping[str, str]) -> Provider:
    make = entry.load()
    if not callable(make):
        raise ProviderUnusable(f"`{entry.value}` must be a class or a function that returns a provider")
    try:
        takes_environ = "environ" in inspect.signature(make).parameters
    except (TypeError, ValueError):
        takes_environ = False  # A builtin without a signature.
    provider: Provider = make(environ=dict(environ)) if takes_environ else make()
    missing = [member for member in ("name", *METHODS) if not hasattr(provider, member)]
    if missing:
        lacking = ", ".join(f"`{member}`" for member in missing)
        raise ProviderUnusable(f"`{entry.value}` doesn't return a provider: it has no {lacking}")
    return provider


def _distribution(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unnamed package"


# -- trust

# A repository may bring a description of `claude` that runs something else. A provider with a name of its
# own is used by the pipelines that name it, but built-in names also stand in pipelines that the user wrote.
# So the consent is kept outside of the project.

TRUST_VARIABLE = "AGENTFORGE_TRUST_PROJECT"
MAX_TRUST_BYTES = 1 << 20


def is_trusted(project: str, environ: Mapping[str, str]) -> bool:
    """Whether the user trusts the project to override built-in providers: its own files can't say so."""
    if environ.get(TRUST_VARIABLE) == "1":
        return True
    folder = config_folder(environ)
    if folder is None:
        return False
    try:
        text = files.read_text(os.path.join(folder, TRUST_FILE), MAX_TRUST_BYTES)
    except StorageFailed:
        return False
    listed = (os.path.realpath(line.strip()) for line in (text or "").splitlines() if os.path.isabs(line))
    return os.path.realpath(project) in listed


def untrusted(name: str, file: str) -> ProviderUnusable:
    return ProviderUnusable(
        f"provider {name!r}: {file} would override the built-in one",
        hint="rename the file to give the provider its own name, pass --trust-project, or add the project's "
        f"folder to ~/.config/{TRUST_FILE}",
    )
