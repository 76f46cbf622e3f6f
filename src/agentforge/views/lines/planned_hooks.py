"""The hooks and notifications of a plan, as `dry-run` and `lint` show them."""

from collections.abc import Iterator

from agentforge.model.condition import condition_text
from agentforge.model.hook import OCCASIONS, Hook, Notification
from agentforge.model.plan import Plan
from agentforge.views.text import one_line, span

TEXT_CHARS = 100


def hook_sections(plan: Plan) -> Iterator[str]:
    if plan.all_hooks:
        yield from ("", "## Hooks")
    for hook in plan.all_hooks:
        yield ""
        yield from _hook(hook)
    if plan.pipeline.notify:
        yield from ("", "## Notifications")
        yield from (f"- {_notification(one)}" for one in plan.pipeline.notify)


def hook_line(hook: Hook) -> str:
    """`stage_end-1: confirm at stage_end of plan, if iteration > 3`."""
    when = f", if {one_line(condition_text(hook.condition))}" if hook.condition else ""
    return f"{one_line(hook.id)}: {hook.action} at {_point(hook)}{when}"


def _hook(hook: Hook) -> Iterator[str]:
    yield f"### {one_line(hook.id)}: {hook.action}"
    yield f"- When: {_point(hook)}"
    if hook.condition:
        yield f"- Condition: {one_line(condition_text(hook.condition))}"
    if hook.message:
        yield f"- Question: {one_line(hook.message, TEXT_CHARS)}"
    if hook.url:
        yield f"- Address: {_address(hook.url, hook.secret)}"
    if hook.script:
        yield f"- Command: {one_line(hook.script, TEXT_CHARS)}"
    if hook.environment:
        yield f"- Variables: {', '.join(hook.environment)}"
    if hook.action in ("pause", "confirm"):
        return
    if hook.seconds is not None:
        tries = "1 try" if hook.max_tries == 1 else f"at most {hook.max_tries} tries"
        yield f"- Limits: {span(hook.seconds)} per try, {tries}"
    after = f"on timeout: {hook.on_timeout}; if the engine dies during the call: {hook.on_lost}"
    yield f"- On failure: {hook.on_failure}; {after}"


def _point(hook: Hook) -> str:
    return f"{hook.point} of {one_line(hook.stage)}" if hook.stage else hook.point


def _address(url: str, secret: str | None) -> str:
    return one_line(url, TEXT_CHARS) + (f", signed with {secret}" if secret else "")


def _notification(one: Notification) -> str:
    ways = ["on the desktop"] if one.desktop else []
    ways += [f"command {one_line(one.command, TEXT_CHARS)}"] if one.command else []
    ways += [f"POST to {_address(one.url, one.secret)}"] if one.url else []
    texts = {
        "request": "needs a person",
        "failed": "fails",
        "completed": "completes",
        "cancelled": "is cancelled",
    }
    when = [texts[occasion] for occasion in OCCASIONS if occasion in one.on]
    any_of = " or ".join(filter(None, (", ".join(when[:-1]), *when[-1:])))
    return f"When the run {any_of}: {'; '.join(ways)}"
