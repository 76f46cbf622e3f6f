"""The project's files for stages, `.agentforge/config/stages/<stage>.yaml`: which stages pipelines of the
controller leave out, and how the others run."""

from posixpath import join

from msgspec.structs import replace

from agentforge.definition.read.template_keys import STAGE_FILE
from agentforge.definition.report import Report, SourceText, absolute, relative
from agentforge.definition.settings import is_blank
from agentforge.definition.specs import NodeSpec, PipelineSpec, StageFile
from agentforge.definition.yaml_tree import parse_mapping, shown
from agentforge.model.layout import STAGE_FILES
from agentforge.ports.sources import Sources

# The files count for each node that runs a stage of that name, in a pipeline with `views: [controller]`, as
# every template has. Other pipelines don't know them: `enabled: false` would change what they mean. A file is
# stronger than the stage's own stage.yaml, which may be built in, and weaker than what the pipeline says of
# its node.


def configured(spec: PipelineSpec, sources: Sources, report: Report) -> PipelineSpec:
    """The pipeline with these files, without the stages that are switched off."""
    if not spec.has_controller_view:
        return spec
    nodes = tuple(_with_file(node, sources, report) for node in spec.nodes)
    for position, node in enumerate(nodes):
        if _is_off(node):
            _refuse_end(node, nodes[position + 1 :], report)
    kept = tuple(node for node in nodes if not _is_off(node))
    if nodes and not kept:
        message = f"all stages of {shown(spec.name)} are switched off"
        report.error("empty-pipeline", spec.source.start, message, "leave one of them on")
    return replace(spec, nodes=kept)


def _with_file(node: NodeSpec, sources: Sources, report: Report) -> NodeSpec:
    file = _read(node.stage.value, sources, report) if node.stage and node.is_stage else None
    return replace(node, configured=file.work, enabled=node.enabled or file.enabled) if file else node


def _read(stage: str, sources: Sources, report: Report) -> StageFile | None:
    folder = absolute(sources.project, STAGE_FILES)
    path = absolute(folder, f"{stage}.yaml")
    text = sources.read(path) if path.startswith(join(folder, "")) else None
    if text is None or is_blank(text):
        return None
    tree = parse_mapping(SourceText(relative(sources.project, path), text), report)
    return STAGE_FILE.read(tree, report) if tree else None


def _is_off(node: NodeSpec) -> bool:
    return node.enabled is not None and not node.enabled.value


def _refuse_end(node: NodeSpec, after: tuple[NodeSpec, ...], report: Report) -> None:
    """Without the stage that ends the run, later ones would run."""
    ends = [route.to for route in node.work.get("on") or () if route.ends_run]
    if ends and not all(map(_is_off, after)) and node.id:
        message = f"the run ends after {shown(node.id.value)}, which is switched off"
        report.error("conflict", ends[0].at, message, "let it end after another stage, or leave this one on")
