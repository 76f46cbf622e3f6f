"""Last pass: lowers a validated, resolved pipeline to its Plan. Applies precedence; reports nothing."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.definition.link import Links, inherited
from agentforge.definition.precedence import (
    OverrideLevels,
    block_approval,
    choose_checks,
    choose_fallbacks,
    choose_in_block,
    choose_policy,
    choose_provider,
    choose_routes,
    choose_sandbox,
    first_text,
    lower_approval,
    merge_approvals,
    merge_commands,
    strongest,
)
from agentforge.definition.specs import (
    ApprovalLevel,
    BranchSpec,
    CheckSpec,
    CycleLimitSpec,
    HookSpec,
    PipelineSpec,
    ProviderSpec,
    ResolvedBlock,
    ResolvedNested,
    ResolvedPipeline,
    ResolvedStage,
    RouteSpec,
    WorkSpec,
    Written,
    merge,
)
from agentforge.definition.yaml.parser import relative
from agentforge.model.check import Check
from agentforge.model.hook import Hook
from agentforge.model.plan import (
    ROUTE_ACTIONS,
    Branch,
    CycleLimits,
    Guardrails,
    InputSources,
    LimitPolicy,
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
    RetryPolicy,
    Route,
    Semantics,
    StageNode,
)

DEFAULT_RUNS: dict[Mode, int] = {"pipeline": 1, "loop": 25}
_NO_PROVIDER = ProviderChoice("", "")


class Levels(Struct, frozen=True):
    """Values that apply to all stages of a pipeline."""

    pipeline: tuple[WorkSpec, ...]
    """The pipeline's defaults, weakest first."""
    commands: Mapping[str, str]
    override_levels: OverrideLevels
    project: str
    default_runs: int
    approve: ApprovalLevel | None = None
    """Of the block around the stage."""
    limits: CycleLimitSpec | None = None
    """Of the nested pipeline around it; those of the outermost apply to the whole run."""


class Wiring(Struct, frozen=True):
    """The parts of a stage that depend on its branch."""

    provider: ProviderChoice
    inputs: dict[str, Any]
    sources: InputSources | None = None
    fallbacks: tuple[ProviderChoice, ...] = ()


def lower_stage(path: str, node: ResolvedStage, levels: Levels, wiring: Wiring) -> StageNode:
    work, stage = node.spec.work, node.stage_work
    given = (*levels.pipeline, stage, work)
    termination = merge(work, stage)
    runs = termination.count.value if termination.count else levels.default_runs
    ref = node.spec.stage.value if node.spec.stage else None
    node_id = node.spec.id.value if node.spec.id else path
    context = levels.override_levels.context
    commands = merge_commands(levels.commands, stage, work, levels.override_levels)
    return StageNode(
        path=path,
        id=node_id,
        stage=ref or node_id,
        runs=runs,
        termination=termination.lowered(runs),
        inputs=wiring.inputs,
        provider=wiring.provider,
        sources=wiring.sources,
        ref=ref,
        name=_own_name(node, ref),
        description=first_text(work.description, stage.description),
        context=first_text(work.context, stage.context) if context is None else context,
        output_path=first_text(work.output_path, stage.output_path),
        delay=strongest(level.delay for level in given),
        commands=commands,
        timeout=strongest(level.timeout for level in given),
        idle_timeout=strongest(level.idle_timeout for level in given),
        retry=choose_policy(RetryPolicy, (level.retry for level in given)),
        guardrails=guardrails(work.max_runtime or stage.max_runtime),
        fallbacks=wiring.fallbacks,
        on_limit=choose_policy(LimitPolicy, (level.on_limit for level in given)),
        semantics=_semantics(given),
        result_instructions=_result_instructions(given),
        sandbox=choose_sandbox(level.sandbox for level in given),
        approve=lower_approval(merge_approvals(levels.pipeline, levels.approve, node)),
        checkpoint=first_text(node.spec.checkpoint),
        checks=tuple(_check(check, commands) for check in choose_checks((stage, work))),
        verdicts=tuple(word.value for word in work.verdicts or stage.verdicts or ()),
        routes=tuple(_route(route) for route in choose_routes((stage, work))),
        limits=merge_cycle_limits(levels.limits, stage.limits, work.limits),
        **_prompt(node, levels.project),
    )


