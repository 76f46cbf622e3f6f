"""The deliveries of a run: their keys, tries, times and answers."""

from datetime import UTC, timedelta

import pytest
from hypothesis import given
from msgspec.structs import replace
from tests.engine.any_log import any_log
from tests.views.samples import NOON, history, plan

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.facts import AnyFact
from agentforge.model.hook import HookPoint
from agentforge.views.hook_calls import Delivery, HookTry
from agentforge.views.lines.entries import RunEntry, Shown, delivery_entry
from agentforge.views.record import record_of

AT = Cursor("1", 1, 2)
HOOK: tuple[str, HookPoint, str] = ("review", "iteration_end", "d-1")
START = f.SessionStarted("pipeline", "run-1", plan(), "1.0", format=f.LOG_FORMAT)
CALL = f.HookStarted(*HOOK, action="webhook", timeout=60.0)


def found(*facts: AnyFact, at: Cursor | None = AT) -> tuple[Delivery, ...]:
    """The plan is known at noon, and the first fact is one second later."""
    return record_of(history((START, None), *((fact, at) for fact in facts))).deliveries


def shown(*facts: AnyFact, at: Cursor | None = AT, run: str = "running") -> RunEntry:
    (one,) = found(*facts, at=at)
    return delivery_entry(one, Shown("/runs/s", run, UTC))


def rows(text: RunEntry) -> list[str]:
    return [f"{row.label}: {row.value}" for row in text.rows]


def test_repeated_call_is_one_delivery_with_two_tries_and_one_key() -> None:
    (one,) = found(
        CALL,
        f.EffectIntended("d-1", "webhook", "http://localhost/"),
        f.HookLost(*HOOK),
        f.EffectReconciled("d-1", "webhook"),
        f.HookStarted(*HOOK, 2, action="webhook"),
        f.HookCompleted(*HOOK, 2, action="modify_context", context="more tests", status=200, duration_ms=300),
    )
    assert (one.hook, one.point, one.action, one.key) == ("review", "iteration_end", "webhook", "d-1")
    assert (one.stage, one.path, one.visit, one.iteration, one.branch) == ("build", "1", 1, 2, None)
    assert (one.status, one.outcome, one.context) == ("completed", "modify_context", "more tests")
    second = NOON + timedelta(seconds=1)
    assert one.tries == (
        HookTry(1, second, "lost", second + timedelta(seconds=2)),
        HookTry(2, second + timedelta(seconds=4), "completed", second + timedelta(seconds=5), 0.3, 200),
    )
    text = delivery_entry(one, Shown("/runs/s", "completed", UTC))
    assert (text.mark, text.title) == ("ok", "review (build, iteration 2): modify_context")
    assert rows(text) == [
        "Hook: webhook at iteration_end",
        "Key: d-1",
        "Try 1: 2026-01-31 12:00:01, lost",
        "Try 2: 2026-01-31 12:00:05, answered after 0.3s (HTTP 200)",
        "Context: more tests",
    ]


def test_hook_that_is_called_again_after_another_failure_is_another_delivery() -> None:
    again: tuple[str, HookPoint, str] = ("review", "iteration_end", "d-2")
    first, second, third = found(
        CALL,
        f.HookCompleted(*HOOK),
        f.HookStarted(*again, action="webhook"),
        f.HookLost(*again),
        f.HookStarted(*again, 2, action="webhook"),
        f.HookSkipped(*HOOK[:2], "it was lost"),
        f.HookStarted(*HOOK[:2], "d-3", action="webhook"),
    )
    assert (first.key, first.status, len(first.tries)) == ("d-1", "completed", 1)
    assert (second.key, second.status, len(second.tries)) == ("d-2", "skipped", 2)
    assert (third.key, third.status, len(third.tries)) == ("d-3", "running", 1)


def test_call_that_is_repeated_under_a_new_plan_is_the_same_delivery() -> None:
    again = f.HookStarted(*HOOK, 2, action="webhook")
    opened = f.RequestOpened("hook_lost-5", "pause", "k", "hook_lost", "?", ("continue",), subject="review")
    start = f.HookStarted("begin", "session_start", "d-0", action="script")
    gone = f.HookStarted("review", "iteration_end", "d-2", action="webhook")
    record = record_of(
        history(
            (START, None),
            (start, None),
            (gone, Cursor("0", 1, 2)),
            (CALL, AT),
            (f.PlanChanged(plan(), None, {"0": None, "1": "0"}), AT),
            (f.HookLost(*HOOK), Cursor("0", 1, 2)),
            (again, Cursor("0", 1, 2)),
            (opened, Cursor("0", 1, 2)),
        )
    )
    assert [(one.key, len(one.tries), one.request) for one in record.deliveries] == [
        ("d-0", 1, None),
        ("d-2", 1, None),
        ("d-1", 2, "hook_lost-5"),
    ]


