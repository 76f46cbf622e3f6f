"""What a run would execute, from its plan."""

from collections.abc import Iterator

from agentforge.model.execution import Execution
from agentforge.model.plan import Plan, ProviderChoice, Queue, StageNode
from agentforge.model.state import RunSettings


def executions(plan: Plan, settings: RunSettings) -> tuple[Execution, ...]:
    """What the plan's stages execute, each once, and the judge."""
    found = [execution for stage in _stages(plan) for execution in _of_stage(stage, settings)]
    if plan.uses_judge:
        found.append(_execution("judge", plan.judge, settings))
    return tuple(found)


def _stages(plan: Plan) -> Iterator[StageNode]:
    return (stage for step in plan.steps for stage in step.stages)


def _of_stage(stage: StageNode, settings: RunSettings) -> Iterator[Execution]:
    for choice in stage.chain:
        yield _execution(stage.id, choice, settings, stage)


def _execution(
    name: str, choice: ProviderChoice, settings: RunSettings, stage: StageNode | None = None
) -> Execution:
    sandbox = stage.sandbox if stage else None
    commands = dict(stage.commands) if stage else {}
    if stage and isinstance(stage.termination, Queue) and stage.termination.command:
        commands["queue"] = stage.termination.command
    replaced = "mock" if settings.mock else "replay" if settings.replay is not None else ""
    return Execution(
        stage=name,
        provider=replaced or choice.type,
        model="" if replaced else choice.model,
        settings={} if replaced else choice.config,
        sandbox=sandbox.type if sandbox else "none",
        network=sandbox.network if sandbox else True,
        commands=commands,
    )