def _check(spec: CheckSpec, commands: Mapping[str, str]) -> Check:
    default = Check(spec.name.value, spec.run or commands.get(spec.name.value, ""))
    return replace(
        default,
        report=first_text(spec.report),
        timeout=spec.timeout.value if spec.timeout else None,
        network=spec.needs is not None,
        **{name: written.value for name, written in _choices(spec) if written},
    )


def _choices(spec: CheckSpec) -> tuple[tuple[str, Written[str] | None], ...]:
    return ("expect", spec.expect), ("parse", spec.parse), ("at", spec.when)


def _route(spec: RouteSpec) -> Route:
    verdict, to = spec.verdict.value, spec.to.value
    return Route(verdict, to) if to in ROUTE_ACTIONS else Route(verdict, "go", to)  # type: ignore[arg-type]


def merge_cycle_limits(*levels: CycleLimitSpec | None) -> CycleLimits | None:
    """Merge the levels key by key, weakest first; None if all are empty."""
    limits = CycleLimits()
    for spec in filter(None, levels):
        given = {"cycles": spec.cycles, "no_progress": spec.no_progress, "cluster": spec.cluster}
        limits = replace(limits, **{name: limit.value for name, limit in given.items() if limit})
    return limits if limits != CycleLimits() else None


def guardrails(limit: Written[float] | None) -> Guardrails | None:
    return Guardrails(max_runtime_seconds=limit.value) if limit else None


def _semantics(levels: Sequence[WorkSpec]) -> Semantics:
    written = first_text(*(level.semantics for level in reversed(levels)))
    return "at_most_once" if written == "at_most_once" else "at_least_once"


def _result_instructions(levels: Sequence[WorkSpec]) -> bool:
    written = [level.result_instructions for level in levels if level.result_instructions]
    return written[-1].value if written else True


def _prompt(node: ResolvedStage, project: str) -> dict[str, Any]:
    if node.prompt_path:
        return {"prompt_path": relative(project, node.prompt_path)}
    return {"prompt": first_text(node.spec.work.prompt)}


def _own_name(node: ResolvedStage, ref: str | None) -> str | None:
    name = first_text(node.stage.name) if node.stage else None
    return name if name != ref else None


def lower_hooks(specs: Sequence[HookSpec], within: str = "") -> Iterator[Hook]:
    """With their ids: as written, or the point and a number. Those of nested pipelines begin with their
    nodes."""
    seen: Counter[str] = Counter()
    for spec in specs:
        seen[spec.hook.point] += 1
        own = first_text(spec.id) or f"{spec.hook.point}-{seen[spec.hook.point]}"
        condition = spec.condition.value if spec.condition else None
        yield replace(spec.hook, id=f"{within}{own}", stage=first_text(spec.stage), condition=condition)


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
    return _Lowering(links, context).plan(pipeline, "", {}, passes)


def provider_levels(
    spec: PipelineSpec, node: ResolvedStage, override_levels: OverrideLevels
) -> list[ProviderSpec | None]:
    """Weakest first."""
    levels = (*spec.levels, node.stage_work, node.spec.work)
    return [*(level.provider for level in levels), *override_levels.providers]


