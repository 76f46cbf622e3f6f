"""What settings below `orchestration` change of the stages of a pipeline with `settings: orchestration`."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from agentforge.definition.precedence import merged
from agentforge.definition.read.artifact_keys import TOKENS
from agentforge.definition.read.check_keys import LIMITS
from agentforge.definition.read.settings_keys import TIMEOUT, TOTAL
from agentforge.definition.read.table import mapping_of
from agentforge.definition.read.work_keys import RETRY
from agentforge.definition.report import Report
from agentforge.definition.specs import ResolvedStage, RouteSpec, WorkSpec
from agentforge.definition.yaml_tree import Written, shown
from agentforge.model.diagnostic import choice
from agentforge.model.plan import FAIL

Orchestrated = Mapping[str, Written[Any]]
"""The settings by dotted keys, without `orchestration.`"""


def orchestrated(stage: ResolvedStage, settings: Orchestrated) -> WorkSpec:
    """A level above the stage's own keys. Of two settings for the same, the one for this stage counts."""
    id = stage.spec.id.value if stage.spec.id else ""
    own = f"stages.{id}."
    timeout = settings.get(f"{own}timeout") or settings.get(f"{id}{TIMEOUT}")
    again, retries = settings.get("step_retry_limit"), settings.get(f"{own}retry_limit")
    attempts = Written(again.value + 1, again.at) if again else None
    found: dict[str, Any] = {
        "timeout": timeout,
        "retry": mapping_of(RETRY, max_attempts=attempts, stage=retries or settings.get("stage_retry_limit")),
        "limits": mapping_of(LIMITS, cycles=settings.get("cycle_limit")),
        "tokens": mapping_of(
            TOKENS,
            total=settings.get(f"token_budget.{TOTAL}"),
            share=settings.get(f"token_budget.{id}"),
        ),
        "context_strategy": settings.get(f"{own}context_strategy"),
        "approve": settings.get(f"{own}require_human_approval"),
    }
    if (repeats := settings.get(f"{own}auto_retry_on_failure")) and not repeats.value:
        others = (route for route in merged(stage, "on") or () if route.verdict.value != FAIL)
        ask = RouteSpec(Written(FAIL, repeats.at), Written("ask", repeats.at))
        found["on"] = (*others, ask)
    return WorkSpec({name: value for name, value in found.items() if value is not None})


def stage_of(key: str) -> str:
    """The id of the stage that a setting is about; empty: of all."""
    match key.split("."):
        case ["token_budget", name, *more]:
            return "" if name == TOTAL else ".".join([name, *more])
        case ["stages", *parts]:
            return ".".join(parts[:-1])
        case _:
            return key.removesuffix(TIMEOUT) if key.endswith(TIMEOUT) else ""


def warn_of_unknown_stages(settings: Orchestrated, ids: Collection[str], report: Report) -> None:
    for key, value in settings.items():
        if (id := stage_of(key)) and id not in ids:
            message = f"`orchestration.{key}` has no effect: the pipeline has no stage {shown(id)}"
            report.warning("unknown-stage", value.at, message, choice(id, "stages", ids))


def validate_shares(stages: Sequence[ResolvedStage], settings: Orchestrated, report: Report) -> None:
    """The shares that a setting changes are at most 100 percent, together with those of the other stages."""
    budgets = [budget for stage in stages if (budget := merged(stage, "tokens"))]
    shares = [share for budget in budgets if (share := budget.get("share"))]
    changed = [share for share in shares if any(share is value for value in settings.values())]
    total = sum(share.value for share in shares)
    # More than 100 percent in the settings alone were reported with these.
    if changed and sum(share.value for share in changed) <= 100 < total:
        message = f"with this share, those of the stages are {total:g} % in all; the maximum is 100"
        report.error("bad-value", changed[-1].at, message, "also lower the shares of other stages")
