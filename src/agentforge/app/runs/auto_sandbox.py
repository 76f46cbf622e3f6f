"""`sandbox: auto`: bwrap where it works, else none. Chosen when a run is compiled, and pinned in its plan."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Literal

from msgspec.structs import replace

from agentforge.definition.local_network import as_local
from agentforge.model.errors import AgentForgeError
from agentforge.model.plan import Plan, SandboxChoice, StageNode
from agentforge.ports.provider import Provider
from agentforge.ports.sandbox import Sandbox
from agentforge.runtime.tasks.call import is_program

BWRAP: Literal["bwrap"] = "bwrap"


def choose_sandboxes(
    plan: Plan, sandboxes: Mapping[str, Sandbox], known: Callable[[str], Provider | None]
) -> Plan:
    """`known`: the provider of a name. What runs inside the engine can't be confined."""

    @cache
    def problem(choice: SandboxChoice) -> str:
        return _problem(choice, sandboxes)

    def chosen(stage: StageNode) -> StageNode:
        choice = stage.sandbox
        if choice is None or choice.type != "auto":
            return stage
        providers = [known(one.type) for one in stage.chain]
        is_inside = all(one is not None and not is_program(one) for one in providers)
        works = not is_inside and not problem(replace(choice, type=BWRAP))
        return replace(stage, sandbox=replace(choice, type=BWRAP if works else "none", auto=True))

    return plan.with_stages(chosen)


# What an agent could do in the first part of a run must not grow in the second, because a program was removed
# in between. So a recompilation, which chooses again, gets what the run has: readiness then refuses it.
def keep_confined(plan: Plan, before: Plan) -> Plan:
    """With bwrap for `auto`, and with `network: local`, if the run has them."""

    def kept(stage: StageNode) -> StageNode:
        choice = stage.sandbox
        return replace(stage, sandbox=replace(choice, type=BWRAP)) if choice and choice.auto else stage

    had = (one.sandbox for one in before.stages)
    has_bwrap = any(one and one.auto and one.type == BWRAP for one in had)
    plan = as_local(plan) if before.is_local else plan
    return plan.with_stages(kept) if has_bwrap else plan


def unconfined_reason(plan: Plan, sandboxes: Mapping[str, Sandbox]) -> str:
    """Why agents with `sandbox: auto` run without one; empty if none does."""
    found = (one.sandbox for one in plan.stages if one.sandbox and one.sandbox.auto)
    choice = next((one for one in found if one.type == "none"), None)
    why = _problem(replace(choice, type=BWRAP), sandboxes) if choice else ""
    return f"agents run without a sandbox, as `sandbox: auto` found none: {why}" if why else ""


def _problem(choice: SandboxChoice, sandboxes: Mapping[str, Sandbox]) -> str:
    try:
        sandboxes[BWRAP].probe(choice)
    except AgentForgeError as error:
        return error.message
    return ""
