"""Second pass: trees to specs. Reports values of the wrong kind; whether they make sense is checked later."""

from posixpath import basename, splitext

from agentforge.definition.diagnostics import Report
from agentforge.definition.fields import Fields, as_text
from agentforge.definition.read_nodes import read_nodes
from agentforge.definition.read_work import read_defaults, read_guardrails, read_work
from agentforge.definition.source import SourceText
from agentforge.definition.spec import NodeSpec, PipelineSpec, StageSpec, WorkSpec, Written
from agentforge.definition.tree import Keyed, Listed, kind_of

UNNAMED = "pipeline"


def read_pipeline(source: SourceText, tree: Keyed, report: Report) -> PipelineSpec:
    fields = Fields(tree, "pipeline", report)
    name = fields.text("name")
    description = fields.text("description")
    commands = fields.texts("commands")
    top = read_defaults(fields)
    nodes = _nodes(fields)
    levels = (_default_level(fields), top)
    inputs, max_runtime, tmux = _input_list(fields), read_guardrails(fields), fields.flag("tmux")
    fields.skip("version")
    fields.end()
    return PipelineSpec(
        source=source,
        name=name.value if name else _stem(source.file),
        nodes=nodes,
        levels=levels,
        description=description.value if description else None,
        inputs=inputs,
        commands=commands,
        max_runtime=max_runtime,
        tmux=tmux.value if tmux else True,
        leftovers=tuple(fields.left),
    )


def read_stage(source: SourceText, tree: Keyed, report: Report) -> StageSpec:
    fields = Fields(tree, "stage", report)
    name = fields.text("name")
    work = read_work(fields)
    fields.skip("version", "progress")
    fields.end()
    return StageSpec(source, work, name, tuple(fields.left))


def _nodes(fields: Fields) -> tuple[NodeSpec, ...]:
    key, old = fields.key("nodes"), fields.key("stages")
    if old and key:
        fields.report.error("conflict", old.at, "the pipeline has both `nodes` and `stages`", "keep `nodes`")
    elif old:
        fields.report.warning("deprecated-key", old.at, "`stages` is deprecated", "rename it to `nodes`")
    current, former = fields.tree("nodes"), fields.tree("stages")
    tree = former if key is None else current
    at = (key or old or fields).at
    if tree is None or (isinstance(tree, Listed) and not tree.items):
        hint = "add `- id: …` with `stage: …`"
        fields.report.error("empty-pipeline", at, "empty pipeline: it has no nodes", hint)
        return ()
    if not isinstance(tree, Listed):
        fields.report.error("bad-type", tree.at, f"`nodes` must be a list, not {kind_of(tree)}")
        return ()
    return read_nodes(fields, tree)


def _input_list(fields: Fields) -> tuple[Written[str], ...] | None:
    tree = fields.tree("inputs")
    if tree is None:
        return None
    items = tree.items if isinstance(tree, Listed) else (tree,)
    found = (as_text(item, "an input", fields.report) for item in items)
    return tuple(item for item in found if item)


def _default_level(fields: Fields) -> WorkSpec:
    keyed = fields.keyed("defaults")
    if keyed is None:
        return WorkSpec()
    defaults = fields.inside(keyed, "defaults")
    work = read_defaults(defaults)
    defaults.end()
    return work


def _stem(file: str) -> str:
    return splitext(basename(file))[0] if not file.startswith("<") else UNNAMED
