"""Last pass: a checked, resolved pipeline to its Plan. Decides by precedence; reports nothing."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from agentforge.definition.paths import relative
from agentforge.definition.precedence import (
    Above,
    choose_provider,
    choose_retry,
    first_text,
    merge_commands,
    strongest,
)
from agentforge.definition.resolve import ResolvedNode
from agentforge.definition.spec import PipelineSpec, ProviderSpec, WorkSpec, Written
from agentforge.definition.termination import merge
from agentforge.model.plan import (
    Fixed,
    Guardrails,
    Mode,
    PipelineInfo,
    Plan,
    PlanSession,
    PlanSource,
    StageNode,
)

DEFAULT_RUNS: dict[Mode, int] = {"pipeline": 1, "loop": 25}


class Setting(Struct, frozen=True):
    """Of this compilation, not of the files: who asks, where and when."""

    mode: Mode
    project: str
    session: str
    inputs: tuple[str, ...]
    compiled_at: datetime
    created_at: datetime
    above: Above


def lower(spec: PipelineSpec, nodes: Sequence[ResolvedNode], setting: Setting) -> Plan:
    return Plan(
        mode=setting.mode,
        compiled_at=setting.compiled_at,
        source=PlanSource(spec.source.file, spec.source.sha256),
        session=PlanSession(setting.session, setting.created_at, setting.inputs),
        pipeline=PipelineInfo(
            name=spec.name,
            overrides=setting.above.overrides,
            commands=spec.commands,
            description=spec.description,
            inputs=None if spec.inputs is None else tuple(written.value for written in spec.inputs),
            guardrails=_guardrails(spec.max_runtime),
        ),
        dependencies=_dependencies(spec),
        nodes=tuple(_node(str(index), node, spec, setting) for index, node in enumerate(nodes)),
    )


def provider_levels(spec: PipelineSpec, node: ResolvedNode, above: Above) -> list[ProviderSpec | None]:
    """Weakest first."""
    return [*(level.provider for level in _levels(spec, node)), *above.providers]


def _levels(spec: PipelineSpec, node: ResolvedNode) -> list[WorkSpec]:
    stage = [node.stage.work] if node.stage else []
    return [*spec.levels, *stage, node.spec.work]


def _node(path: str, node: ResolvedNode, spec: PipelineSpec, setting: Setting) -> StageNode:
    work, stage = node.spec.work, node.stage.work if node.stage else WorkSpec()
    levels = _levels(spec, node)
    count = merge(work, stage).count
    runs = count.value if count else DEFAULT_RUNS[setting.mode]
    ref = node.spec.stage.value if node.spec.stage else None
    node_id = node.spec.id.value if node.spec.id else path
    context = setting.above.context
    return StageNode(
        path=path,
        id=node_id,
        stage=ref or node_id,
        runs=runs,
        termination=Fixed(max=runs),
        inputs=node.spec.inputs,
        provider=choose_provider(provider_levels(spec, node, setting.above)),
        ref=ref,
        name=_own_name(node, ref),
        description=first_text(work.description, stage.description),
        context=first_text(work.context, stage.context) if context is None else context,
        output_path=first_text(work.output_path, stage.output_path),
        delay=strongest(level.delay for level in levels),
        commands=merge_commands(spec.commands, stage, work, setting.above),
        timeout=strongest(level.timeout for level in levels),
        idle_timeout=strongest(level.idle_timeout for level in levels),
        retry=choose_retry(level.retry for level in levels),
        guardrails=_guardrails(work.max_runtime or stage.max_runtime),
        **_prompt(node, setting.project),
    )


def _prompt(node: ResolvedNode, project: str) -> dict[str, Any]:
    if node.prompt_path:
        return {"prompt_path": relative(project, node.prompt_path)}
    return {"prompt": first_text(node.spec.work.prompt)}


def _own_name(node: ResolvedNode, ref: str | None) -> str | None:
    name = first_text(node.stage.name) if node.stage else None
    return name if name != ref else None


def _guardrails(limit: Written[float] | None) -> Guardrails | None:
    return Guardrails(max_runtime_seconds=limit.value) if limit else None


def _dependencies(spec: PipelineSpec) -> dict[str, bool]:
    """The tools that agent-pipelines would want for this plan; ours needs none of them."""
    return {"jq": True, "yq": True, "tmux": spec.tmux, "bd": False}
