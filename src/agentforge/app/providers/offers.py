"""The providers available to a project, and where each comes from; created on first use.

A project describes its own in `.agentforge/providers/NAME.yaml`: one agent CLI per file.
"""

import inspect
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal, NoReturn

import msgspec
from msgspec import Struct

from agentforge.adapters.cli_agents.command_line import problems
from agentforge.adapters.cli_agents.description import AgentCli, Words
from agentforge.adapters.cli_agents.settings import describe_error
from agentforge.adapters.providers.api import ApiProvider
from agentforge.adapters.providers.claude import CLAUDE
from agentforge.adapters.providers.cli import FORMATS, CliAgent, InlineCli
from agentforge.adapters.providers.codex import CODEX
from agentforge.adapters.providers.command import CommandProvider
from agentforge.adapters.providers.gemini import GEMINI
from agentforge.adapters.providers.mock import MockProvider
from agentforge.adapters.providers.opencode import OPENCODE
from agentforge.adapters.providers.replay import ReplayProvider
from agentforge.definition.read.values import as_data, as_text
from agentforge.definition.report import Report
from agentforge.definition.yaml.parser import SourceText, parse_mapping
from agentforge.definition.yaml.tree import Entry, Keyed, Listed, Tree
from agentforge.model.diagnostic import SourcePlace, choice
from agentforge.model.errors import AgentForgeError, InvalidSettings, ProviderUnusable, StorageFailed
from agentforge.model.layout import PROVIDERS
from agentforge.ports.provider import Provider
from agentforge.ports.sources import MAX_SOURCE_BYTES
from agentforge.system import files
from agentforge.system.named_files import read_project_file
from agentforge.version import __version__

log = logging.getLogger("agentforge.providers")

GROUP = "agentforge.providers"
"""Of the entry points of packages."""
METHODS = ("init", "execute", "shutdown", "capabilities", "validate")
"""What a provider must have besides its name."""
Origin = Literal["registered", "project", "entry point", "built in"]
LIKE = "like"
"""The key that names the CLI whose description this one extends."""
BASES = {cli.name: cli for cli in (CLAUDE, CODEX, OPENCODE, GEMINI)}
BUILTIN: dict[str, Callable[[Mapping[str, str]], Provider]] = {
    **{name: partial(CliAgent, cli) for name, cli in BASES.items()},
    "cli": InlineCli,
    "api": ApiProvider,
    "command": CommandProvider,
    "mock": MockProvider,
    "replay": ReplayProvider,
}
"""By name; each takes the environment that its agents inherit. Only those that a run uses are created."""
_TYPES = {field.encode_name: field.type for field in msgspec.structs.fields(AgentCli)}
_NAME = re.compile(r"\w[\w.-]*")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


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
    for name, offered in offered_providers().items():
        load = partial(offered.load, environ)
        found[name] = Offer(name, "entry point", offered.place, load, shadows=name in BUILTIN)
    for name, file in find_described(project).items():
        described: Callable[[], Provider] = partial(described_provider, project, name, file, environ)
        if name in BUILTIN and not is_trusted(project, environ):
            described = partial(_raise, untrusted(name, file))
        found[name] = Offer(name, "project", file, described, shadows=name in BUILTIN)
    return found


def _raise(error: ProviderUnusable) -> NoReturn:
    raise error


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


def described_provider(project: str, name: str, file: str, environ: Mapping[str, str]) -> Provider:
    """Create a described provider. Raises InvalidSettings with the position of the first error."""
    report = Report()
    source = _source(project, file, report)
    if source is None:
        raise _invalid(report, file)
    return provider_from(source, name, environ)


def provider_from(source: SourceText, name: str, environ: Mapping[str, str]) -> CliAgent:
    """Create the provider that a text describes. Raises InvalidSettings with the position of the first
    error."""
    report = Report()
    cli = _description(source, name, report)
    if cli is None or report.has_errors:
        raise _invalid(report, source.file)
    return CliAgent(cli, environ)


def _invalid(report: Report, file: str) -> InvalidSettings:
    first = next(found for found in report.diagnostics if found.is_error)
    return InvalidSettings(f"{first.place.text}: {first.message}", hint=first.hint or f"correct {file}")


