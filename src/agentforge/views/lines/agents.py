"""What the agents of a plan may do: which models they call, with which permissions, in which sandbox."""

from collections.abc import Iterator, Mapping, Sequence

from agentforge.model.plan import Judgment, Plan, ProviderChoice
from agentforge.views.text import one_line

OWN_PERMISSIONS = "as configured in the CLI's own settings"
MAX_AGENTS = 4
NAME_CHARS = 60

Permissions = Mapping[str, Sequence[str]]
"""By provider: the arguments that let its CLI work without asking, unless the stage sets others."""


def agents_line(plan: Plan, permissions: Permissions, folder: str) -> str:
    """`Agents in /work/app: claude / opus (all permissions: --dangerously-skip-permissions; no sandbox)`."""
    found = list(dict.fromkeys(_agents(plan, permissions)))
    more = len(found) - MAX_AGENTS
    rest = [f"and {more} more (`agentforge dry-run` shows them)"] if more > 0 else []
    return f"Agents in {one_line(folder)}: {', '.join([*found[:MAX_AGENTS], *rest])}"


def permission_words(choice: ProviderChoice, permissions: Permissions, limit: int) -> str | None:
    """`all (--yolo)`, or the ones that the definition gives; empty: those of the CLI's own settings. None for
    an agent that has no permissions of its own."""
    if choice.type not in permissions:
        return None
    given = choice.config.get("permissions")
    words = permissions[choice.type] if given is None else given
    line = one_line(" ".join(map(str, words)), limit) if isinstance(words, Sequence) else ""
    return f"all ({line})" if line and given is None else line


def provider_text(choice: ProviderChoice) -> str:
    return f"{choice.type} / {choice.model}" if choice.model else choice.type


def _agents(plan: Plan, permissions: Permissions) -> Iterator[str]:
    for stage in (stage for step in plan.steps for stage in step.stages):
        judges = [plan.judge_of(stage)] if isinstance(stage.termination, Judgment) else []
        for choice in (*stage.chain, *judges):
            words = permission_words(choice, permissions, NAME_CHARS)
            allowed = [] if words is None else [f"permissions: {words or OWN_PERMISSIONS}"]
            is_confined = stage.sandbox is not None and stage.sandbox.type != "none"
            sandbox = f"sandbox {stage.sandbox.type}" if stage.sandbox and is_confined else "no sandbox"
            details = "; ".join([*allowed, sandbox])
            yield f"{one_line(provider_text(choice), NAME_CHARS)} ({details})"
