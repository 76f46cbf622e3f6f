"""Checks before a run starts: its providers, their settings and its sandboxes."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from agentforge.app.providers.offers import Origin
from agentforge.app.providers.pinned import RunProviders
from agentforge.app.providers.registry import Registry
from agentforge.model.errors import AgentForgeError, InvalidSettings, ProviderUnusable
from agentforge.model.plan import Judgment, Plan, ProviderChoice, StageNode
from agentforge.ports.provider import BuildsSandbox, Capabilities, Provider, ValidatesSettings
from agentforge.ports.sandbox import Sandbox
from agentforge.runtime.tasks.call import is_program

ONLINE = frozenset({"claude", "codex", "opencode", "gemini", "api"})
"""Providers that call a model. Even a local model is unreachable without a network."""

log = logging.getLogger("agentforge.providers")
PROBE_SECONDS = 10.0
"""Timeout for initializing a provider only to list it."""


async def make_ready(
    plan: Plan, registry: RunProviders, sandboxes: Mapping[str, Sandbox], *, sandboxed: bool
) -> None:
    """Initialize the providers and sandboxes of a run. Raises the reason why the run can't start.

    One usable provider per chain is enough: the others fail when it is their turn."""
    judges = [plan.judge.type] if plan.uses_judge else []
    broken = await registry.try_ready([*sorted(plan.providers()), *judges])
    stages = _stages(plan)
    for stage in stages:
        if all(choice.type in broken for choice in stage.chain):
            raise broken[stage.provider.type]
        _validate_settings(stage, registry, broken)
    await _probe_sandboxes(stages, sandboxes)
    for stage in stages:
        for choice in stage.chain:
            # Also if it failed to initialize: another run may initialize it while this one is running.
            if (provider := registry.known(choice.type)) is not None:
                _refuse_unconfined(stage, provider, sandboxed=sandboxed)
                _warn_offline(stage, provider)
                _refuse_nested(stage, provider, choice, sandboxes)
        judge = registry.known(plan.judge.type) if isinstance(stage.termination, Judgment) else None
        if judge is not None and not sandboxed:
            _refuse_judge(stage, judge)
    for name, error in broken.items():
        log.warning("provider %s is not usable: %s", name, error.message)


async def make_replay_ready(plan: Plan, sandboxes: Mapping[str, Sandbox]) -> None:
    """A replay calls no provider, but plays in the sandbox of each stage."""
    stages = _stages(plan)
    for stage in stages:
        if stage.sandbox is not None and stage.sandbox.type == "docker":
            raise ProviderUnusable(
                f"stage {stage.id!r} runs in a container, whose image has no program to replay a recording",
                hint="give a pipeline with `-p FILE` whose stage has another sandbox",
            )
    await _probe_sandboxes(stages, sandboxes)


def _stages(plan: Plan) -> list[StageNode]:
    """Each stage once, even if it runs several times."""
    return list({id(stage): stage for step in plan.steps for stage in step.stages}.values())


def _validate_settings(
    stage: StageNode, registry: RunProviders, broken: Mapping[str, AgentForgeError]
) -> None:
    """Validate the settings of all providers of the chain, including fallbacks."""
    for choice in stage.chain:
        provider = registry[choice.type]
        if choice.type in broken or not isinstance(provider, ValidatesSettings):
            continue
        try:
            provider.validate_settings(choice.model, choice.config)
        except ProviderUnusable as error:
            raise InvalidSettings(f"stage {stage.id!r}: {error.message}", hint=error.hint) from error


async def _probe_sandboxes(stages: Iterable[StageNode], sandboxes: Mapping[str, Sandbox]) -> None:
    """Probe each sandbox configuration once."""
    needed = {stage.sandbox: stage.id for stage in stages if stage.sandbox and _is_confined(stage)}
    for choice, stage in needed.items():
        if choice.type not in sandboxes:
            raise ProviderUnusable(
                f"stage {stage!r}: sandbox {choice.type!r} is not available",
                hint=f"available: {', '.join(sorted(sandboxes)) or 'none'}",
            )
        await asyncio.to_thread(sandboxes[choice.type].probe, choice)


def _refuse_unconfined(stage: StageNode, provider: Provider, *, sandboxed: bool) -> None:
    if _is_confined(stage) and not is_program(provider):
        raise ProviderUnusable(
            f"stage {stage.id!r} requires a sandbox, but provider {provider.name!r} runs inside the engine, "
            "which cannot be sandboxed",
            hint="remove `sandbox` from the stage, or choose a provider that runs a program",
        )
    if provider.capabilities().requires_sandbox and not _is_confined(stage) and not sandboxed:
        raise ProviderUnusable(
            f"provider {provider.name!r} must run in a sandbox, and stage {stage.id!r} has none",
            hint="add `sandbox: bwrap` to the stage, or use Engine(sandboxed=True) if the whole process is "
            "isolated",
        )


def _warn_offline(stage: StageNode, provider: Provider) -> None:
    if provider.name in ONLINE and stage.sandbox and _is_confined(stage) and not stage.sandbox.network:
        log.warning(
            "stage %r: %s needs the network to reach its model, but the sandbox disables it; "
            "use `network: off` only for stages that run a command",
            stage.id,
            provider.name,
        )


def _refuse_nested(
    stage: StageNode, provider: Provider, choice: ProviderChoice, sandboxes: Mapping[str, Sandbox]
) -> None:
    """A sandbox of the agent's own that can't be built fails each of its commands."""
    if stage.sandbox is None or not _is_confined(stage) or not isinstance(provider, BuildsSandbox):
        return
    problem = sandboxes[stage.sandbox.type].nesting_problem
    instead = provider.builds_sandbox(choice.config) if problem else ""
    if instead:
        raise ProviderUnusable(
            f"stage {stage.id!r}: with its permissions, {provider.name} builds a sandbox of its own, which "
            f"does not work in {stage.sandbox.type} here: {problem}",
            hint=f"set {instead}, since {stage.sandbox.type} confines it already; or use `sandbox: none`",
        )


def _refuse_judge(stage: StageNode, judge: Provider) -> None:
    """The judge runs in the sandbox of the stage that it judges."""
    if judge.capabilities().requires_sandbox and not _is_confined(stage):
        raise ProviderUnusable(
            f"provider {judge.name!r} must run in a sandbox, and stage {stage.id!r}, which it judges, "
            "has none",
            hint="add `sandbox: bwrap` to the stage, or choose another judge with JUDGE_PROVIDER",
        )


def _is_confined(stage: StageNode) -> bool:
    return stage.sandbox is not None and stage.sandbox.type != "none"


class ProviderInfo(Struct, frozen=True):
    name: str
    origin: Origin
    place: str
    usable: bool
    capabilities: Capabilities | None = None
    """None if the provider can't be loaded."""
    problem: str = ""
    fix: str = ""


async def probe_providers(registry: Registry) -> Sequence[ProviderInfo]:
    """Initialize every provider to check whether it is usable; the engine shuts them down."""
    broken = await registry.try_ready(registry.names, PROBE_SECONDS)
    found = []
    for name in registry.names:
        offer, provider, problem = registry.offer(name), registry.known(name), broken.get(name)
        capabilities = provider.capabilities() if provider else None
        reason = (problem.message, problem.hint) if problem else ("", "")
        found.append(ProviderInfo(name, offer.origin, offer.place, problem is None, capabilities, *reason))
    return found
