"""Fourth pass: resolves the `inputs` of every stage to the nodes whose outputs they mean.

Inside a block, a stage's own `inputs` override those of its provider key by key, and those override the
block's. The inputs of a nested pipeline go to its first stage.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.precedence import canonical
from agentforge.definition.read.node_keys import SELECTS
from agentforge.definition.report import Report
from agentforge.definition.specs import (
    BlockSpec,
    InputsSpec,
    NodeSpec,
    ParallelRef,
    ResolvedBlock,
    ResolvedNested,
    ResolvedNode,
    ResolvedPipeline,
    ids_of,
)
from agentforge.definition.yaml_tree import Written, shown
from agentforge.model.diagnostic import choice
from agentforge.model.plan import FromParallel, FromStage, InputSources, Select

SAME_BLOCK = (
    "Cross-provider dependencies within a parallel block are not supported. Split into sequential blocks."
)
_NO_SOURCES = InputSources()


# Outputs are looked up when a stage starts; here it is decided whose. Only nodes before the consumer count,
# in the order of the file: routes may revisit nodes later, but a first visit must find its inputs. A stage of
# a block sees the earlier stages of its own branch, never those of another branch, which may not have run
# yet; a later node sees all branches (`from_parallel`). The shell engine took a missing source for an empty
# one, so that agents worked without what their prompt refers to; here it is an error that says where the name
# does exist.


class Consumer(Struct, frozen=True):
    """The node with the inputs: a node, or a stage of a block in the branch of one provider."""

    index: int
    stage: int | None = None
    """None for a node, and for inputs of a whole block or branch, which can't use the block's stages."""
    branch: str | None = None


class Scope:
    """The nodes of one pipeline; `prefix` is prepended to their paths if it is nested."""

    def __init__(self, pipeline: ResolvedPipeline, prefix: str, report: Report) -> None:
        self._nodes = pipeline.spec.nodes
        self._resolved = pipeline.nodes
        self._prefix = prefix
        self._report = report

    def from_stage(self, ref: Written[str], select: Written[str] | None, here: Consumer) -> FromStage | None:
        """An earlier stage of the same branch, else an earlier node."""
        chosen = _select(select)
        stages = self._block_stages(here.index)[: here.stage or 0]
        position = _position(stages, ref.value)
        if position is not None:
            return FromStage(ref.value, f"{self._prefix}{here.index}.{position}", chosen, here.branch)
        position = _position(self._nodes[: here.index], ref.value)
        if position is None:
            self._explain_missing(ref, here)
            return None
        path = self._output_path(position, ref)
        return FromStage(ref.value, path, chosen) if path else None

    def from_parallel(self, ref: ParallelRef, here: Consumer) -> FromParallel | None:
        """A stage of an earlier block."""
        select = _select(ref.select)
        index = self._named_block(ref, ref.block, here) if ref.block else self._only_block(ref, here)
        block = None if index is None else self._nodes[index].block
        if index is None or block is None:
            return None
        node_id = self._nodes[index].id
        return FromParallel(
            stage=ref.stage.value,
            block=node_id.value if node_id else "",
            path=f"{self._prefix}{index}",
            providers=self._providers(ref, block),
            select=select,
        )

    def _block_stages(self, index: int) -> tuple[NodeSpec, ...]:
        block = self._nodes[index].block
        return block.stages if block else ()

    def _output_path(self, index: int, ref: Written[str]) -> str | None:
        """The path that provides an earlier node's outputs: its own, or a nested pipeline's last stage."""
        block = self._nodes[index].block
        if block:
            ids = ids_of(block.stages)
            hint = f"use `from_parallel: {ids[-1]}`" if ids else "use `from_parallel`"
            self._report.error("wrong-kind", ref.at, f"{shown(ref.value)} is a parallel block", hint)
            return None
        node = self._resolved[index]
        path = _last_stage(node, f"{self._prefix}{index}") if node else None
        if node and path is None:
            message = f"the pipeline {shown(ref.value)} doesn't end with a stage, so it has no output"
            hint = "add a final stage that merges the outputs"
            self._report.error("wrong-kind", ref.at, message, hint)
        return path

    def _named_block(self, ref: ParallelRef, name: Written[str], here: Consumer) -> int | None:
        index = _position(self._nodes, name.value)
        node = None if index is None else self._nodes[index]
        if index is None or node is None or node.block is None:
            blocks = ids_of(node for node in self._nodes[: here.index] if node.block)
            message = f"no parallel block {shown(name.value)} before this node"
            self._report.error("unknown-node", name.at, message, choice(name.value, "blocks", blocks))
        elif index == here.index:
            self._refuse_same_block(ref)
        elif index > here.index:
            self._report.error("later-node", name.at, f"the block {shown(name.value)} runs after this node")
        elif _position(node.block.stages, ref.stage.value) is None:
            message = f"the block {shown(name.value)} has no stage {shown(ref.stage.value)}"
            hint = choice(ref.stage.value, "stages", ids_of(node.block.stages))
            self._report.error("unknown-node", ref.stage.at, message, hint)
        else:
            return index
        return None

    def _only_block(self, ref: ParallelRef, here: Consumer) -> int | None:
        """The only earlier block that has the stage; it is an error if several have it."""
        name = ref.stage.value
        having = [i for i in range(here.index) if _position(self._block_stages(i), name) is not None]
        if len(having) == 1:
            return having[0]
        if having:
            names = ", ".join(f"`{name}`" for name in ids_of(self._nodes[index] for index in having))
            message = f"multiple blocks have a stage {shown(ref.stage.value)}: {names}"
            self._report.error("ambiguous-stage", ref.stage.at, message, hint="specify one with `block: …`")
        elif _position(self._block_stages(here.index), ref.stage.value) is not None:
            self._refuse_same_block(ref)
        else:
            self._explain_missing_in_blocks(ref.stage, here)
        return None

    def _refuse_same_block(self, ref: ParallelRef) -> None:
        hint = "use `from` for the same branch; other providers' outputs are only available to later blocks"
        self._report.error("same-block", ref.stage.at, SAME_BLOCK, hint)

    def _providers(self, ref: ParallelRef, block: BlockSpec) -> tuple[str, ...]:
        names = {branch.name.value for branch in block.branches if branch.name}
        if ref.providers is None:
            return tuple(sorted(names))
        if not ref.providers:
            hint = "omit the key to use all providers"
            self._report.error("bad-value", ref.at, "`providers` must name at least one provider", hint)
        chosen = set[str]()
        for written in ref.providers:
            fitting = {name for name in names if name == written.value} or {
                name for name in names if canonical(name) == canonical(written.value)
            }
            if not fitting:
                message = f"the block has no provider {shown(written.value)}"
                hint = choice(written.value, "providers", names)
                self._report.error("unknown-provider", written.at, message, hint)
            chosen |= fitting
        return tuple(sorted(chosen))

    def _explain_missing(self, ref: Written[str], here: Consumer) -> None:
        own = _position(self._block_stages(here.index), ref.value)
        later = _position(self._nodes[here.index :], ref.value)
        if later == 0 or (own is not None and own == here.stage):
            message = f"{shown(ref.value)} cannot use its own output as input"
            hint = "earlier iterations are always in the context, as `from_previous_iterations`"
            self._report.error("later-node", ref.at, message, hint)
        elif own is not None and here.stage is None:
            message = f"{shown(ref.value)} is a stage of this block; only the block's stages can use it"
            self._report.error("later-node", ref.at, message, hint="move the `inputs` to the stage")
        elif own is not None or later is not None:
            self._report_later(ref)
        elif self._is_in_a_block(ref.value, here.index):
            message = f"{shown(ref.value)} is a stage of a parallel block"
            self._report.error("wrong-kind", ref.at, message, hint=f"use `from_parallel: {ref.value}`")
        else:
            self._report_unknown(ref, "node", ids_of(self._nodes[: here.index]))

    def _explain_missing_in_blocks(self, ref: Written[str], here: Consumer) -> None:
        if _position(self._nodes[: here.index], ref.value) is not None:
            message = f"{shown(ref.value)} is a node, not a stage of a parallel block"
            hint = "use `from`, or name one of the block's stages"
            self._report.error("wrong-kind", ref.at, message, hint)
        elif self._is_in_a_block(ref.value, len(self._nodes)):
            self._report_later(ref)
        else:
            stages = (stage for index in range(here.index) for stage in self._block_stages(index))
            self._report_unknown(ref, "stage of a parallel block", ids_of(stages))

    def _is_in_a_block(self, name: str, before: int) -> bool:
        return any(_position(self._block_stages(index), name) is not None for index in range(before))

    def _report_later(self, ref: Written[str]) -> None:
        message = f"{shown(ref.value)} runs after this node"
        self._report.error("later-node", ref.at, message, "reorder the nodes")

    def _report_unknown(self, ref: Written[str], what: str, known: list[str]) -> None:
        message = f"no earlier {what} has the id {shown(ref.value)}"
        hint = choice(ref.value, "ids", known) if known else f"no {what} runs before this one"
        self._report.error("unknown-node", ref.at, message, hint)


def _select(written: Written[str] | None) -> Select:
    return SELECTS.get(written.value, "latest") if written else "latest"


def _position(nodes: tuple[NodeSpec, ...], name: str) -> int | None:
    found = (index for index, node in enumerate(nodes) if node.id and node.id.value == name)
    return next(found, None)


def _last_stage(node: ResolvedNode, path: str) -> str | None:
    if isinstance(node, ResolvedNested):
        nodes = node.pipeline.nodes
        last = nodes[-1] if nodes else None
        return _last_stage(last, f"{path}.{len(nodes) - 1}") if last else None
    return None if isinstance(node, ResolvedBlock) else path


Links = dict[tuple[str, str], InputSources]
"""By the stage's full path and its branch; stages without inputs have no entry."""