def read_description(project: str, name: str, file: str, report: Report) -> AgentCli | None:
    """The description, or None; errors are added to the report."""
    source = _source(project, file, report)
    return _description(source, name, report) if source else None


def _description(source: SourceText, name: str, report: Report) -> AgentCli | None:
    keyed = parse_mapping(source, report)
    if keyed is None:
        return None
    entries = {entry.key.text: entry for entry in keyed.entries}
    given = _values(entries, name, report)
    base = _base(entries.pop(LIKE, None), report)
    if report.has_errors:
        return None
    if base:
        given.setdefault("program", base.program_name)
    cli = msgspec.structs.replace(base or AgentCli(name=name), **{**given, "name": name})
    for problem in problems(cli, FORMATS):
        at = entries[problem.key].key.at if problem.key in entries else keyed.at
        report.error("bad-value", at, problem.message, problem.hint)
    return cli


def _source(project: str, file: str, report: Report) -> SourceText | None:
    try:
        content = read_project_file(project, file, MAX_SOURCE_BYTES)
    except StorageFailed as error:
        report.error("unreadable", SourcePlace(file, 1, 1), f"cannot read the file: {error.message}")
        return None
    if content is None:
        report.error("unreadable", SourcePlace(file, 1, 1), "cannot read the file: it is missing")
        return None
    return SourceText(file, content.decode("utf-8", "surrogateescape"))


def _values(entries: Mapping[str, Entry], name: str, report: Report) -> dict[str, Any]:
    found = {}
    for key, entry in entries.items():
        if key == LIKE:
            continue
        if key not in _TYPES:
            hint = choice(key, "known keys", [*_TYPES, LIKE])
            report.error("unknown-key", entry.key.at, f"unknown key `{key}`", hint)
            continue
        found[key] = _value(key, entry.value, report)
    if found.get("name", name) != name:
        at = entries["name"].value.at
        message = f"`name` must match the file name: expected `{name}`, got `{found['name']}`"
        report.error("bad-value", at, message, "rename the file, or remove `name`")
    return found


def _value(key: str, tree: Tree, report: Report) -> Any:
    if isinstance(tree, Listed) and _TYPES[key] in (Words, Words | None):
        texts = [as_text(item, f"`{key}`", report) for item in tree.items]
        return tuple(text.value for text in texts if text)
    data = as_data(tree, f"`{key}`", report)
    try:
        return msgspec.convert(data, _TYPES[key])
    except msgspec.ValidationError as error:
        path = str(error).partition(" - at `$")[2]
        report.error("bad-type", _place(tree, path.rstrip("`")), describe_error(error, key))
        return None


def _place(tree: Tree, path: str) -> SourcePlace:
    """The position in the file of a path within the value, such as `.text[0]`."""
    for key, index in _STEP.findall(path):
        match tree:
            case Listed() if index:
                tree = tree.items[int(index)]
            case Keyed():
                tree = next((entry.value for entry in tree.entries if entry.key.text == key), tree)
    return tree.at


def _base(like: Entry | None, report: Report) -> AgentCli | None:
    if like is None:
        return None
    named = as_text(like.value, f"`{LIKE}`", report)
    if named and named.value not in BASES:
        hint = choice(named.value, "described CLIs", sorted(BASES))
        report.error("bad-value", named.at, f"`{LIKE}`: unknown CLI {named.value!r}", hint)
    return BASES.get(named.value) if named else None


# -- packages


class Offered(Struct, frozen=True):
    """A provider of installed packages: found by their metadata, loaded only when it is used."""

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
    missing = [member for member in ("name", *METHODS) if not hasattr(provider, member)]
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


# -- trust

TRUST_VARIABLE = "AGENTFORGE_TRUST_PROJECT"
TRUST_FILE = os.path.join("agentforge", "trusted-projects")
"""In the user's config folder: one project's folder per line."""
MAX_TRUST_BYTES = 1 << 20


def is_trusted(project: str, environ: Mapping[str, str]) -> bool:
    """Whether the user trusts the project to override built-in providers: its own files can't say so."""
    if environ.get(TRUST_VARIABLE) == "1":
        return True
    home = environ.get("HOME", "")
    folder = environ.get("XDG_CONFIG_HOME") or (os.path.join(home, ".config") if home else "")
    if not os.path.isabs(folder):
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
