"""Fourth pass: the `inputs` of every stage to the places in the plan whose outputs they mean.

Inside a block a stage's own `inputs` win, key by key, over those of its branch's provider, and these over
the block's. What a pipeline within a pipeline is given goes to its first stage.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from agentforge.definition.diagnostics import Report
from agentforge.definition.resolved import ResolvedBlock, ResolvedNested, ResolvedPipeline
from agentforge.definition.scope import Here, Scope
from agentforge.definition.spec import InputsSpec
from agentforge.model.plan import Sources

Links = dict[tuple[str, str], Sources]
"""By the stage's full path and the branch it runs in; no entry for a stage without inputs of others."""
_NOTHING = Sources()


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

    def pipeline(self, pipeline: ResolvedPipeline, prefix: str, given: Sources) -> None:
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

    def _block(self, scope: Scope, node: ResolvedBlock, index: int, path: str, given: Sources) -> None:
        for branch in node.block.branches:
            name = branch.name.value if branch.name else ""
            outer = [(branch.inputs, Here(index)), (node.spec.inputs, Here(index))]
            for position, stage in enumerate(node.block.stages):
                own = (stage.inputs, Here(index, position, name))
                before = given if position == 0 else _NOTHING
                sources = _first_of(before, _sources(scope, [own, *outer]))
                self._keep(f"{path}.{position}", name, sources)

    def _keep(self, path: str, branch: str, sources: Sources) -> None:
        if sources != _NOTHING:
            self.links[path, branch] = sources


def _sources(scope: Scope, levels: Sequence[tuple[InputsSpec, Here]]) -> Sources:
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


def _first_of(given: Sources, own: Sources) -> Sources:
    """A first stage is given what its pipeline is given; nothing runs before it that it could name itself."""
    return own if given == _NOTHING else given
