"""Last pass: lowers a validated, resolved pipeline to its Plan. Applies precedence; reports nothing."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.link import Links, inherited
from agentforge.definition.precedence import (
    OverrideLevels,
    choose_fallbacks,
    choose_in_block,
    choose_provider,
    merged,
    merged_fields,
)
from agentforge.definition.read.file_keys import PIPELINE_KEYS
from agentforge.definition.read.node_keys import BLOCK, PARALLEL_NODE, PIPELINE_NODE
from agentforge.definition.read.table import MappingSpec, fields
from agentforge.definition.read.work_keys import FIXED, TERMINATIONS
from agentforge.definition.report import relative
from agentforge.definition.specs import (
    BranchSpec,
    HookSpec,
    ResolvedBlock,
    ResolvedNested,
    ResolvedPipeline,
    ResolvedStage,
)
from agentforge.model.check import Check
from agentforge.model.hook import Hook
from agentforge.model.plan import (
    Branch,
    InputSources,
    Mode,
    NestedNode,
    Node,
    ParallelNode,
    PipelineInfo,
    Plan,
    PlanSession,
    PlanSource,
    ProviderChoice,
    Queue,
    StageNode,
    Termination,
)

DEFAULT_RUNS: dict[Mode, int] = {"pipeline": 1, "loop": 25}
"""A loop is a single stage, so that all stages of a plan have the same default."""
_NO_PROVIDER = ProviderChoice("", "")


class Wiring(Struct, frozen=True):
    """The parts of a stage that depend on its branch."""

    provider: ProviderChoice
    inputs: dict[str, Any]
    sources: InputSources | None = None
    fallbacks: tuple[ProviderChoice, ...] = ()


def lower_stage(path: str, node: ResolvedStage, project: str, default_runs: int, wiring: Wiring) -> StageNode:
    """Rows of the key table set the plain fields; here is what needs more than the values of one key."""
    plain = merged_fields(node)
    ref, named = node.spec.stage.value if node.spec.stage else None, node.stage and node.stage.name
    node_id = node.spec.id.value if node.spec.id else path
    termination = lower_termination(merged(node, "termination"), default_runs)
    commands = plain.get("commands", {})
    checks = [check.fields() for check in merged(node, "checks") or ()]
    return StageNode(
        path=path,
        id=node_id,
        stage=ref or node_id,
        runs=termination.max,
        termination=termination,
        inputs=wiring.inputs,
        provider=wiring.provider,
        sources=wiring.sources,
        ref=ref,
        name=named.value if named and named.value != ref else None,
        fallbacks=wiring.fallbacks,
        checks=tuple(Check(**{"run": commands.get(check["name"], ""), **check}) for check in checks),
        **plain,
        **_prompt(node, project),
    )


def lower_termination(spec: MappingSpec | None, default_runs: int) -> Termination:
    """Settings that don't apply to the type are dropped: they were written for an overridden type."""
    given = spec.fields() if spec else {}
    kind = TERMINATIONS[given.pop("type", FIXED)]
    own = {name: given[name] for name in kind.__struct_fields__ if name in given}
    return kind(**{"max": default_runs, **own})


def _prompt(node: ResolvedStage, project: str) -> dict[str, Any]:
    if node.prompt_path:
        return {"prompt_path": relative(project, node.prompt_path)}
    prompt = node.spec.work.prompt
    return {"prompt": prompt.value if prompt else None}


def lower_hooks(specs: Sequence[HookSpec], within: str = "") -> Iterator[Hook]:
    """With their ids: as written, or the point and a number. Those of nested pipelines begin with their
    nodes."""
    seen: Counter[str] = Counter()
    for spec in specs:
        seen[spec.hook.point] += 1
        own = spec.id.value if spec.id else f"{spec.hook.point}-{seen[spec.hook.point]}"
        stage, condition = spec.stage and spec.stage.value, spec.condition and spec.condition.value
        yield replace(spec.hook, id=f"{within}{own}", stage=stage, condition=condition)


class CompilationContext(Struct, frozen=True):
    """Inputs of the compilation that don't come from the definition files."""

    mode: Mode
    project: str
    session: str
    inputs: tuple[str, ...]
    compiled_at: datetime
    created_at: datetime
    override_levels: OverrideLevels


def lower(pipeline: ResolvedPipeline, links: Links, context: CompilationContext, passes: int = 1) -> Plan:
    return _Lowering(links, context).plan(pipeline, "", passes)


