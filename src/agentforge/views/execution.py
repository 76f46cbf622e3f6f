"""What a run would execute, from its plan, and as lines for the person who decides whether to trust it."""

from collections.abc import Iterator, Sequence

import msgspec

from agentforge.model.errors import Execution
from agentforge.model.plan import Judgment, Plan, ProviderChoice, Queue, SandboxChoice, StageNode
from agentforge.model.state import RunSettings
from agentforge.views.text import one_line, shortened


def executions(plan: Plan, settings: RunSettings) -> tuple[Execution, ...]:
    """What the plan's stages execute, each once, and the judges, the hooks and the notifications."""
    stages = [stage for step in plan.steps for stage in step.stages]
    found = [_execution(stage.id, choice, settings, stage) for stage in stages for choice in stage.chain]
    judges: list[ProviderChoice] = []
    for stage in stages:
        if isinstance(stage.termination, Judgment) and plan.judge_of(stage) not in judges:
            judges.append(plan.judge_of(stage))
    found += [_execution("judge", judge, settings) for judge in judges]
    # A replay calls no hooks and sends no notifications.
    return (*found, *(_told(plan) if settings.replay is None else ()))


def _told(plan: Plan) -> Iterator[Execution]:
    """The hooks and the notifications."""
    for hook in plan.all_hooks:
        if hook.script or hook.url:
            called = {"script": hook.script} if hook.script else {"url": hook.url}
            yield Execution(f"hook {hook.id}", hook.action, settings=called)
    sandbox = plan.notify_sandbox or SandboxChoice()
    for notification in plan.pipeline.notify:
        if notification.command:
            yield Execution(
                "notify",
                "command",
                settings={"command": notification.command},
                sandbox=sandbox.type,
                network=sandbox.network,
            )
        if notification.url:
            yield Execution("notify", "webhook", settings={"url": notification.url})


def _execution(
    name: str, choice: ProviderChoice, settings: RunSettings, stage: StageNode | None = None
) -> Execution:
    sandbox = stage.sandbox if stage else None
    commands = dict(stage.commands) if stage else {}
    if stage and isinstance(stage.termination, Queue) and stage.termination.command:
        commands["queue"] = stage.termination.command
    commands |= stage.own_commands if stage else {}
    # No agent is started then, so its model and its settings have no effect; the commands still run.
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


MAX_LINES = 20
COLUMNS = 400
"""Of one line: a long command is cut, and the plan in the log has all of it."""


def execution_lines(executes: Sequence[Execution]) -> list[str]:
    lines = [one_line(", ".join(_parts(execution))) for execution in executes[:MAX_LINES]]
    more = len(executes) - MAX_LINES
    shown = [shortened(line, COLUMNS) for line in lines]
    return [*shown, f"and {more} more"] if more > 0 else shown


def _parts(execution: Execution) -> Iterator[str]:
    name = f"{execution.provider} {execution.model}".strip()
    yield f"{execution.stage}: {name}"
    confined = execution.sandbox != "none"
    network = "" if execution.network else " without network"
    yield f"sandbox {execution.sandbox}{network}" if confined else "no sandbox"
    for title, values in (("settings", execution.settings), ("commands", execution.commands)):
        if values:
            yield f"{title} {msgspec.json.encode(values).decode()}"
