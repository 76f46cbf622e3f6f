"""Fourth pass: the `inputs` of every stage to the places in the plan whose outputs they mean.

Inside a block a stage's own `inputs` win, key by key, over those of its branch's provider, and these over
the block's. What a pipeline within a pipeline is given goes to its first stage.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.diagnostics import Report
from agentforge.definition.precedence import canonical
from agentforge.definition.read.node_keys import SELECTS
from agentforge.definition.specs import (
    BlockSpec,
    InputsSpec,
    NodeSpec,
    ParallelRef,
    ResolvedBlock,
    ResolvedNested,
    ResolvedNode,
    ResolvedPipeline,
    Written,
)
from agentforge.definition.yaml.tree import shown
from agentforge.model.diagnostic import choice
from agentforge.model.plan import FromParallel, FromStage, InputSources, Select

SAME_BLOCK = (
    "Cross-provider dependencies within a parallel block are not supported. Split into sequential blocks."
)
_NOTHING = InputSources()


class Here(Struct, frozen=True):
    """The place that asks: a node, or a stage of a block in the branch of one provider."""

    index: int
    stage: int | None = None
    """None for a node, and for what is said for a whole block or branch: it sees no stage of the block."""
    branch: str | None = None


class Scope:
    """The nodes of one pipeline; `prefix` leads their paths where it lies within another."""

    def __init__(self, pipeline: ResolvedPipeline, prefix: str, report: Report) -> None:
        self._nodes = pipeline.spec.nodes
        self._resolved = pipeline.nodes
        self._prefix = prefix
        self._report = report

    def from_stage(self, ref: Written[str], select: Written[str] | None, here: Here) -> FromStage | None:
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

    def from_parallel(self, ref: ParallelRef, here: Here) -> FromParallel | None:
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
        """Where the outputs of an earlier node come from: itself, or the last stage of a pipeline within."""
        block = self._nodes[index].block
        if block:
            ids = [stage.id.value for stage in block.stages if stage.id]
            hint = f"use `from_parallel: {ids[-1]}`" if ids else "use `from_parallel`"
            self._report.error("wrong-kind", ref.at, f"{shown(ref.value)} is a parallel block", hint)
            return None
        node = self._resolved[index]
        path = _last_stage(node, f"{self._prefix}{index}") if node else None
        if node and path is None:
            message = f"the pipeline {shown(ref.value)} doesn't end with a stage, so it has no output to take"
            self._report.error("wrong-kind", ref.at, message, hint="let it end with a stage that merges")
        return path

    def _named_block(self, ref: ParallelRef, name: Written[str], here: Here) -> int | None:
        index = _position(self._nodes, name.value)
        node = None if index is None else self._nodes[index]
        if index is None or node is None or node.block is None:
            blocks = [block.id.value for block in self._nodes[: here.index] if block.block and block.id]
            message = f"no parallel block {shown(name.value)} before this node"
            self._report.error("unknown-node", name.at, message, choice(name.value, "blocks", blocks))
        elif index == here.index:
            self._refuse_same_block(ref)
        elif index > here.index:
            self._report.error("later-node", name.at, f"the block {shown(name.value)} runs later than this")
        elif _position(node.block.stages, ref.stage.value) is None:
            ids = [stage.id.value for stage in node.block.stages if stage.id]
            message = f"the block {shown(name.value)} has no stage {shown(ref.stage.value)}"
            self._report.error("unknown-node", ref.stage.at, message, choice(ref.stage.value, "stages", ids))
        else:
            return index
        return None

    def _only_block(self, ref: ParallelRef, here: Here) -> int | None:
        """The earlier block that has the stage. Where several have, guessing one would hide a mistake."""
        name = ref.stage.value
        having = [i for i in range(here.index) if _position(self._block_stages(i), name) is not None]
        if len(having) == 1:
            return having[0]
        if having:
            names = ", ".join(f"`{node.id.value}`" for index in having if (node := self._nodes[index]).id)
            message = f"several blocks have a stage {shown(ref.stage.value)}: {names}"
            self._report.error("ambiguous-stage", ref.stage.at, message, hint="say which with `block: …`")
        elif _position(self._block_stages(here.index), ref.stage.value) is not None:
            self._refuse_same_block(ref)
        else:
            self._explain_missing_in_blocks(ref.stage, here)
        return None

    def _refuse_same_block(self, ref: ParallelRef) -> None:
        hint = "a stage's own branch is reached by `from`; another provider's only from a later block"
        self._report.error("same-block", ref.stage.at, SAME_BLOCK, hint)

    def _providers(self, ref: ParallelRef, block: BlockSpec) -> tuple[str, ...]:
        names = {branch.name.value for branch in block.branches if branch.name}
        if ref.providers is None:
            return tuple(sorted(names))
        if not ref.providers:
            hint = "leave the key out for all of them"
            self._report.error("bad-value", ref.at, "`providers` names no provider", hint)
        wanted = set[str]()
        for written in ref.providers:
            fitting = {name for name in names if name == written.value} or {
                name for name in names if canonical(name) == canonical(written.value)
            }
            if not fitting:
                message = f"the block has no provider {shown(written.value)}"
                hint = choice(written.value, "providers", names)
                self._report.error("unknown-provider", written.at, message, hint)
            wanted |= fitting
        return tuple(sorted(wanted))

    def _explain_missing(self, ref: Written[str], here: Here) -> None:
        own = _position(self._block_stages(here.index), ref.value)
        later = _position(self._nodes[here.index :], ref.value)
        if later == 0 or (own is not None and own == here.stage):
            message = f"{shown(ref.value)} can't take its own output"
            hint = "earlier iterations are in the context anyway, as `from_previous_iterations`"
            self._report.error("later-node", ref.at, message, hint)
        elif own is not None and here.stage is None:
            message = f"{shown(ref.value)} is a stage of this block, which only its stages can take from"
            self._report.error("later-node", ref.at, message, hint="move the `inputs` to the stage")
        elif own is not None or later is not None:
            self._report_later(ref)
        elif self._is_in_a_block(ref.value, here.index):
            message = f"{shown(ref.value)} is a stage of a parallel block"
            self._report.error("wrong-kind", ref.at, message, hint=f"use `from_parallel: {ref.value}`")
        else:
            earlier = [node.id.value for node in self._nodes[: here.index] if node.id]
            self._report_unknown(ref, "node", earlier)

    def _explain_missing_in_blocks(self, ref: Written[str], here: Here) -> None:
        if _position(self._nodes[: here.index], ref.value) is not None:
            message = f"{shown(ref.value)} is a node, not a stage of a parallel block"
            hint = "use `from`, or name one of the block's stages"
            self._report.error("wrong-kind", ref.at, message, hint)
        elif self._is_in_a_block(ref.value, len(self._nodes)):
            self._report_later(ref)
        else:
            stages = [stage for index in range(here.index) for stage in self._block_stages(index)]
            known = [stage.id.value for stage in stages if stage.id]
            self._report_unknown(ref, "stage of a parallel block", known)

    def _is_in_a_block(self, name: str, before: int) -> bool:
        return any(_position(self._block_stages(index), name) is not None for index in range(before))

    def _report_later(self, ref: Written[str]) -> None:
        self._report.error("later-node", ref.at, f"{shown(ref.value)} runs later than this", "reorder them")

    def _report_unknown(self, ref: Written[str], what: str, known: list[str]) -> None:
        message = f"no earlier {what} is called {shown(ref.value)}"
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
"""By the stage's full path and the branch it runs in; no entry for a stage without inputs of others."""