class _Lowering:
    def __init__(self, links: Links, context: CompilationContext) -> None:
        self._links = links
        self._context = context

    def plan(
        self,
        pipeline: ResolvedPipeline,
        prefix: str,
        commands: Mapping[str, str],
        passes: int,
        within: str = "",
    ) -> Plan:
        """`commands` are those of the enclosing pipelines; `within` are the ids of the nodes around it."""
        spec, context = pipeline.spec, self._context
        nodes = tuple(self._nodes(pipeline, prefix, {**commands, **spec.commands}, within))
        return Plan(
            mode="pipeline" if prefix else context.mode,
            compiled_at=context.compiled_at,
            source=PlanSource(spec.source.file, spec.source.sha256),
            session=PlanSession(context.session, context.created_at, context.inputs),
            pipeline=PipelineInfo(
                name=spec.name,
                overrides=context.override_levels.overrides,
                commands=spec.commands,
                description=spec.description,
                inputs=None if spec.inputs is None else tuple(written.value for written in spec.inputs),
                guardrails=guardrails(spec.max_runtime),
                limits=merge_cycle_limits(spec.limits),
                views=tuple(dict.fromkeys(view.value for view in spec.views)),
                hooks=tuple(lower_hooks(spec.hooks, within)),
                notify=tuple(written.value for written in spec.notify),
            ),
            # The tools that agent-pipelines would need for this plan; agentforge needs only `bd`.
            dependencies={"jq": True, "yq": True, "tmux": spec.tmux, "bd": any(map(_needs_bd, nodes))},
            nodes=nodes,
            passes=passes,
            judge=context.override_levels.judge,
        )

    def _nodes(
        self, pipeline: ResolvedPipeline, prefix: str, commands: Mapping[str, str], within: str
    ) -> Iterator[Node]:
        context = self._context
        default_runs = DEFAULT_RUNS["pipeline" if prefix else context.mode]
        levels = Levels(
            pipeline.spec.levels,
            commands,
            context.override_levels,
            context.project,
            default_runs,
            limits=pipeline.spec.limits if prefix else None,
        )
        for index, node in enumerate(pipeline.nodes):
            path = str(index)
            if isinstance(node, ResolvedBlock):
                yield self._block(path, node, prefix, levels)
            elif isinstance(node, ResolvedNested):
                yield self._nested(path, node, prefix, commands, within)
            elif node:  # sound
                candidates = provider_levels(pipeline.spec, node, self._context.override_levels)
                sources = self._links.get((f"{prefix}{path}", ""))
                wiring = Wiring(
                    choose_provider(candidates),
                    node.spec.inputs.written,
                    sources,
                    choose_fallbacks(candidates),
                )
                yield lower_stage(path, node, levels, wiring)

    def _nested(
        self, path: str, node: ResolvedNested, prefix: str, commands: Mapping[str, str], within: str
    ) -> NestedNode:
        work, ref = node.spec.work, node.spec.pipeline
        node_id = node.spec.id.value if node.spec.id else path
        return NestedNode(
            path=path,
            id=node_id,
            runs=work.runs.value if work.runs else 1,
            inputs=node.spec.inputs.written,
            plan=self.plan(node.pipeline, f"{prefix}{path}.", commands, 1, f"{within}{node_id}/"),
            ref=ref.value if ref else "",
            description=first_text(work.description),
            checkpoint=first_text(node.spec.checkpoint),
        )

    def _block(self, path: str, node: ResolvedBlock, prefix: str, levels: Levels) -> ParallelNode:
        block, node_id = node.block, node.spec.id
        return ParallelNode(
            path=path,
            id=node_id.value if node_id else path,
            providers=tuple(branch.written for branch in block.branches),
            stages=tuple(self._shared(path, node, levels)),
            inputs=node.spec.inputs.written,
            branches=tuple(self._branch(path, node, branch, prefix, levels) for branch in block.branches),
            description=first_text(node.spec.work.description),
            failure_mode=first_text(block.failure_mode),
            checkpoint=first_text(node.spec.checkpoint),
        )

    def _shared(self, path: str, node: ResolvedBlock, levels: Levels) -> Iterator[dict[str, Any]]:
        """The block's stages in the format of agent-pipelines, which has no branches."""
        for position, stage in enumerate(node.stages):
            if stage:  # sound
                wiring = Wiring(_NO_PROVIDER, stage.spec.inputs.written)
                inside = replace(levels, approve=block_approval(node, position))
                lowered = lower_stage(f"{path}.{position}", stage, inside, wiring)
                shared: dict[str, Any] = msgspec.to_builtins(lowered)
                del shared["provider"]
                own = stage.spec.work.provider
                yield {**shared, "model": own.model.value} if own and own.model else shared

    def _branch(
        self, path: str, node: ResolvedBlock, branch: BranchSpec, prefix: str, levels: Levels
    ) -> Branch:
        name = branch.name.value if branch.name else ""
        stages: list[StageNode] = []
        for position, stage in enumerate(node.stages):
            if stage:  # sound
                here = f"{path}.{position}"
                weaker = [level.provider for level in (*levels.pipeline, stage.stage_work)]
                override_levels = self._context.override_levels.providers
                chosen = choose_in_block(weaker, branch.provider, stage.spec.work.provider, override_levels)
                inputs = inherited(stage.spec.inputs, branch.inputs, node.spec.inputs)
                wiring = Wiring(chosen, inputs, self._links.get((f"{prefix}{here}", name)))
                inside = replace(levels, approve=block_approval(node, position))
                stages.append(lower_stage(here, stage, inside, wiring))
        return Branch(name, tuple(stages))


def _needs_bd(node: Node) -> bool:
    match node:
        case StageNode():
            return isinstance(node.termination, Queue)
        case ParallelNode():
            return any(_needs_bd(stage) for branch in node.branches for stage in branch.stages)
        case NestedNode():  # exhaustive
            return node.plan.dependencies["bd"]
