"""Whether a run can begin here: its providers come up, and what they are confined by is there."""

import logging
from collections.abc import Iterator, Mapping

from agentforge.model.errors import AgentForgeError, ProviderUnusable
from agentforge.model.plan import Plan, StageNode
from agentforge.ports.provider import Provider
from agentforge.ports.sandbox import Sandbox
from agentforge.runtime.attempts import is_program
from agentforge.sdk.registry import Registry

log = logging.getLogger("agentforge.providers")


async def make_ready(
    plan: Plan, registry: Registry, sandboxes: Mapping[str, Sandbox], *, sandboxed: bool
) -> None:
    """Raises why the run can't begin. Of a stage's chain of providers one that comes up is enough: the others
    fail when it is their turn."""
    judges = [plan.judge.type] if plan.is_judged else []
    broken = await registry.try_ready([*sorted(plan.providers()), *judges])
    stages = list(_stages(plan))
    for stage in stages:
        _refuse_broken(stage, broken)
    for stage in stages:
        _check_sandbox(stage, sandboxes)
        for choice in stage.chain:
            if choice.type not in broken:
                _refuse_unconfined(stage, registry[choice.type], sandboxed=sandboxed)
    for name in judges:
        if name not in broken and not sandboxed:
            _refuse_judge(registry[name])
    for name, error in broken.items():
        log.warning("provider %s can't be used: %s", name, error.message)


def _stages(plan: Plan) -> Iterator[StageNode]:
    """Each once, however often it runs."""
    yield from {id(stage): stage for step in plan.steps for stage in step.stages}.values()


def _refuse_broken(stage: StageNode, broken: Mapping[str, AgentForgeError]) -> None:
    if all(choice.type in broken for choice in stage.chain):
        raise broken[stage.provider.type]


def _check_sandbox(stage: StageNode, sandboxes: Mapping[str, Sandbox]) -> None:
    if stage.sandbox is None or stage.sandbox.type == "none":
        return
    if stage.sandbox.type not in sandboxes:
        raise ProviderUnusable(
            f"stage {stage.id!r}: there is no sandbox {stage.sandbox.type!r} here",
            hint=f"available: {', '.join(sorted(sandboxes)) or 'none'}",
        )
    sandboxes[stage.sandbox.type].check(stage.sandbox)


def _refuse_unconfined(stage: StageNode, provider: Provider, *, sandboxed: bool) -> None:
    confined = stage.sandbox is not None and stage.sandbox.type != "none"
    if confined and not is_program(provider):
        raise ProviderUnusable(
            f"stage {stage.id!r} asks for a sandbox, but provider {provider.name!r} runs inside the engine, "
            "where nothing can be confined",
            hint="remove `sandbox` from the stage, or choose a provider that runs a program",
        )
    if provider.capabilities().requires_sandbox and not confined and not sandboxed:
        raise ProviderUnusable(
            f"provider {provider.name!r} must run in a sandbox, and stage {stage.id!r} has none",
            hint="add `sandbox: bwrap` to the stage; in a process that is isolated as a whole, use "
            "Engine(sandboxed=True)",
        )


def _refuse_judge(judge: Provider) -> None:
    if judge.capabilities().requires_sandbox:
        raise ProviderUnusable(
            f"provider {judge.name!r} must run in a sandbox, and the judge has none",
            hint="choose another with JUDGE_PROVIDER",
        )