def link(pipeline: ResolvedPipeline, report: Report) -> Links:
    linking = _Linking(report)
    linking.pipeline(pipeline, "", _NOTHING)
    return linking.links


def inherited(*levels: InputsSpec) -> dict[str, object]:
    """What is written at several levels, strongest first, as one; `select` stays with its `from`."""
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
            before = given if index == 0 else _NOTHING
            if isinstance(node, ResolvedBlock):
                self._block(scope, node, index, path, before)
                continue
            sources = _first_of(before, _sources(scope, [(spec.inputs, Here(index))]))
            if isinstance(node, ResolvedNested):
                self.pipeline(node.pipeline, f"{path}.", sources)
            else:
                self._keep(path, "", sources)

    def _block(self, scope: Scope, node: ResolvedBlock, index: int, path: str, given: InputSources) -> None:
        for branch in node.block.branches:
            name = branch.name.value if branch.name else ""
            outer = [(branch.inputs, Here(index)), (node.spec.inputs, Here(index))]
            for position, stage in enumerate(node.block.stages):
                own = (stage.inputs, Here(index, position, name))
                before = given if position == 0 else _NOTHING
                sources = _first_of(before, _sources(scope, [own, *outer]))
                self._keep(f"{path}.{position}", name, sources)

    def _keep(self, path: str, branch: str, sources: InputSources) -> None:
        if sources != _NOTHING:
            self.links[path, branch] = sources


def _sources(scope: Scope, levels: Sequence[tuple[InputsSpec, Here]]) -> InputSources:
    """Levels strongest first; `from` and `from_parallel` each come from the strongest that has them. All
    levels are resolved, so that a mistake is reported also where a stronger level hides it."""
    merged = _NOTHING
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
    """A first stage is given what its pipeline is given; nothing runs before it that it could name itself."""
    return own if given == _NOTHING else given
