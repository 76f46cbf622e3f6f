"""Reading nodes: a stage, a parallel block or a pipeline within the pipeline."""

from agentforge.definition.fields import Fields, as_data, as_text
from agentforge.definition.read_inputs import read_inputs
from agentforge.definition.read_provider import read_config
from agentforge.definition.read_work import read_work
from agentforge.definition.spec import (
    BlockSpec,
    BranchSpec,
    InputsSpec,
    NodeSpec,
    ProviderSpec,
    WorkSpec,
    Written,
)
from agentforge.definition.tree import Keyed, Listed, Scalar, Tree, kind_of

_OF_A_STAGE = ("stage", "loop", "prompt")


def read_nodes(fields: Fields, listed: Listed, what: str = "node") -> tuple[NodeSpec, ...]:
    """`what` is the word for one of them in messages."""
    return tuple(node for item in listed.items if (node := _node(fields, item, what)))


def _node(outer: Fields, tree: Tree, what: str) -> NodeSpec | None:
    if not isinstance(tree, Keyed):
        hint = f"write `- stage: {tree.text}`" if isinstance(tree, Scalar) and tree.text else ""
        outer.report.error("bad-type", tree.at, f"a {what} must be a mapping, not {kind_of(tree)}", hint)
        return None
    fields = outer.inside(tree, what)
    for kind, read in (("parallel", _block_node), ("pipeline", _pipeline_node)):
        key = fields.key(kind)
        if key and what == "node":
            _refuse_second_kind(fields, kind)
            return read(outer.inside(tree, f"{kind} node"))
        if key:
            message = f"`{kind}` can't stand inside a parallel block"
            fields.report.error("unsupported", key.at, message, hint="give it a node of its own")
            fields.skip(kind)
    return _stage_node(fields)


def _refuse_second_kind(fields: Fields, kind: str) -> None:
    others = (*_OF_A_STAGE, *(other for other in ("parallel", "pipeline") if other != kind))
    for other in others:
        key = fields.key(other)
        if key:
            message = f"a node can't have both `{kind}` and `{other}`"
            fields.report.error("conflict", key.at, message, hint="make them two nodes")


def _stage_node(fields: Fields) -> NodeSpec:
    node_id = _id(fields)
    stage, loop = fields.text("stage"), fields.text("loop")
    work = read_work(fields)
    inputs = read_inputs(fields)
    fields.end()
    is_stage = not (fields.key("executor") or fields.key("parallel") or fields.key("pipeline"))
    return NodeSpec(fields.at, node_id, stage or loop, work, inputs, is_stage=is_stage)


def _pipeline_node(fields: Fields) -> NodeSpec:
    node_id, description = _id(fields), fields.text("description")
    runs, inputs = fields.count("runs"), read_inputs(fields)
    pipeline = fields.text("pipeline")
    if pipeline is None and fields.tree("pipeline") is None:
        fields.report.error("missing-key", fields.at, "`pipeline` names no pipeline", "add its name or path")
    _end(fields)
    work = WorkSpec(description=description, runs=runs)
    return NodeSpec(fields.at, node_id, None, work, inputs, pipeline=pipeline, is_stage=False)


def _block_node(fields: Fields) -> NodeSpec:
    node_id, description, inputs = _id(fields), fields.text("description"), read_inputs(fields)
    keyed = fields.keyed("parallel")
    if keyed is None and fields.tree("parallel") is None:
        hint = "add `providers: [claude, codex]` and `stages:`"
        fields.report.error("missing-key", fields.at, "`parallel` is empty", hint)
    _end(fields)
    block = _block(fields, keyed) if keyed else None
    work = WorkSpec(description=description)
    return NodeSpec(fields.at, node_id, None, work, inputs, block=block, is_stage=False)


def _block(outer: Fields, keyed: Keyed) -> BlockSpec:
    fields = outer.inside(keyed, "parallel")
    providers, stages = fields.listed("providers"), fields.listed("stages")
    failure_mode = fields.text("failure_mode")
    for name, listed in (("providers", providers), ("stages", stages)):
        if (listed is None and fields.tree(name) is None) or (listed and not listed.items):
            at = listed.at if listed else keyed.at
            hint = "name at least one" if name == "providers" else "add `- id: …` with `stage: …`"
            fields.report.error("missing-key", at, f"the parallel block has no `{name}`", hint)
    fields.end()
    branches = (_branch(fields, item) for item in providers.items) if providers else ()
    return BlockSpec(
        keyed.at,
        tuple(branch for branch in branches if branch),
        read_nodes(fields, stages, "stage of the block") if stages else (),
        failure_mode,
    )


def _branch(outer: Fields, tree: Tree) -> BranchSpec | None:
    """A provider's name, or a mapping in which `type` may differ from the branch's own `name`."""
    written = as_data(tree, "`providers`", outer.report)
    if not isinstance(tree, Keyed):
        name = as_text(tree, "a provider of the block", outer.report)
        return BranchSpec(tree.at, name, ProviderSpec(name), written) if name else None
    fields = outer.inside(tree, "provider of the block")
    name, kind, model = fields.text("name"), fields.text("type"), fields.text("model")
    inputs: InputsSpec = read_inputs(fields)
    if name is None and kind is None and not (fields.tree("name") or fields.tree("type")):
        message, hint = "a provider of the block has no `name`", "add `name: claude` or another"
        fields.report.error("missing-key", tree.at, message, hint)
    config = read_config(fields, tree, but=("name", "type", "model", "inputs"))
    return BranchSpec(tree.at, name or kind, ProviderSpec(kind or name, model, config), written, inputs)


def _end(fields: Fields) -> None:
    """The keys of another kind of node are reported as a conflict already."""
    fields.skip(*(name for name in (*_OF_A_STAGE, "parallel", "pipeline") if fields.key(name)))
    fields.end()


def _id(fields: Fields) -> Written[str] | None:
    node_id, name = fields.text("id"), fields.text("name")
    return node_id or name