def test_same_hook_at_two_places_has_two_deliveries() -> None:
    other = f.HookStarted("review", "iteration_end", "d-2", action="webhook")
    both = record_of(history((START, None), (CALL, AT), (other, Cursor("1", 1, 3)))).deliveries
    assert [(one.key, one.iteration) for one in both] == [("d-1", 2), ("d-2", 3)]


@pytest.mark.parametrize(
    ("facts", "mark", "title", "last"),
    [
        ([], "current", "running", "12:00:01, running"),
        (
            [f.HookFailed(*HOOK, message="HTTP\n404", status=404, duration_ms=20)],
            "failed",
            "failed",
            "12:00:01, failed after 0.0s: HTTP 404",
        ),
        (
            [f.HookTimedOut(*HOOK, duration_ms=60_000)],
            "failed",
            "timed out",
            "12:00:01, timed out after 1m 00s",
        ),
        ([f.HookLost(*HOOK, started=False)], "failed", "lost", "12:00:01, lost: it had not started"),
        (
            [f.HookFailed(*HOOK, retry=True), f.HookRetryScheduled(*HOOK, due_at=NOON)],
            "wait",
            "next try at 2026-01-31 12:00:00",
            "12:00:01, failed after 0.0s",
        ),
        (
            [f.HookTimedOut(*HOOK), f.HookSkipped("review", "iteration_end", "it failed:\nlate")],
            "note",
            "skipped: it failed: late",
            "12:00:01, timed out after 0.0s",
        ),
        (
            [f.HookCompleted(*HOOK, action="answer", answer="approve")],
            "ok",
            "answer approve",
            "12:00:01, answered after 0.0s",
        ),
    ],
)
def test_delivery_shows_how_far_it_got(facts: list[AnyFact], mark: str, title: str, last: str) -> None:
    text = shown(CALL, *facts)
    assert (text.mark, text.title) == (mark, f"review (build, iteration 2): {title}")
    assert rows(text)[-1] == f"Try 1: 2026-01-31 {last}"


def test_confirmation_shows_what_was_asked_and_answered() -> None:
    asked = f.RequestOpened("r-1", "pause", "k", "hook_confirm", "?", ("continue",), subject="review")
    facts = (f.HookStarted(*HOOK, action="confirm"), f.HookCompleted(*HOOK, action="pause"))
    text = shown(*facts, asked, run="paused")
    assert (text.mark, text.title) == ("wait", "review (build, iteration 2): waiting for an answer")
    assert rows(text) == ["Hook: confirm at iteration_end", "Request: r-1: open"]
    text = shown(*facts, asked, f.RequestAnswered("r-1", "continue", "person"))
    assert (text.mark, text.title) == ("ok", "review (build, iteration 2): continue")
    assert rows(text)[-1] == "Request: r-1: continue, by person"


def test_retry_after_a_failure_is_a_try_of_the_same_delivery() -> None:
    asked = f.RequestOpened("r-1", "pause", "k", "hook_webhook_failed", "?", ("retry",), subject="review")
    (one,) = found(
        CALL,
        f.HookFailed(*HOOK, message="HTTP 400"),
        asked,
        f.RequestAnswered("r-1", "retry", "person"),
        f.HookStarted(*HOOK, 2, action="webhook"),
    )
    assert (one.status, one.request, one.decision, len(one.tries)) == ("running", "r-1", "retry", 2)


def test_second_request_because_of_a_call_has_no_decision_yet() -> None:
    asked = f.RequestOpened("r-1", "pause", "k", "hook_lost", "?", ("retry",), subject="review")
    (one,) = found(
        CALL,
        f.HookLost(*HOOK),
        asked,
        f.RequestAnswered("r-1", "retry", "ada"),
        f.HookStarted(*HOOK, 2, action="webhook"),
        f.HookLost(*HOOK, 2),
        replace(asked, id="r-2"),
    )
    assert (one.request, one.decision, one.decided_by) == ("r-2", None, "")