def link(pipeline: ResolvedPipeline, report: Report) -> Links:
    linking = _Linking(report)
    linking.pipeline(pipeline, "", _NO_SOURCES)
    return linking.links


def inherited(*levels: InputsSpec) -> dict[str, object]:
    """Merge the inputs of several levels, strongest first; `select` stays with its `from`."""
    merged: dict[str, object] = {}
    for level in levels:
        taken = dict(level.written)
        if "from" in merged or "from" not in taken:
            taken.pop("select", None)
        merged = {**taken, **merged}
    return merged


class _Linking:
    def __init__(self, report: Report) -> None:
        self._report = report
        self.links: Links = {}

    def pipeline(self, pipeline: ResolvedPipeline, prefix: str, given: InputSources) -> None:
        scope = Scope(pipeline, prefix, self._report)
        for index, spec in enumerate(pipeline.spec.nodes):
            node, path = pipeline.nodes[index], f"{prefix}{index}"
            before = given if index == 0 else _NO_SOURCES
            if isinstance(node, ResolvedBlock):
                self._block(scope, node, index, path, before)
                continue
            sources = _first_of(before, _sources(scope, [(spec.inputs, Consumer(index))]))
            if isinstance(node, ResolvedNested):
                self.pipeline(node.pipeline, f"{path}.", sources)
            else:
                self._keep(path, "", sources)

    def _block(self, scope: Scope, node: ResolvedBlock, index: int, path: str, given: InputSources) -> None:
        for branch in node.block.branches:
            name = branch.name.value if branch.name else ""
            outer = [(branch.inputs, Consumer(index)), (node.spec.inputs, Consumer(index))]
            for position, stage in enumerate(node.block.stages):
                own = (stage.inputs, Consumer(index, position, name))
                before = given if position == 0 else _NO_SOURCES
                sources = _first_of(before, _sources(scope, [own, *outer]))
                self._keep(f"{path}.{position}", name, sources)

    def _keep(self, path: str, branch: str, sources: InputSources) -> None:
        if sources != _NO_SOURCES:
            self.links[path, branch] = sources


def _sources(scope: Scope, levels: Sequence[tuple[InputsSpec, Consumer]]) -> InputSources:
    """Levels strongest first; `from` and `from_parallel` each come from the strongest that has them. All
    levels are resolved, so that errors are reported even if a stronger level overrides them."""
    merged = _NO_SOURCES
    for inputs, here in reversed(levels):
        stages = [scope.from_stage(ref, inputs.select, here) for ref in inputs.stages]
        blocks = [scope.from_parallel(ref, here) for ref in inputs.parallel]
        if "from" in inputs.written:
            merged = replace(merged, from_stage=tuple(dict.fromkeys(filter(None, stages))))
        if "from_parallel" in inputs.written:
            found = tuple(filter(None, blocks))
            merged = replace(merged, from_parallel=found, parallel_list=inputs.parallel_list)
    return merged


def _first_of(given: InputSources, own: InputSources) -> InputSources:
    """A first stage gets the inputs of its pipeline; no earlier node exists that it could refer to itself."""
    return own if given == _NO_SOURCES else given
