"""Playbooks of the cap of the day: when the ledger is asked, and what follows from its answer."""

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, plan_of, stage
from tests.engine.playbook import Play, play
from tests.engine.test_decide_caps import (
    JUDGED,
    KEEPS,
    answered,
    capped,
    keeping,
    priced,
    question,
    told,
)

from agentforge.engine.decide.caps import cap_in_plan
from agentforge.engine.decide.daily import GOOD_FOR
from agentforge.model import facts as f
from agentforge.model.plan import Plan
from agentforge.model.spending import DailyAnswer
from agentforge.model.task import LedgerTask

DAYS = ("2026-01-15", "2026-01-16")


def daily(plan: Plan, usd: float = 5.0) -> Plan:
    return replace(plan, pipeline=replace(plan.pipeline, daily_usd=usd))


def starts(said: list[str]) -> list[str]:
    return [line for line in said if "_start" in line]


def test_attempt_starts_when_the_ledger_has_granted_it() -> None:
    play(
        daily(plan_of(priced())),
        """
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        ? ledger agent 1: 0.3 to 0.3
        > ledger spent=4.6
        < attempt_start 1 reserves=$0.3
        ? execute plan 1 attempt 1
        > error provider_crashed
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        > fired retry
        ? ledger agent 2: 0.3 to 0.3
        > ledger
        < attempt_start 2 reserves=$0.3
        ? execute plan 1 attempt 2
        > completed cost=0.3
        < node_complete plan: Completed 1 iterations (max: 1)
        < session_complete all_loops_complete
        = completed
        """,
    )


def test_answer_is_for_one_attempt() -> None:
    conversation, _ = told(daily(plan_of(priced())), "start", "prepared", "ledger")
    assert conversation.happens("lost unstarted") == ["? ledger agent 2: 0.3 to 0.3"]


def test_judge_asks_the_ledger_under_a_key_of_its_own() -> None:
    conversation, asked = told(daily(JUDGED), "start", "prepared", "ledger", "completed cost=0.1")
    assert asked == ["? ledger judge 1: 0.4 to 0.4"]
    assert starts(conversation.happens("ledger")) == ["< judge_start 1 reserves=$0.4"]
    keys = [event.fact.key for event in conversation.events if isinstance(event.fact, f.LedgerAnswered)]
    assert len({*keys}) == 2


def test_run_that_may_fit_when_others_have_settled_waits_and_asks_again() -> None:
    conversation, waits = told(
        daily(plan_of(priced())), "start", "prepared", "ledger granted=0 spent=4 reserved=1"
    )
    assert waits == ["? wait daily_cap 30s"]
    assert conversation.happens("fired daily_cap") == ["? ledger agent 1: 0.3 to 0.3"]
    assert starts(conversation.happens("ledger spent=4.7")) == ["< attempt_start 1 reserves=$0.3"]


def test_day_that_is_used_up_asks_once_for_all_branches_and_a_grant_is_for_that_day() -> None:
    conversation, _ = told(daily(plan_of(block("a b", priced()))), "start", "a: prepared", "b: prepared")
    asked = conversation.happens("a: ledger granted=0 spent=4.8 reserved=0.1")
    assert asked == ["< a: request_opened spending_cap-8", "< session_paused spending_cap"]
    assert question(conversation) == (
        "2026-01-15 is at its cap: $4.80 of $5.00 spent by all runs, $0.10 reserved; a: the next attempt of"
        " stage 'plan' needs up to $0.30. Allow a further amount (a number), or cancel the run (cancel)?"
    )
    assert answered(conversation, "1.5")[-2:] == [
        "? a: ledger agent 1: 0.3 to 0.3",
        "? b: ledger agent 1: 0.3 to 0.3",
    ]
    caps = [
        {day: work.cap_on(day) for day in DAYS} for work in conversation.work if isinstance(work, LedgerTask)
    ]
    assert caps == [{"2026-01-15": 6.5, "2026-01-16": 5.0}] * 2
    assert starts(conversation.happens("a: ledger spent=4.8")) == ["< a: attempt_start 1 reserves=$0.3"]
    assert cap_in_plan(conversation.plan, "daily_usd 2026-01-15") == 0, "no hook grants it"


