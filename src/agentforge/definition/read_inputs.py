"""Reading `inputs`: whose outputs a node, a block or one of its providers wants."""

from agentforge.definition.fields import Fields, as_data, as_text
from agentforge.definition.spec import InputsSpec, ParallelRef
from agentforge.definition.tree import Keyed, Listed, Tree, kind_of


def read_inputs(fields: Fields) -> InputsSpec:
    keyed = fields.keyed("inputs")
    if keyed is None:
        return InputsSpec()
    inputs = fields.inside(keyed, "inputs")
    found: dict[str, object] = {}
    for name in ("from", "select", "from_parallel", "from_initial", "from_previous_iterations"):
        tree = inputs.tree(name)
        if tree is not None:
            found[name] = as_data(tree, f"`inputs.{name}`", fields.report)
    parallel = inputs.tree("from_parallel")
    select = inputs.key("select")
    if select and "select" in found and "from" not in found:
        hint = "in `from_parallel`, write it beside `stage`"
        fields.report.warning("ignored-key", select.at, "`select` has no effect without `from`", hint)
    spec = InputsSpec(
        written=found,
        stages=inputs.some_texts("from") or (),
        select=inputs.text("select"),
        parallel=_refs(inputs, parallel) if parallel else (),
        parallel_list=isinstance(parallel, Listed),
    )
    inputs.end()
    return spec


def _refs(fields: Fields, tree: Tree) -> tuple[ParallelRef, ...]:
    items = tree.items if isinstance(tree, Listed) else (tree,)
    return tuple(ref for item in items if (ref := _ref(fields, item)))


def _ref(fields: Fields, tree: Tree) -> ParallelRef | None:
    """A stage's id, or a mapping that says more."""
    if isinstance(tree, Listed):
        message = f"an entry of `from_parallel` must be a stage's id or a mapping, not {kind_of(tree)}"
        fields.report.error("bad-type", tree.at, message)
        return None
    if not isinstance(tree, Keyed):
        stage = as_text(tree, "`from_parallel`", fields.report)
        return ParallelRef(tree.at, stage) if stage else None
    inner = fields.inside(tree, "from_parallel")
    stage = inner.text("stage")
    block, select, providers = inner.text("block"), inner.text("select"), inner.some_texts("providers")
    inner.end()
    if stage is None:
        if inner.tree("stage") is None:
            hint = "add `stage: …`, the id of a stage in an earlier block"
            fields.report.error("missing-key", tree.at, "`from_parallel` has no `stage`", hint)
        return None
    return ParallelRef(tree.at, stage, block, providers, select)
