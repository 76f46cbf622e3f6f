"""`network: local`, as it is pinned in a plan. Which addresses are on this machine, only a run can tell."""

from msgspec.structs import replace

from agentforge.model.plan import Plan, StageNode

NEEDS_NETWORK = "it needs the network, and the run has `network: local`"
COMMAND = "command"
"""The provider whose programs are the user's own: what they connect to is unknown."""


def as_local(plan: Plan) -> Plan:
    """The plan with `network: local`: without the checks that need the network, and without a network for
    commands in a sandbox."""
    info = replace(plan.pipeline, network="local", overrides=replace(plan.pipeline.overrides, local=True))
    return replace(plan, pipeline=info).with_stages(_stage)


def _stage(stage: StageNode) -> StageNode:
    left_out = {check.name: NEEDS_NETWORK for check in stage.checks if check.network}
    sandbox = stage.sandbox
    if sandbox is not None and all(choice.type == COMMAND for choice in stage.chain):
        sandbox = replace(sandbox, network=False)
    return replace(
        stage,
        checks=tuple(check for check in stage.checks if not check.network),
        left_out={**stage.left_out, **left_out},
        sandbox=sandbox,
    )