def test_resume_asks_the_ledger_again_as_it_may_be_tomorrow() -> None:
    conversation, _ = told(daily(plan_of(priced())), "start", "prepared", "ledger granted=0 spent=5")
    assert conversation.happens("resume")[-1] == "< session_paused spending_cap", (
        "nothing has changed in an instant"
    )
    conversation.now += GOOD_FOR
    assert conversation.happens("resume")[-1] == "? ledger agent 1: 0.3 to 0.3"
    assert starts(conversation.happens("ledger day=2026-01-16")) == ["< attempt_start 1 reserves=$0.3"]


@pytest.mark.parametrize("luck", ["granted=0.3", "granted=0 spent=4.9"])
def test_answer_that_an_engine_did_not_use_at_once_is_asked_for_again(luck: str) -> None:
    conversation, _ = told(daily(plan_of(priced())), "start", "prepared")
    (task,) = conversation.work
    assert isinstance(task, LedgerTask)
    # The engine dies after it has recorded the answer.
    answer = DailyAnswer("2026-01-15", 5.0, 4.9, 0.0, 0.3 if luck == "granted=0.3" else 0.0)
    conversation.record(f.LedgerAnswered(task.id, 0.0, answer), task.cursor)
    conversation.now += GOOD_FOR
    assert conversation.happens("recover") == ["? ledger agent 1: 0.3 to 0.3"]


def test_spending_of_another_branch_is_a_reason_to_ask_again() -> None:
    conversation, _ = told(daily(plan_of(block("a b", priced()))), "start", "a: prepared", "a: ledger")
    conversation.happens("b: prepared")
    assert conversation.happens("b: ledger granted=0 spent=4.5 reserved=0.3")[-1] == "? b: wait daily_cap 30s"
    assert "? b: ledger agent 1: 0.3 to 0.3" in conversation.happens("a: completed cost=0.1")


def test_provider_that_keeps_to_a_budget_gets_a_part_of_the_day_or_what_is_left_of_it() -> None:
    conversation, asked = told(daily(plan_of(keeping(block("a b", stage())))), "start", "a: prepared")
    assert asked == ["? a: ledger agent 1: 0 to 2.5", "? b: prepare plan 1"]
    first = conversation.happens("a: ledger granted=0.7 spent=4.3")
    assert starts(first) == ["< a: attempt_start 1 reserves=$0.7"]
    again = conversation.happens("a: error cap_reached cost=0.7")
    assert again[0] == "? a: ledger agent 2: 0.7 to 2.5", "less than before is of no use"
    assert "needs up to $0.70" in question_after(conversation, "a: ledger granted=0 spent=4.6")
    alone, _ = told(daily(plan_of(stage(provider=KEEPS))), "start", "prepared")
    assert "attempt of stage 'plan' needs more." in question_after(alone, "ledger granted=0 spent=5")


def test_cap_of_the_run_bounds_what_is_asked_of_the_day() -> None:
    plan = daily(capped(stage(provider=KEEPS), cost_usd=1.0, tokens=70))
    conversation, asked = told(plan, "start", "prepared")
    assert asked == ["? ledger agent 1: 0 to 1"]
    assert starts(conversation.happens("ledger granted=0.6")) == ["< attempt_start 1 reserves=$0.6+70"]
    over = told(daily(capped(priced(), cost_usd=0.2)), "start", "prepared")[1]
    assert over[-1] == "< session_paused spending_cap", (
        "the ledger isn't asked for what the run may not spend"
    )


def test_provider_that_nothing_bounds_is_asked_about() -> None:
    asked = question_after(told(daily(plan_of(stage())), "start")[0], "prepared")
    assert "nothing bounds what the next attempt of stage 'plan' with claude may spend" in asked


def question_after(conversation: Play, said: str) -> str:
    conversation.happens(said)
    return question(conversation)
