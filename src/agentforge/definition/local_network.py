"""`network: local`, as it is pinned in a plan. Which addresses are on this machine, only a run can tell."""

from msgspec.structs import replace

from agentforge.model.plan import NestedNode, Plan, StageNode

NEEDS_NETWORK = "it needs the network, and the run has `network: local`"
COMMAND = "command"
"""The provider whose programs are the user's own: what they connect to is unknown."""


def as_local(plan: Plan) -> Plan:
    """The plan with `network: local`: without the checks and the hooks that need the network, and without a
    network for commands in a sandbox."""
    before, left_out = plan.pipeline, {hook.id: NEEDS_NETWORK for hook in plan.all_hooks if hook.network}
    plan = _without_hooks(plan).with_stages(_stage)
    info = replace(
        plan.pipeline,
        network="local",
        overrides=replace(before.overrides, local=True),
        left_out={**before.left_out, **left_out},
    )
    return replace(plan, pipeline=info)


def _without_hooks(plan: Plan) -> Plan:
    info = replace(plan.pipeline, hooks=tuple(hook for hook in plan.pipeline.hooks if not hook.network))
    nodes = (
        replace(node, plan=_without_hooks(node.plan)) if isinstance(node, NestedNode) else node
        for node in plan.nodes
    )
    return replace(plan, pipeline=info, nodes=tuple(nodes))


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
