"""One stage to its place in the plan: what node, stage.yaml, pipeline and caller come to together."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from agentforge.definition.paths import relative
from agentforge.definition.precedence import (
    Above,
    choose_policy,
    choose_sandbox,
    first_text,
    merge_commands,
    strongest,
)
from agentforge.definition.resolved import ResolvedStage
from agentforge.definition.spec import WorkSpec, Written
from agentforge.definition.termination import merge
from agentforge.model.plan import (
    Guardrails,
    LimitPolicy,
    ProviderChoice,
    RetryPolicy,
    Semantics,
    Sources,
    StageNode,
)


class Levels(Struct, frozen=True):
    """What stands around the stages of a pipeline."""

    pipeline: tuple[WorkSpec, ...]
    """What the pipeline says for all nodes, weakest first."""
    commands: Mapping[str, str]
    above: Above
    project: str


class Wiring(Struct, frozen=True):
    """What depends on the branch that a stage runs in."""

    provider: ProviderChoice
    inputs: dict[str, Any]
    sources: Sources | None = None
    fallbacks: tuple[ProviderChoice, ...] = ()


def lower_stage(
    path: str, node: ResolvedStage, levels: Levels, wiring: Wiring, default_runs: int
) -> StageNode:
    work, stage = node.spec.work, node.stage_work
    said = (*levels.pipeline, stage, work)
    termination = merge(work, stage)
    runs = termination.count.value if termination.count else default_runs
    ref = node.spec.stage.value if node.spec.stage else None
    node_id = node.spec.id.value if node.spec.id else path
    context = levels.above.context
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
        delay=strongest(level.delay for level in said),
        commands=merge_commands(levels.commands, stage, work, levels.above),
        timeout=strongest(level.timeout for level in said),
        idle_timeout=strongest(level.idle_timeout for level in said),
        retry=choose_policy(RetryPolicy, (level.retry for level in said)),
        guardrails=guardrails(work.max_runtime or stage.max_runtime),
        fallbacks=wiring.fallbacks,
        on_limit=choose_policy(LimitPolicy, (level.on_limit for level in said)),
        semantics=_semantics(said),
        sandbox=choose_sandbox(level.sandbox for level in said),
        **_prompt(node, levels.project),
    )


def guardrails(limit: Written[float] | None) -> Guardrails | None:
    return Guardrails(max_runtime_seconds=limit.value) if limit else None


def _semantics(said: Sequence[WorkSpec]) -> Semantics:
    written = first_text(*(level.semantics for level in reversed(said)))
    return "at_most_once" if written == "at_most_once" else "at_least_once"


def _prompt(node: ResolvedStage, project: str) -> dict[str, Any]:
    if node.prompt_path:
        return {"prompt_path": relative(project, node.prompt_path)}
    return {"prompt": first_text(node.spec.work.prompt)}


def _own_name(node: ResolvedStage, ref: str | None) -> str | None:
    name = first_text(node.stage.name) if node.stage else None
    return name if name != ref else None
