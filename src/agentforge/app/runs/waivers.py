"""Waivers: the checks and stages that a person skips, with who and why. Only a person may."""

import os
import pwd
from collections.abc import Collection

from agentforge.app.redaction import stored_text
from agentforge.app.runs.context import RunContext
from agentforge.model.diagnostic import choice
from agentforge.model.errors import InvalidRequest
from agentforge.model.plan import Plan
from agentforge.model.result import JSONObject
from agentforge.model.run_options import DriveOptions
from agentforge.model.state import Waiver
from agentforge.views.skipped_stages import lacking, skippable

MAX_REASON_CHARS = 2_000


def waivers(
    context: RunContext,
    plan: Plan,
    how: DriveOptions,
    first: JSONObject | None = None,
    absent: Collection[str] | None = None,
) -> tuple[Waiver, ...]:
    """Raises why checks or stages can't be skipped. `first`: the artifact that the run was started with;
    `absent`: the ids of all stages that leave nothing, by default those that are skipped now."""
    checks, stages = how["skip_checks"], how["skip"]
    context.caller.refuse_agent(skip_checks=checks, skip=stages)
    refuse_skipped_checks(plan, checks)
    refuse_skip(plan, stages, first, absent)
    by = _user()
    return (
        *(Waiver(name, _said(context, f"check {name!r}", why), by) for name, why in checks.items()),
        *(Waiver("", _said(context, f"stage {name!r}", why), by, name) for name, why in stages.items()),
    )


def refuse_skipped_checks(plan: Plan, checks: Collection[str]) -> None:
    """Raise which of them the pipeline doesn't have."""
    known = {check.name for stage in plan.stages for check in stage.checks}
    for name in checks:
        if name not in known:
            hint = choice(name, "checks", sorted(known)) if known else "remove --skip-check: it has no checks"
            raise InvalidRequest(f"the pipeline has no check {name!r}", hint=hint)


def refuse_skip(
    plan: Plan,
    stages: Collection[str],
    first: JSONObject | None,
    absent: Collection[str] | None = None,
) -> None:
    """Raise why these stages can't be skipped."""
    known = skippable(plan)
    for name in stages:
        if name not in known:
            is_inner = any(stage.id == name for stage in plan.stages)
            what = f"stage {name!r} of a parallel block can't be skipped"
            message = what if is_inner else f"the pipeline has no stage {name!r}"
            raise InvalidRequest(message, hint=choice(name, "stages", known))
    for name, why in lacking(plan, stages if absent is None else absent, first or {}) if stages else ():
        raise InvalidRequest(
            f"stage {name!r} can't be skipped: {why}",
            hint="start a run with it in --artifact FILE (in Python: artifact=…), or skip that stage, too",
        )


def _said(context: RunContext, what: str, reason: str) -> str:
    """The reason as the log has it."""
    if not reason.strip() or len(reason) > MAX_REASON_CHARS:
        raise InvalidRequest(
            f"skipping the {what} needs a reason of at most {MAX_REASON_CHARS:,} characters",
            hint="say why with --reason TEXT",
        )
    return stored_text(reason.strip(), context.environ, "the reason")


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "person"
