"""The judges of a run: a stage may be judged by its own provider if the default judge is not usable here."""

from collections.abc import Mapping

from msgspec.structs import replace

from agentforge.app.providers.pinned import RunProviders
from agentforge.definition.precedence import JUDGE_PROVIDER
from agentforge.model.errors import AgentForgeError, ProviderUnusable
from agentforge.model.plan import Judgment, Plan, ProviderChoice, StageNode


def usable_judges(
    plan: Plan, registry: RunProviders, broken: Mapping[str, AgentForgeError], *, chooses: bool
) -> tuple[Plan, list[AgentForgeError], list[str]]:
    """The plan with a usable judge for each stage that needs one, why there is none, and notes on judges that
    were replaced."""
    problems: list[AgentForgeError] = []
    notes: list[str] = []

    def judged(stage: StageNode) -> StageNode:
        judge = plan.judge_of(stage)
        if not isinstance(stage.termination, Judgment) or judge.type not in broken:
            return stage
        why = broken[judge.type]
        own = _own_judge(stage, registry, broken) if chooses else None
        if own is None:
            problems.append(_without_judge(stage, judge, why))
            return stage
        model = f" / {own.model}" if own.model else ""
        reason = f"{judge.type} is not usable: {why.message}"
        notes.append(f"stage {stage.id!r} is judged by {own.type}{model}, because {reason}")
        return replace(stage, judge=own)

    return plan.with_stages(judged), problems, notes


def _own_judge(
    stage: StageNode, registry: RunProviders, broken: Mapping[str, AgentForgeError]
) -> ProviderChoice | None:
    usable = (choice for choice in stage.chain if choice.type not in broken)
    return next((choice for choice in usable if registry[choice.type].capabilities().can_judge), None)


def _without_judge(stage: StageNode, judge: ProviderChoice, why: AgentForgeError) -> ProviderUnusable:
    fix = f"or set {JUDGE_PROVIDER} to a provider that is usable (`agentforge providers`); "
    fix += "a run that is resumed needs --recompile for that"
    return ProviderUnusable(
        f"stage {stage.id!r} has no judge: {judge.type} is not usable: {why.message}",
        hint=f"{why.hint}, {fix}" if why.hint else f"install it, {fix}",
    )
