"""Pipelines in the project's folder itself, told from the YAML files of other tools that lie there, too."""

import re

from msgspec import Struct

from agentforge.definition.read.file_keys import PIPELINE
from agentforge.definition.report import Report, SourceText, absolute
from agentforge.definition.yaml_tree import Keyed, Listed, Tree, parse_mapping
from agentforge.model.diagnostic import closest
from agentforge.model.errors import StorageFailed
from agentforge.ports.sources import Sources

MAX_FILES = 1_000
_KEYS = ("nodes", "stages")
_NEAR = 0.8
"""How close `nodez`, `Nodes` and `node` are to `nodes`."""
_AT_START = re.compile(r"""^\t*["']?(\w{,12})["']?[ \t]*:""", re.MULTILINE)
_KNOWN = frozenset(key.name for key in PIPELINE.keys)
_OF_A_NODE = frozenset(("id", "stage", "loop", "prompt", "executor", "parallel", "pipeline"))
_OF_OTHERS = frozenset(("jobs", "steps", "template"))
"""Azure Pipelines have stages with `stage`, too."""

EMPTY = "empty"
NO_NODES = "no `nodes`"
NO_NODE_OF_OURS = "no node with `stage`, `prompt`, `parallel` or `pipeline`"
NOT_YAML = "no `nodes`, and not valid YAML"
TOO_MANY = f"only the first {MAX_FILES:,} YAML files are read"


class RootFiles(Struct, frozen=True):
    """The YAML files in the project's folder, by name."""

    pipelines: tuple[str, ...] = ()
    """Also those with a mistake in `nodes` or in their syntax."""
    others: dict[str, str] = {}
    """Why each is not read as a pipeline."""


def root_files(sources: Sources) -> RootFiles:
    listed = (name for name in sources.listing(sources.project) if name.endswith((".yaml", ".yml")))
    names = [name for name in listed if not sources.is_dir(absolute(sources.project, name))]
    found = {name: _why_not(name, sources) for name in names[:MAX_FILES]}
    found |= dict.fromkeys(names[MAX_FILES:], TOO_MANY)
    others = {name: why for name, why in found.items() if why}
    return RootFiles(tuple(name for name in names if name not in others), others)


def _why_not(name: str, sources: Sources) -> str:
    """Why the file is not a pipeline, or an empty string."""
    try:
        text = sources.read(absolute(sources.project, name)) or ""
    except StorageFailed as error:
        return error.message
    if not text.strip():
        return EMPTY
    keys = _AT_START.findall(text)
    is_near = any(map(_is_near, keys))
    # Others may be large, as lock files of packages are.
    if not (is_near or "name" in keys or text.lstrip().startswith("{")):
        return NO_NODES
    tree = parse_mapping(SourceText(name, text), Report())
    if tree is None:
        # With an error in its syntax, only a pipeline of ours is our concern.
        return "" if any(_is_near(key, "nodes") for key in keys) else NOT_YAML
    return _why_no_pipeline(tree)


def _why_no_pipeline(tree: Keyed) -> str:
    values = {entry.key.text: entry.value for entry in tree.entries}
    if any(_is_near(key) and _has_nodes(value, _OF_A_NODE) for key, value in values.items()):
        return ""
    # Under a wrong key.
    others = values.keys() - _KNOWN
    if "name" in values and len(others) == 1 and _has_nodes(values[others.pop()], _OF_A_NODE - {"id"}):
        return ""
    return NO_NODE_OF_OURS if "nodes" in values else NO_NODES


def _is_near(key: str, *known: str) -> bool:
    return closest(key, known or _KEYS, _NEAR) is not None


def _has_nodes(value: Tree, keys: frozenset[str]) -> bool:
    items = value.items if isinstance(value, Listed) else ()
    names = [{entry.key.text for entry in item.entries} for item in items if isinstance(item, Keyed)]
    return any(keys & one for one in names) and not any(_OF_OTHERS & one for one in names)
