"""Pipelines in the project's folder itself, told from the YAML files of other tools that lie there, too."""

import re

from msgspec import Struct

from agentforge.definition.report import Report
from agentforge.definition.yaml.parser import SourceText, absolute, parse_mapping
from agentforge.definition.yaml.tree import Keyed, Listed, Tree
from agentforge.model.errors import StorageFailed
from agentforge.ports.sources import Sources

MAX_FILES = 1_000
_KEYS = ("nodes", "stages")
_NAMED = re.compile(r"""^["']?(?:nodes|stages)["']?[ \t]*:""", re.MULTILINE)
_OF_A_NODE = frozenset(("id", "stage", "loop", "prompt", "parallel", "pipeline"))
# Azure Pipelines have stages with `stage`, too.
_OF_OTHERS = frozenset(("jobs", "steps", "template"))


class RootFiles(Struct, frozen=True):
    """The YAML files in the project's folder, by name, that are or may be pipelines."""

    pipelines: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()
    """With `nodes`, none of which is one of a pipeline, or not looked at: there are more than MAX_FILES."""


def root_files(sources: Sources) -> RootFiles:
    names = [name for name in sources.listing(sources.project) if name.endswith((".yaml", ".yml"))]
    found = {name: _is_pipeline(name, sources) for name in names[:MAX_FILES]}
    pipelines = tuple(name for name, is_pipeline in found.items() if is_pipeline)
    unclear = (name for name, is_pipeline in found.items() if is_pipeline is None)
    return RootFiles(pipelines, (*unclear, *names[MAX_FILES:]))


def _is_pipeline(name: str, sources: Sources) -> bool | None:
    """None: it has `nodes`, but they don't look like those of a pipeline."""
    try:
        text = sources.read(absolute(sources.project, name)) or ""
    except StorageFailed:
        return False
    if not _NAMED.search(text):
        return False
    tree = parse_mapping(SourceText(name, text), Report())
    if tree is None:
        # With an error in its syntax, only a pipeline of ours is our concern.
        return re.search(r"^nodes:", text, re.MULTILINE) is not None
    lists = {entry.key.text: entry.value for entry in tree.entries if entry.key.text in _KEYS}
    if any(_has_nodes(value) for value in lists.values()):
        return True
    return None if "nodes" in lists else False


def _has_nodes(value: Tree) -> bool:
    items = value.items if isinstance(value, Listed) else ()
    keys = [{entry.key.text for entry in item.entries} for item in items if isinstance(item, Keyed)]
    return any(_OF_A_NODE & names for names in keys) and not any(_OF_OTHERS & names for names in keys)
