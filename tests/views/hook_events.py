"""Events of hooks and effects, each with its details in `tail` and its words on a terminal."""

from datetime import timedelta

from tests.views.samples import NOON

from agentforge.model import facts as f
from agentforge.model.facts import AnyFact
from agentforge.model.hook import HookPoint

HOOK: tuple[str, HookPoint, str] = ("review", "iteration_end", "d-1")
PLACE = "node=1 visit=1 iter=2"
NAMED = f"{PLACE} hook=review point=iteration_end"

HOOK_LINES: list[tuple[AnyFact, str, str | None]] = [
    (
        f.HookStarted(*HOOK, action="webhook"),
        f"{NAMED} attempt=1 action=webhook delivery=d-1",
        "build 2/3 calling hook review (webhook)",
    ),
    (
        f.HookStarted(*HOOK, 2, action="script"),
        f"{NAMED} attempt=2 action=script delivery=d-1",
        "build 2/3 calling hook review (script, try 2)",
    ),
    (f.HookStarted(*HOOK, action="confirm"), f"{NAMED} attempt=1 action=confirm delivery=d-1", None),
    (
        f.HookCompleted(*HOOK, status=200, duration_ms=1500),
        f"{NAMED} attempt=1 action=continue status=200 delivery=d-1",
        "build 2/3 hook review answered in 1.5s",
    ),
    (
        f.HookCompleted(*HOOK, action="modify_context", reason="more\nwork", context="Add\ntests"),
        f'{NAMED} attempt=1 action=modify_context reason="more work" context="Add tests" delivery=d-1',
        "build 2/3 hook review answered in 0.0s: more work; added to the context: Add tests",
    ),
    (f.HookCompleted(*HOOK, action="pause"), f"{NAMED} attempt=1 action=pause delivery=d-1", None),
    (
        f.HookCompleted(*HOOK, action="abort", reason="hopeless"),
        f'{NAMED} attempt=1 action=abort reason="hopeless" delivery=d-1',
        "build 2/3 hook review asked to abort the run: hopeless",
    ),
    (
        f.HookCompleted(*HOOK, action="restart_stage"),
        f"{NAMED} attempt=1 action=restart_stage delivery=d-1",
        "build 2/3 hook review asked to restart the stage",
    ),
    (
        f.HookCompleted("policy", "request", "d-1", action="answer", answer="approve"),
        f'{PLACE} hook=policy point=request attempt=1 action=answer answer="approve" delivery=d-1',
        "build 2/3 hook policy answered the request: approve",
    ),
    (
        f.HookFailed(*HOOK, message="HTTP\n500", retry=True, status=500),
        f'{NAMED} attempt=1 status=500 message="HTTP 500" delivery=d-1',
        "build 2/3 hook review failed (try 1): HTTP 500",
    ),
    (
        f.HookFailed(*HOOK, message="no connection"),
        f'{NAMED} attempt=1 message="no connection" delivery=d-1',
        "build 2/3 hook review failed (try 1): no connection",
    ),
    (
        f.HookTimedOut(*HOOK, duration_ms=60_000),
        f"{NAMED} attempt=1 after=1m 00s delivery=d-1",
        "build 2/3 hook review timed out after 1m 00s (try 1)",
    ),
    (
        f.HookLost(*HOOK),
        f"{NAMED} attempt=1 started=true delivery=d-1",
        "build 2/3 no answer from hook review: the engine or the call was stopped (try 1)",
    ),
    (
        f.HookLost(*HOOK, started=False),
        f"{NAMED} attempt=1 started=false delivery=d-1",
        "build 2/3 hook review was not called: the engine or the call was stopped (try 1)",
    ),
    (
        f.HookEnding(*HOOK, reason="machine_shutdown"),
        f'{NAMED} attempt=1 reason="machine_shutdown" delivery=d-1',
        "build 2/3 stopping hook review: the machine was shut down",
    ),
    (
        f.HookRetryScheduled(*HOOK, due_at=NOON + timedelta(seconds=4)),
        f"{NAMED} attempt=1 due=2026-01-31T12:00:04Z delivery=d-1",
        "build 2/3 calling hook review again in 4.0s",
    ),
    (
        f.HookRetryScheduled(*HOOK),
        f"{NAMED} attempt=1 due=now delivery=d-1",
        "build 2/3 calling hook review again now",
    ),
    (
        f.HookSkipped("review", "iteration_end", "the condition\nfailed"),
        f'{NAMED} reason="the condition failed"',
        "build 2/3 hook review was skipped: the condition failed",
    ),
    (
        f.HookSkipped("review", "iteration_end", "not possible", answered=True),
        f'{NAMED} reason="not possible"',
        "build 2/3 the answer of hook review was ignored: not possible",
    ),
    (
        f.EffectIntended("d-1", "webhook", "http://localhost/a"),
        f'{PLACE} kind=webhook attempt=1 key=d-1 target="http://localhost/a"',
        None,
    ),
    (
        f.EffectDone("d-1", "webhook", outcome="failed"),
        f"{PLACE} kind=webhook attempt=1 key=d-1 outcome=failed",
        None,
    ),
    (
        f.EffectReconciled("d-1", "webhook"),
        f"{PLACE} kind=webhook attempt=1 key=d-1 found=unknown then=repeat",
        None,
    ),
]
