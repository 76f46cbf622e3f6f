"""The hooks that a run is calling, as `status`, `top` and the live display name them."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.views.samples import NOON, history, plan

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.facts import AnyFact
from agentforge.model.failure import FailureKind
from agentforge.model.hook import Hook, HookPoint
from agentforge.model.plan import Plan
from agentforge.views.hook_calls import HookCallView, hook_calls
from agentforge.views.lines.hooks import hook_call_text
from agentforge.views.run_model import fold_events

AT = Cursor("1", 1, 2)
HOOK: tuple[str, HookPoint, str] = ("review", "iteration_end", "d-1")
HOOKS = (
    Hook("review", "iteration_end", "webhook", url="http://localhost/"),
    Hook("begin", "session_start", "script", script="./begin"),
    Hook("policy", "request", "call"),
)
PLAN = replace(plan(), pipeline=replace(plan().pipeline, hooks=HOOKS))
CALL = f.HookStarted(*HOOK, action="webhook")
NOW = NOON + timedelta(seconds=13)


def calls(*facts: AnyFact, at: Cursor | None = AT, of: Plan = PLAN) -> list[HookCallView]:
    """The call begins one second after noon."""
    start = f.SessionStarted("pipeline", "run-1", of, "1.0", format=f.LOG_FORMAT)
    model = fold_events(history((start, None), *((fact, at) for fact in facts)))
    assert model.plan
    assert model.state
    return list(hook_calls(model.plan, model.state))


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ([], "review (webhook at iteration_end of build), for 12s of 1m 00s"),
        ([f.HookEnding(*HOOK)], "review (webhook at iteration_end of build), for 12s of 1m 00s"),
        (
            [f.HookLost(*HOOK), f.HookStarted(*HOOK, 2, action="webhook")],
            "review (webhook at iteration_end of build), try 2, for 10s of 1m 00s",
        ),
        (
            [
                f.HookFailed(*HOOK, message="HTTP\n500", retry=True),
                f.HookRetryScheduled(*HOOK, due_at=NOW + timedelta(seconds=2)),
            ],
            "review (webhook at iteration_end of build), try 1 failed, next try in 2.0s: HTTP 500",
        ),
        (
            [
                f.HookFailed(*HOOK, message="no"),
                f.RequestOpened(
                    "r-1", "pause", "k", "hook_webhook_failed", "?", ("continue",), subject="review"
                ),
            ],
            "review (webhook at iteration_end of build), waiting for an answer",
        ),
    ],
)
def test_call_says_what_is_awaited(facts: list[AnyFact], text: str) -> None:
    (call,) = calls(CALL, *facts)
    assert (call.hook, call.stage, call.key) == ("review", "build", "d-1")
    assert hook_call_text(call, NOW) == text


@pytest.mark.parametrize(
    "facts",
    [
        [f.HookCompleted(*HOOK)],
        [f.HookCompleted(*HOOK, action="abort")],
        [f.HookFailed(*HOOK)],
        [f.SessionFailed(FailureKind.PROVIDER_CRASHED, "boom", "build")],
    ],
)
def test_call_that_is_over_is_not_awaited(facts: list[AnyFact]) -> None:
    assert calls(CALL, *facts) == []


def test_hook_of_the_run_names_no_stage() -> None:
    (call,) = calls(f.HookStarted("begin", "session_start", "d-1", action="script"), at=None)
    assert hook_call_text(call, NOW) == "begin (script at session_start), for 12s of 30s"


def test_function_has_no_time_limit() -> None:
    asked = f.RequestOpened("r-1", "approval", "k", "approval", "?", ("approve",))
    (call,) = calls(asked, f.HookStarted("policy", "request", "d-1", action="call", subject="r-1"))
    assert hook_call_text(call, NOW) == "policy (function at request of build), for 11s"


def test_hook_that_the_plan_does_not_have_is_named() -> None:
    (call,) = calls(CALL, at=Cursor("7", 1, 1, "claude"), of=plan())
    assert hook_call_text(call, NOW) == "review (iteration_end of claude: 7), for 12s"


def test_next_try_without_a_time_starts_in_a_moment() -> None:
    (call,) = calls(CALL)
    waiting = replace(call, status="waiting", until=None)
    assert hook_call_text(waiting, NOW).endswith("try 1 failed, next try in a moment")
