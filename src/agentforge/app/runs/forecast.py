"""What a run will do at most, and what earlier runs of its pipeline took."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from agentforge.app.providers.readiness import Readiness
from agentforge.app.runs.context import RunContext
from agentforge.app.runs.lookup import Runs
from agentforge.app.runs.start import run_settings, user_request
from agentforge.app.runs.waivers import refuse_skipped_checks
from agentforge.definition.compiler import Compiled
from agentforge.engine.worst_case import WorstCase, worst_case
from agentforge.model.errors import AgentForgeError
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Plan, StageNode
from agentforge.model.run_options import StartOptions
from agentforge.system import files
from agentforge.views.earlier_runs import EarlierRuns, earlier_runs, is_earlier_run
from agentforge.views.lines.dry_run import preview, readiness_lines
from agentforge.views.lines.forecast import earlier_lines, worst_case_lines
from agentforge.views.lines.plan import Permissions

MAX_RUNS = 200
"""The latest runs of the project, of which those of the pipeline are used."""
MAX_LOG_BYTES = 64 * 1024 * 1024
"""A run with a larger log is left out, as its log may have to be read."""


class Forecast(Struct, frozen=True):
    """What is known of a run before it is started."""

    plan: Plan
    """As it would run, without the checks that are skipped."""
    request: str | None
    skipped: tuple[str, ...]
    """The ids of the stages that are skipped."""
    problems: tuple[AgentForgeError, ...]
    """Why it can't start."""
    warnings: tuple[str, ...]
    worst_case: WorstCase
    earlier: EarlierRuns


async def forecast(
    context: RunContext, compiled: Compiled, how: StartOptions, examine: Callable[..., Awaitable[Readiness]]
) -> Forecast:
    """Raises what is wrong with the arguments. Skipped checks and stages need no reasons. `examine`: tells
    whether the plan can run here."""
    skip, checks, settings = tuple(how["skip"]), how["skip_checks"], run_settings(context.environ, how)
    wanted = None if how["request"] is None else user_request(context, compiled.plan, how["request"])
    refuse_skipped_checks(compiled.plan, checks)
    ready = await examine(compiled, skip=skip, artifact=how["artifact"])
    plan = _without_checks(ready.plan, checks)
    return Forecast(
        plan,
        wanted.text if wanted else None,
        skip,
        ready.problems,
        ready.warnings,
        worst_case(plan, settings, skip),
        await asyncio.to_thread(_earlier_runs, context.runs, plan),
    )


def lines(found: Forecast, layout: RunLayout, permissions: Permissions) -> list[str]:
    problems = [(problem.message, problem.hint) for problem in found.problems]
    return [
        *preview(found.plan, layout, permissions, found.skipped, found.request),
        *worst_case_lines(found.worst_case),
        *earlier_lines(found.earlier),
        *readiness_lines(problems, found.warnings),
    ]


def _without_checks(plan: Plan, names: Collection[str]) -> Plan:
    """The plan as it runs if a person skips these checks."""

    def kept(stage: StageNode) -> StageNode:
        skipped = {check.name: "it is skipped" for check in stage.checks if check.name in names}
        checks = tuple(check for check in stage.checks if check.name not in skipped)
        return replace(stage, checks=checks, left_out={**stage.left_out, **skipped})

    return plan.with_stages(kept) if names else plan


def _earlier_runs(runs: Runs, plan: Plan) -> EarlierRuns:
    """Runs that can't be read are left out."""
    found = []
    for session in runs.sessions()[:MAX_RUNS]:
        about = files.about(runs.layout(session).log)
        if about is None or about.st_size > MAX_LOG_BYTES:
            continue
        with suppress(AgentForgeError):
            info = runs.info(session)
            if is_earlier_run(info, plan):
                found.append(info)
    return earlier_runs(found)