def test_request_is_shown_with_the_latest_call_at_its_place() -> None:
    """A hook is called for each subject there."""
    first, second = found(
        f.HookStarted("h", "request", "d-1", subject="r-7"),
        f.HookStarted("h", "request", "d-2", subject="r-8"),
        f.RequestOpened("r-9", "pause", "k", "hook_lost", "?", ("retry",), subject="h"),
    )
    assert (first.request, second.request) == (None, "r-9")


def test_skipped_hook_is_not_due_again() -> None:
    later = NOON + timedelta(hours=1)
    failed = f.HookFailed(*HOOK, message="HTTP 500", retry=True)
    (one,) = found(
        CALL,
        failed,
        f.HookRetryScheduled(*HOOK, due_at=later),
        f.HookSkipped("review", "iteration_end", "no"),
    )
    assert (one.status, one.due_at) == ("skipped", None)


def test_request_of_another_hook_is_not_shown() -> None:
    other = f.RequestOpened("r-1", "pause", "k", "hook_confirm", "?", ("continue",), subject="other")
    (one,) = found(CALL, other, f.RequestAnswered("r-1", "continue", "person"))
    assert one.request is None


def test_call_of_a_run_without_an_engine_is_not_running() -> None:
    text = shown(CALL, run="interrupted")
    assert (text.mark, text.title) == (
        "wait",
        "review (build, iteration 2): no answer yet; the run is interrupted",
    )


def test_retry_that_begins_is_no_longer_awaited() -> None:
    (one,) = found(
        CALL,
        f.HookFailed(*HOOK, retry=True),
        f.HookRetryScheduled(*HOOK, due_at=NOON),
        f.HookStarted(*HOOK, 2, action="webhook"),
    )
    assert (one.status, one.due_at) == ("running", None)


def test_hook_that_was_not_called_has_no_key_and_no_tries() -> None:
    text = shown(f.HookSkipped("review", "iteration_end", "the condition failed"))
    assert (text.mark, text.title) == ("note", "review (build, iteration 2): skipped: the condition failed")
    assert rows(text) == ["Hook: iteration_end"]


def test_answer_that_is_not_possible_is_shown_as_ignored() -> None:
    text = shown(
        CALL,
        f.HookCompleted(*HOOK, action="restart_stage"),
        f.HookSkipped("review", "iteration_end", "not possible", answered=True),
    )
    assert text.title == "review (build, iteration 2): restart_stage, ignored: not possible"


def test_exit_status_of_a_script_is_named() -> None:
    text = shown(f.HookStarted(*HOOK, action="script"), f.HookCompleted(*HOOK, status=0))
    assert rows(text)[-1].endswith("answered after 0.0s (exit status 0)")


def test_hook_of_the_run_names_no_stage() -> None:
    call = f.HookStarted("begin", "session_start", "d-1", action="script")
    (one,) = found(call, at=None)
    assert (one.stage, one.path, one.visit, one.iteration) == ("", None, None, None)
    assert delivery_entry(one, Shown("/runs/s", "running", UTC)).title == "begin: running"


def test_place_names_branch_visit_and_iteration() -> None:
    assert shown(CALL, at=Cursor("1", 2, 0, "claude")).title == "review (claude: build, visit 2): running"
    assert shown(CALL, at=Cursor("7", 1, 1)).title == "review (7, iteration 1): running"


def test_text_of_a_hook_cannot_control_the_terminal() -> None:
    text = shown(CALL, f.HookCompleted(*HOOK, action="pause", reason="a\x1b[2J", context="b\n" * 999))
    assert "Reason: a\ufffd[2J" in rows(text)
    assert all("\n" not in row and "\x1b" not in row for row in rows(text))


def test_outcome_of_an_unknown_call_is_ignored() -> None:
    outcomes = [f.HookCompleted(*HOOK), f.HookFailed(*HOOK), f.HookRetryScheduled(*HOOK)]
    assert found(*outcomes) == ()
    assert found(CALL, at=Cursor("9", 1, 2))[0].stage == "9"


@given(any_log)
def test_deliveries_are_total_on_any_log(log: list[Event]) -> None:
    for one in record_of(log).deliveries:
        delivery_entry(one, Shown("/runs/s", "running", UTC))