class _Lowering:
    def __init__(self, links: Links, context: CompilationContext) -> None:
        self._links = links
        self._context = context

    def plan(self, pipeline: ResolvedPipeline, prefix: str, passes: int, within: str = "") -> Plan:
        """`within` are the ids of the nodes around it."""
        spec, context = pipeline.spec, self._context
        nodes = tuple(self._nodes(pipeline, prefix, within))
        tmux = spec.get("tmux")
        return Plan(
            mode=context.mode,
            compiled_at=context.compiled_at,
            source=PlanSource(spec.source.file, spec.source.sha256),
            session=PlanSession(context.session, context.created_at, context.inputs),
            pipeline=PipelineInfo(
                name=spec.name,
                overrides=context.override_levels.overrides,
                hooks=tuple(lower_hooks(spec.hooks, within)),
                **{"commands": {}, **fields(PIPELINE_KEYS, [spec.values])},
            ),
            # The tools that agent-pipelines would need for this plan; agentforge needs only `bd`.
            dependencies={
                "jq": True,
                "yq": True,
                "tmux": tmux.value if tmux else True,
                "bd": any(map(_needs_bd, nodes)),
            },
            nodes=nodes,
            passes=passes,
            judge=context.override_levels.judge,
        )

    def _nodes(self, pipeline: ResolvedPipeline, prefix: str, within: str) -> Iterator[Node]:
        for index, node in enumerate(pipeline.nodes):
            path = str(index)
            if isinstance(node, ResolvedBlock):
                yield self._block(path, node, prefix)
            elif isinstance(node, ResolvedNested):
                yield self._nested(path, node, prefix, within)
            elif node:  # sound
                candidates = [level.provider for level in node.levels]
                sources = self._links.get((f"{prefix}{path}", ""))
                wiring = Wiring(
                    choose_provider(candidates)[0],
                    node.spec.inputs.written,
                    sources,
                    choose_fallbacks(candidates),
                )
                yield self._stage(path, node, wiring)

    def _stage(self, path: str, node: ResolvedStage, wiring: Wiring) -> StageNode:
        return lower_stage(path, node, self._context.project, DEFAULT_RUNS[self._context.mode], wiring)

    def _nested(self, path: str, node: ResolvedNested, prefix: str, within: str) -> NestedNode:
        ref, node_id = node.spec.pipeline, node.spec.id.value if node.spec.id else path
        return NestedNode(
            path=path,
            id=node_id,
            inputs=node.spec.inputs.written,
            plan=self.plan(node.pipeline, f"{prefix}{path}.", 1, f"{within}{node_id}/"),
            ref=ref.value if ref else "",
            **{"runs": 1, **fields(PIPELINE_NODE.keys, [node.spec.work.values])},
        )

    def _block(self, path: str, node: ResolvedBlock, prefix: str) -> ParallelNode:
        block, node_id = node.block, node.spec.id
        return ParallelNode(
            path=path,
            id=node_id.value if node_id else path,
            providers=tuple(branch.written for branch in block.branches),
            stages=tuple(self._shared(path, node)),
            inputs=node.spec.inputs.written,
            branches=tuple(self._branch(path, node, branch, prefix) for branch in block.branches),
            **fields(PARALLEL_NODE.keys, [node.spec.work.values]),
            **fields(BLOCK.keys, [block.values]),
        )

    # plan.json is also read by tools for agent-pipelines, which know the stages of a block without branches.
    def _shared(self, path: str, node: ResolvedBlock) -> Iterator[dict[str, Any]]:
        """The block's stages in the format of agent-pipelines, which has no branches."""
        for position, stage in enumerate(node.stages):
            if stage:  # sound
                wiring = Wiring(_NO_PROVIDER, stage.spec.inputs.written)
                lowered = self._stage(f"{path}.{position}", stage, wiring)
                shared: dict[str, Any] = msgspec.to_builtins(lowered)
                del shared["provider"]
                own = stage.spec.work.provider
                yield {**shared, "model": own.model.value} if own and own.model else shared

    def _branch(self, path: str, node: ResolvedBlock, branch: BranchSpec, prefix: str) -> Branch:
        name = branch.name.value if branch.name else ""
        stages: list[StageNode] = []
        for position, stage in enumerate(node.stages):
            if stage:  # sound
                here = f"{path}.{position}"
                chosen = choose_in_block(stage, branch.provider)
                inputs = inherited(stage.spec.inputs, branch.inputs, node.spec.inputs)
                wiring = Wiring(chosen, inputs, self._links.get((f"{prefix}{here}", name)))
                stages.append(self._stage(here, stage, wiring))
        return Branch(name, tuple(stages))


def _needs_bd(node: Node) -> bool:
    match node:
        case StageNode():
            return isinstance(node.termination, Queue)
        case ParallelNode():
            return any(_needs_bd(stage) for branch in node.branches for stage in branch.stages)
        case NestedNode():  # exhaustive
            return node.plan.dependencies["bd"]
