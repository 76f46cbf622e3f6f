"""What `dry-run` and `lint` show of hooks and notifications."""

from msgspec.structs import replace
from tests.engine.plans import nested, plan_of, stage

from agentforge.model.condition import ConstantTerm, Operation, VariableTerm
from agentforge.model.hook import Hook, Notification
from agentforge.model.layout import RunLayout
from agentforge.model.plan import Plan
from agentforge.views.lines.dry_run import preview
from agentforge.views.lines.plan import hook_line, hook_sections

THIRD = Operation(">", (VariableTerm("iteration"), ConstantTerm(3)))
CONFIRM = Hook("ask", "stage_end", "confirm", stage="build", condition=THIRD, message="Go\non?")
WEBHOOK = Hook("n/iteration_end-1", "iteration_end", "webhook", url="https://x/y", secret="S")
SCRIPT = Hook("s", "session_end", "script", script="make \x1b[31m", environment=("A", "B"), timeout=5)
CALL = Hook("stage_end-review", "stage_end", "call", on_failure="continue")


def hooked(*hooks: Hook, notify: tuple[Notification, ...] = ()) -> Plan:
    plan = plan_of(stage("build"))
    return replace(plan, pipeline=replace(plan.pipeline, hooks=hooks, notify=notify))


def test_a_plan_without_hooks_has_no_section() -> None:
    assert list(hook_sections(plan_of(stage()))) == []


def test_all_hooks_are_shown_with_their_conditions() -> None:
    outer = hooked(CONFIRM, SCRIPT, CALL)
    inner = replace(nested("n", stage()), plan=hooked(WEBHOOK))
    assert list(hook_sections(replace(outer, nodes=(*outer.nodes, inner)))) == [
        "",
        "## Hooks",
        "",
        "### ask: confirm",
        "- When: stage_end of build",
        "- Condition: iteration > 3",
        "- Question: Go on?",
        "",
        "### s: script",
        "- When: session_end",
        "- Command: make �[31m",
        "- Variables: A, B",
        "- Limits: 5.0s per try, 1 try",
        "- On failure: pause; on timeout: pause; if the engine dies during the call: repeat",
        "",
        "### stage_end-review: call",
        "- When: stage_end",
        "- On failure: continue; on timeout: pause; if the engine dies during the call: repeat",
        "",
        "### n/iteration_end-1: webhook",
        "- When: iteration_end",
        "- Address: https://x/y, signed with S",
        "- Limits: 1m 00s per try, at most 3 tries",
        "- On failure: pause; on timeout: pause; if the engine dies during the call: repeat",
    ]


def test_hooks_that_need_the_network_are_marked_or_named_as_left_out() -> None:
    assert "- Network: needed" in hook_sections(hooked(replace(SCRIPT, network=True)))
    plan = plan_of(stage())
    left_out = replace(plan, pipeline=replace(plan.pipeline, left_out={"t\n": "it isn't"}))
    assert list(hook_sections(left_out)) == ["", "## Hooks", "- t is not called: it isn't"]


def test_notifications_are_shown() -> None:
    everything = Notification(desktop=True, command="./tell.sh", url="https://x")
    assert list(
        hook_sections(hooked(notify=(everything, Notification(("failed",), url="https://x", secret="S"))))
    ) == [
        "",
        "## Notifications",
        "- When the run needs a person, fails, completes or is cancelled: on the desktop; command"
        " ./tell.sh; POST to https://x",
        "- When the run fails: POST to https://x, signed with S",
    ]
    (*_, line) = hook_sections(
        hooked(notify=(Notification(("failed",), command="x", environment=("A", "B"), in_project=True),))
    )
    assert line == "- When the run fails: command x, with A, B, in the project"


def test_a_dry_run_shows_the_hooks_before_the_commands() -> None:
    lines = preview(hooked(CONFIRM), RunLayout("/run", "auth"))
    assert lines.index("## Stages") < lines.index("## Hooks")


def test_a_line_names_the_hook_its_point_and_its_condition() -> None:
    assert hook_line(CONFIRM) == "ask: confirm at stage_end of build, if iteration > 3"
    assert hook_line(WEBHOOK) == "n/iteration_end-1: webhook at iteration_end"
