"""Checks that a person decides to skip: only a person may, and the log records who and why."""

import os
import pwd
from collections.abc import Mapping

from agentforge.app.redaction import stored_text
from agentforge.app.runs.context import RunContext
from agentforge.model.diagnostic import choice
from agentforge.model.errors import InvalidRequest
from agentforge.model.plan import Plan
from agentforge.model.state import Waiver

MAX_REASON_CHARS = 2_000


def waivers(context: RunContext, plan: Plan, skipped: Mapping[str, str]) -> tuple[Waiver, ...]:
    """`skipped`: reasons, by the names of the checks. Raises why they can't be skipped."""
    context.caller.refuse_agent(skip_checks=skipped)
    names = {check.name for step in plan.steps for stage in step.stages for check in stage.checks}
    for name, reason in skipped.items():
        if name not in names:
            hint = choice(name, "checks", sorted(names)) if names else "remove --skip-check: it has no checks"
            raise InvalidRequest(f"the pipeline has no check {name!r}", hint=hint)
        if not reason.strip() or len(reason) > MAX_REASON_CHARS:
            raise InvalidRequest(
                f"skipping the check {name!r} needs a reason of at most {MAX_REASON_CHARS:,} characters",
                hint="say why with --reason TEXT",
            )
    return tuple(
        Waiver(name, stored_text(reason.strip(), context.runs.environ, "the reason"), _user())
        for name, reason in skipped.items()
    )


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "person"
