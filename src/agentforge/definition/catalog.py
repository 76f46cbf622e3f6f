"""What there is to run: the stages and pipelines that names can mean here."""

from posixpath import join

from msgspec import Struct

from agentforge.definition.diagnostics import Report
from agentforge.definition.paths import relative
from agentforge.definition.resolve import (
    find_pipeline,
    is_stage_folder,
    pipeline_names,
    stage_names,
    stage_roots,
)
from agentforge.definition.source import SourceText, parse_mapping
from agentforge.definition.tree import Scalar
from agentforge.ports.sources import Sources


class Available(Struct, frozen=True):
    name: str
    description: str
    path: str
    """Relative to the project where it lies inside."""


def available_stages(sources: Sources) -> list[Available]:
    roots = stage_roots(sources, sources.project)
    found: list[Available] = []
    for name in sorted(stage_names(sources, roots)):
        folders = (join(root, name) for root in roots)
        folder = next(folder for folder in folders if is_stage_folder(sources, folder))
        path = join(folder, "stage.yaml")
        found.append(Available(name, _description(sources, path), relative(sources.project, folder)))
    return found


def available_pipelines(sources: Sources) -> list[Available]:
    found: list[Available] = []
    for name in sorted(pipeline_names(sources)):
        path = find_pipeline(sources, name)
        if path:
            found.append(Available(name, _description(sources, path), relative(sources.project, path)))
    return found


def _description(sources: Sources, path: str) -> str:
    """What the file says of itself; a broken one is listed all the same, without words."""
    tree = parse_mapping(SourceText(path, sources.read(path) or ""), Report())
    for entry in tree.entries if tree else ():
        if (
            entry.key.text == "description"
            and isinstance(entry.value, Scalar)
            and entry.value.value is not None
        ):
            return " ".join(entry.value.text.split())
    return ""
