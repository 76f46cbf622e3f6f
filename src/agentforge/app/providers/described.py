"""The agent CLIs that are built in, and those that a project describes, one in each file of
`.agentforge/providers/`."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from agentforge.adapters.cli_agents.command_line import problems
from agentforge.adapters.cli_agents.description import AgentCli, Words
from agentforge.adapters.cli_agents.settings import describe_error
from agentforge.adapters.providers.claude import CLAUDE
from agentforge.adapters.providers.cli import FORMATS, CliAgent
from agentforge.adapters.providers.codex import CODEX
from agentforge.adapters.providers.gemini import GEMINI
from agentforge.adapters.providers.opencode import OPENCODE
from agentforge.definition.read.values import as_data, as_text
from agentforge.definition.report import Report, SourceText
from agentforge.definition.yaml_tree import Entry, Keyed, Listed, Tree, parse_mapping
from agentforge.model.diagnostic import SourcePlace, choice
from agentforge.model.errors import InvalidSettings, StorageFailed
from agentforge.ports.sources import MAX_SOURCE_BYTES
from agentforge.system.named_files import read_project_file

LIKE = "like"
"""The key that names the CLI whose description this one extends."""
BASES = {cli.name: cli for cli in (CLAUDE, CODEX, OPENCODE, GEMINI)}
_TYPES = {field.encode_name: field.type for field in msgspec.structs.fields(AgentCli)}
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]")


def described_provider(project: str, name: str, file: str, environ: Mapping[str, str]) -> CliAgent:
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
