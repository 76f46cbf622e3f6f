"""The providers available to a project, and where each comes from; created on first use.

A project describes its own in `.agentforge/providers/NAME.yaml`: one agent CLI per file.
"""

import inspect
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

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
from agentforge.definition.report import Report, SourceText
from agentforge.definition.yaml_tree import Entry, Keyed, Listed, Tree, parse_mapping
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
    return described_provider(project, name, file, environ)


def described_provider(project: str, name: str, file: str, environ: Mapping[str, str]) -> Provider:
    """Create a described provider. Raises InvalidSettings with the position of the first error."""
    report = Report()
    return _created(read_description(project, name, file, report), report, file, environ)


def provider_from(source: SourceText, name: str, environ: Mapping[str, str]) -> CliAgent:
    """Create the provider that a text describes. Raises InvalidSettings with the position of the first
    error."""
    report = Report()
    return _created(_description(source, name, report), report, source.file, environ)


def _created(cli: AgentCli | None, report: Report, file: str, environ: Mapping[str, str]) -> CliAgent:
    if cli is None or report.has_errors:
        first = next(found for found in report.diagnostics if found.is_error)
        raise InvalidSettings(f"{first.place.text}: {first.message}", hint=first.hint or f"correct {file}")
    return CliAgent(cli, environ)


def read_description(project: str, name: str, file: str, report: Report) -> AgentCli | None:
    """The description, or None; errors are added to the report."""
    try:
        content = read_project_file(project, file, MAX_SOURCE_BYTES)
        problem = "it is missing"
    except StorageFailed as error:
        content, problem = None, error.message
    if content is None:
        report.error("unreadable", SourcePlace(file, 1, 1), f"cannot read the file: {problem}")
        return None
    return _description(SourceText(file, content.decode("utf-8", "surrogateescape")), name, report)


def _description(source: SourceText, name: str, report: Report) -> AgentCli | None:
    keyed = parse_mapping(source, report)
    if keyed is None:
        return None
    entries = {entry.key.text: entry for entry in keyed.entries}
    given = _values(entries, name, report)
    like = entries.pop(LIKE, None)
    named = as_text(like.value, f"`{LIKE}`", report) if like else None
    if named and named.value not in BASES:
        hint = choice(named.value, "described CLIs", sorted(BASES))
        report.error("bad-value", named.at, f"`{LIKE}`: unknown CLI {named.value!r}", hint)
    if report.has_errors:
        return None
    base = BASES[named.value] if named else None
    if base:
        given.setdefault("program", base.program_name)
    cli = msgspec.structs.replace(base or AgentCli(name=name), **{**given, "name": name})
    for problem in problems(cli, FORMATS):
        at = entries[problem.key].key.at if problem.key in entries else keyed.at
        report.error("bad-value", at, problem.message, problem.hint)
    return cli


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
