"""The stages whose work only agents verify."""

from collections.abc import Mapping

from agentforge.model.check import Baseline
from agentforge.model.plan import Plan
from agentforge.views.text import one_line


def unverified_stages(plan: Plan, baselines: Mapping[str, Baseline]) -> tuple[str, ...]:
    """The stages that name checks of which none is used. `baselines`: those that are known."""
    found = []
    for stage in plan.stages:
        # What items ask for is not a check of the stage.
        own = [check for check in stage.checks if not check.criteria]
        unused = [check for check in own if (known := baselines.get(check.baseline)) and known.unusable]
        if (own or stage.left_out) and len(unused) == len(own):
            found.append(stage.id)
    return tuple(dict.fromkeys(found))


def unverified_text(plan: Plan, baselines: Mapping[str, Baseline]) -> str:
    """`. Only an agent verifies the work: …`, to be added to what is said before the first agent; empty if
    there is no such stage."""
    stages = ", ".join(map(one_line, unverified_stages(plan, baselines)))
    return f". Only an agent verifies the work: no check of stage {stages} can be used" if stages else ""
