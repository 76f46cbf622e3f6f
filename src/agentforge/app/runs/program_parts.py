"""What a run needs of the program that started it: its hooks and its executors. A process without them
doesn't continue the run."""

from agentforge.app.runs.context import RunContext
from agentforge.model.errors import ExecutorMissing
from agentforge.model.plan import OF_PROGRAM, Plan
from agentforge.model.state import RunSettings
from agentforge.ports.provider import KnowsStages


def lacks_parts(context: RunContext, plan: Plan, settings: RunSettings) -> bool:
    return bool(context.hooks.missing(plan, settings) or _missing_executors(context, plan, settings))


def refuse_missing_parts(context: RunContext, plan: Plan, settings: RunSettings) -> None:
    context.hooks.refuse_missing(plan, settings)
    if missing := _missing_executors(context, plan, settings):
        raise ExecutorMissing(
            f"session {plan.session.name!r} needs executors that this program doesn't have: "
            f"those of the stages {', '.join(missing)}",
            hint="continue it with the program that registers them",
        )


def _missing_executors(context: RunContext, plan: Plan, settings: RunSettings) -> list[str]:
    """The stages that the program executes, and this one can't. A replay and mock mode call none."""
    if settings.replay is not None or settings.mock:
        return []
    stages = [stage.id for stage in plan.stages if any(one.type == OF_PROGRAM for one in stage.chain)]
    if not stages:
        return []
    provider = context.registry.known(OF_PROGRAM)
    return stages if not isinstance(provider, KnowsStages) else [*provider.lacks(stages)]
