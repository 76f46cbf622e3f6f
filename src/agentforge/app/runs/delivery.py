"""Whether a run can deliver: asked before it is started, as no agent should work for nothing."""

from collections.abc import Collection

from agentforge.adapters.host.git_repository import GitRepository
from agentforge.adapters.host.tree_scan import TooMuch, TreeFailed
from agentforge.app.runs.context import RunContext
from agentforge.model.delivery import NEEDS_GIT
from agentforge.model.errors import InvalidRequest
from agentforge.model.plan import Plan

HINT = "use --delivery-mode files to leave the change in the workspace"
SECONDS = 30.0


def refuse_undeliverable(context: RunContext, plan: Plan, skipped: Collection[str]) -> None:
    """Raise InvalidRequest if a stage that isn't skipped can't deliver in this repository."""
    stages = [one for one in plan.stages if one.deliver and one.id not in skipped]
    for stage in stages:
        if stage.deliver is not None and stage.deliver.mode in NEEDS_GIT and (why := _problem(context)):
            raise InvalidRequest(f"stage {stage.id!r} can't deliver a {stage.deliver.mode}: {why}", hint=HINT)


def _problem(context: RunContext) -> str:
    try:
        here = GitRepository(context.project, context.environ, SECONDS).here()
    except (TreeFailed, TooMuch) as error:
        return str(error)
    return f"{here.under_way} is in progress" if here.under_way else ""
