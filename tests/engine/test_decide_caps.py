"""Playbooks of the caps on spending: what an attempt reserves, what it settles at, when a person is asked."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, event, nested, plan_of, stage
from tests.engine.playbook import Play, play

from agentforge.engine.decide.cap_sums import caps_of
from agentforge.engine.decide.caps import cap_in_plan
from agentforge.engine.evolve.run import evolve
from agentforge.model import facts as f
from agentforge.model.cursor import Destination
from agentforge.model.failure import FailureKind
from agentforge.model.plan import Judgment, Limits, Node, ParallelNode, Plan, ProviderChoice, StageNode
from agentforge.model.request import granted
from agentforge.model.result import Usage
from agentforge.model.spending import UNITS, Amount, Spending, shown

KEEPS = ProviderChoice("claude", "opus", bounds=UNITS)
"""A provider that keeps to a budget."""


def capped(*nodes: Node, **limits: Any) -> Plan:
    plan = plan_of(*nodes)
    return replace(plan, pipeline=replace(plan.pipeline, limits=Limits(**limits)))


def keeping(node: ParallelNode) -> ParallelNode:
    """The block with providers that keep to a budget."""
    branches = (
        replace(branch, stages=tuple(replace(one, provider=KEEPS) for one in branch.stages))
        for branch in node.branches
    )
    return replace(node, branches=tuple(branches))


def priced(name: str = "plan", cost: float | None = 0.3, **changes: Any) -> StageNode:
    return stage(name, max_iteration_cost_usd=cost, **changes)


def question(play: Play) -> str:
    assert play.state is not None
    (request,) = play.state.open_requests
    return request.question


def answered(play: Play, answer: str) -> list[str]:
    assert play.state is not None
    (request,) = play.state.open_requests
    return play.happens(f"answer {request.id} {answer}")


def counted(play: Play, unit: Any = "cost_usd") -> float:
    assert play.state is not None
    return play.state.spending.counted(unit)


def told(plan: Plan, *said: str) -> tuple[Play, list[str]]:
    """What the engine says to the last of these."""
    conversation, answer = Play(plan), list[str]()
    for words in said:
        answer = conversation.happens(words)
    return conversation, answer


def test_four_branches_under_one_cap_start_three_and_ask_once() -> None:
    """The example of the documentation: a cap of $1.00, and agents that cost $0.30 each."""
    done = play(
        capped(block("a b c d", priced()), cost_usd=1.0),
        """
        > start
        < node_start duel
        < a: parallel_provider_start
        < b: parallel_provider_start
        < c: parallel_provider_start
        < d: parallel_provider_start
        ? a: prepare plan 1
        ? b: prepare plan 1
        ? c: prepare plan 1
        ? d: prepare plan 1
        > a: prepared
        < a: attempt_start 1 reserves=$0.3
        ? a: execute plan 1 attempt 1
        ? b: prepare plan 1
        ? c: prepare plan 1
        ? d: prepare plan 1
        > b: prepared
        < b: attempt_start 1 reserves=$0.3
        ? a: execute plan 1 attempt 1
        ? b: execute plan 1 attempt 1
        ? c: prepare plan 1
        ? d: prepare plan 1
        > c: prepared
        < c: attempt_start 1 reserves=$0.3
        ? a: execute plan 1 attempt 1
        ? b: execute plan 1 attempt 1
        ? c: execute plan 1 attempt 1
        ? d: prepare plan 1
        > d: prepared
        ? a: execute plan 1 attempt 1
        ? b: execute plan 1 attempt 1
        ? c: execute plan 1 attempt 1
        > a: completed cost=0.3
        < a: stage_complete plan: Completed 1 iterations (max: 1)
        < a: parallel_provider_complete completed
        ? b: execute plan 1 attempt 1
        ? c: execute plan 1 attempt 1
        > b: completed cost=0.3
        < b: stage_complete plan: Completed 1 iterations (max: 1)
        < b: parallel_provider_complete completed
        ? c: execute plan 1 attempt 1
        > c: completed cost=0.3
        < c: stage_complete plan: Completed 1 iterations (max: 1)
        < d: request_opened spending_cap-22
        < c: parallel_provider_complete completed
        < session_paused spending_cap
        = paused
        > answer spending_cap-22 0.50
        < session_continued spending_cap-22
        < d: request_resolved spending_cap-22 granted
        < d: attempt_start 1 reserves=$0.3
        ? d: execute plan 1 attempt 1
        > d: completed cost=0.3
        < d: stage_complete plan: Completed 1 iterations (max: 1)
        < d: parallel_provider_complete completed
        ? manifest duel
        """,
    )
    assert done.state is not None
    (cap,) = caps_of(done.plan, done.state)
    assert (cap.limit, cap.spent, cap.reserved, cap.left) == (1.5, 1.2, 0.0, 0.3)


def test_attempt_that_fits_once_others_have_settled_waits_for_them() -> None:
    plan = capped(block("a b", priced()), cost_usd=0.5)
    waiting = ("start", "a: prepared", "b: prepared")
    assert told(plan, *waiting)[1] == ["? a: execute plan 1 attempt 1"]
    assert "< b: attempt_start 1 reserves=$0.3" in told(plan, *waiting, "a: completed cost=0.2")[1]
    conversation, asked = told(plan, *waiting, "a: completed cost=0.3")
    assert "< session_paused spending_cap" in asked
    assert question(conversation) == (
        "the run is at its cap: $0.30 of $0.50 spent; b: the next attempt of stage 'plan' needs up to $0.30."
        " Allow a further amount (a number), or cancel the run (cancel)?"
    )


def test_branches_that_start_in_one_step_do_not_take_the_same_money() -> None:
    plan = capped(block("a b c", priced()), cost_usd=0.5)
    waiting = ("start", "c: prepared", "a: prepared", "b: prepared")
    assert told(plan, *waiting)[1] == ["? c: execute plan 1 attempt 1"]
    _, answer = told(plan, *waiting, "c: completed cost=0.1")
    assert [line for line in answer if "attempt" in line] == [
        "< a: attempt_start 1 reserves=$0.3",
        "? a: execute plan 1 attempt 1",
    ]


def test_branches_without_figures_share_what_is_left() -> None:
    plan = capped(keeping(block("a b", stage(runs=2))), cost_usd=1.0, tokens=101)
    first = told(plan, "start", "a: prepared")[1]
    assert first[0] == "< a: attempt_start 1 reserves=$0.5+50"
    conversation, second = told(plan, "start", "a: prepared", "b: prepared")
    assert second[0] == "< b: attempt_start 1 reserves=$0.5+50"
    conversation.happens("a: completed cost=0.1 used=10")
    conversation.happens("b: completed cost=0.5 used=50")
    assert conversation.happens("a: prepared")[0] == "< a: attempt_start 1 reserves=$0.2+20"
    conversation.happens("b: prepared")
    assert conversation.happens("b: completed cost=0.1 used=10")[-1] == "? a: execute plan 2 attempt 1"
    again = conversation.happens("a: error cap_reached cost=0.1 used=0")
    assert again[0] == "< a: attempt_start 2 reserves=$0.2+31", "there is as much again"
    conversation.happens("a: error cap_reached cost=0.2 used=0")
    assert question(conversation) == (
        "the run is at its cap: $1.00 of $1.00 spent; a: the next attempt of stage 'plan' needs up to $0.20."
        " Allow a further amount (a number), or cancel the run (cancel)?"
    )


def test_budget_that_was_too_little_to_begin_with_is_doubled_while_that_fits() -> None:
    """Otherwise an agent that stops before its first request would be started for ever."""
    plan = capped(keeping(block("a b c", stage())), cost_usd=0.9)
    conversation, _ = told(plan, "start", "a: prepared", "b: prepared", "b: completed cost=0.1")
    again = conversation.happens("a: error cap_reached cost=0")
    assert again[0] == "< a: attempt_start 2 reserves=$0.6"
    conversation.happens("a: error cap_reached unstarted")
    conversation.happens("c: prepared")
    assert conversation.state is not None
    assert [request.question for request in conversation.state.open_requests] == [
        "the run is at its cap: $0.10 of $0.90 spent; a: the next attempt of stage 'plan' needs up to $1.20."
        " Allow a further amount (a number), or cancel the run (cancel)?"
    ]


def test_least_amount_of_money_is_for_one_branch() -> None:
    plan = capped(keeping(block("a b c", stage())), cost_usd=1e-9)
    assert told(plan, "start", "a: prepared")[1][0] == "< a: attempt_start 1 reserves=$1e-09"


def test_last_token_is_for_one_branch() -> None:
    plan = capped(keeping(block("a b", stage())), tokens=1)
    assert told(plan, "start", "a: prepared", "b: prepared")[1] == ["? a: execute plan 1 attempt 1"]


def test_agent_that_reaches_its_figure_asks_and_uses_no_retry() -> None:
    plan = plan_of(priced(provider=KEEPS))
    conversation, asked = told(plan, "start", "prepared", "error cap_reached cost=0.3")
    assert asked[-1] == "< session_paused spending_cap"
    assert question(conversation) == (
        "before the next attempt of stage 'plan': the last one was stopped at $0.30, the most that it may"
        " spend (`max_iteration_cost_usd`). Try once more with as much (retry), allow a further amount (a"
        " number), or cancel the run (cancel)?"
    )
    again = answered(conversation, "retry")
    assert again[-2:] == ["< attempt_start 2 reserves=$0.3", "? execute plan 1 attempt 2"]
    conversation.happens("error cap_reached cost=0.3")
    more = answered(conversation, "0.25")
    assert more[-2:] == ["< attempt_start 3 reserves=$0.55", "? execute plan 1 attempt 3"]
    assert conversation.state is not None
    assert conversation.state.granted == {"iteration_cost_usd@0": 0.25}
    assert conversation.state.node is not None
    assert conversation.state.node.iteration is not None
    assert conversation.state.node.iteration.failures == ()


def test_own_cap_of_an_agent_that_was_given_none_is_a_failure() -> None:
    assert told(plan_of(stage()), "start", "prepared", "error cap_reached")[1] == [
        "< session_failed cap_reached"
    ]


def test_at_most_once_asks_first_whether_to_repeat_it() -> None:
    plan = plan_of(priced(provider=KEEPS, semantics="at_most_once"))
    conversation, asked = told(plan, "start", "prepared", "error cap_reached cost=0.3")
    assert asked[0].startswith("< request_opened at_most_once")
    assert answered(conversation, "retry")[-1] == "? execute plan 1 attempt 2"


JUDGED = capped(
    stage(termination=Judgment(2, 1, 1), provider=KEEPS, judge=KEEPS, max_iteration_cost_usd=0.4),
    cost_usd=1.0,
)


def test_judge_reserves_and_asks_when_it_reaches_its_figure() -> None:
    begun = ("start", "prepared", "completed cost=0.1")
    conversation, answer = told(JUDGED, *begun)
    assert answer[0] == "< judge_start 1 reserves=$0.4"
    assert "< session_paused spending_cap" in conversation.happens("judged failed capped cost=0.4")
    assert "the judge of stage 'plan'" in question(conversation)
    again = answered(conversation, "retry")
    assert again[-2:] == ["< judge_start 2 reserves=$0.4", "? judge plan 1 attempt 2"]
    assert conversation.happens("judged continue cost=0.1")[-1] == "? prepare plan 2"
    assert counted(conversation) == 0.6
    assert conversation.happens("prepared")[0] == "< attempt_start 1 reserves=$0.4"


def test_judge_waits_for_money_like_an_attempt() -> None:
    conversation, asked = told(JUDGED, "start", "prepared", "completed cost=0.7")
    assert asked[-1] == "< session_paused spending_cap"
    assert "$0.70 of $1.00 spent; the judge of stage 'plan' needs up to $0.40" in question(conversation)


@pytest.mark.parametrize(
    ("said", "cost", "tokens"),
    [
        ("completed cost=0.1 used=7", 0.1, 7),
        ("completed", 0.3, 50),
        ("completed cost=0.1", 0.1, 50),
        ("completed tokens=20", 0.3, 50),
        ("completed tokens=60", 0.3, 60),
        ("completed cost=0.5 used=90", 0.5, 90),
        ("error agent_error cost=0.2 used=3", 0.2, 3),
        ("error provider_missing unstarted", 0.0, 0),
        ("lost", 0.3, 50),
        ("lost unstarted", 0.0, 0),
    ],
)
def test_outcome_settles_at_what_was_used_or_else_at_the_reservation(
    said: str, cost: float, tokens: int
) -> None:
    plan = capped(priced(max_iteration_tokens=50, runs=2), cost_usd=9.0, tokens=900)
    conversation, _ = told(plan, "start", "prepared", said)
    assert (counted(conversation), counted(conversation, "tokens")) == (cost, tokens)
    assert conversation.state is not None
    assert conversation.state.spent.get("0", Spending()).counted("cost_usd") == cost
    assert conversation.state.spending.overruns == (cost > 0.3 or tokens > 50)
    assert conversation.state.spending.overrun_usd == max(0.0, round(cost - 0.3, 9))


def test_attempt_that_was_stopped_by_a_pause_settles_at_its_reservation() -> None:
    plan = capped(priced(), cost_usd=9.0)
    conversation, ending = told(plan, "start", "prepared", "pause now")
    assert ending[-1] == "? end plan 1 attempt 1"
    conversation.happens("cancelled")
    assert counted(conversation) == 0.3


def in_order(*limits: Limits | None) -> Plan:
    """A stage, a block and a nested pipeline, each with caps."""
    one, two, three = limits
    duel = replace(block("a", priced("draft")), limits=two)
    inner = replace(nested("part", priced("write")), limits=three)
    return plan_of(priced(limits=one, runs=2), duel, inner)


def test_caps_of_nodes_count_their_own_spending() -> None:
    plan = in_order(Limits(cost_usd=0.5), Limits(cost_usd=0.2), Limits(cost_usd=0.1))
    conversation, asked = told(plan, "start", "prepared", "completed cost=0.3", "prepared")
    assert asked[-1] == "< session_paused spending_cap"
    assert question(conversation).startswith("stage 'plan' is at its cap: $0.30 of $0.50 spent;")
    assert answered(conversation, ".1")[-1] == "? execute plan 2 attempt 1"
    conversation.happens("completed cost=0.3")
    conversation.happens("a: prepared")
    assert question(conversation).startswith("block 'duel' is at its cap: $0.00 of $0.20 spent; a: the next")
    answered(conversation, "1")
    conversation.happens("a: completed cost=0.3")
    conversation.happens("manifest")
    conversation.happens("prepared")
    assert question(conversation).startswith("pipeline 'part' is at its cap: $0.00 of $0.10 spent;")


def test_cap_on_a_stage_of_a_block_counts_all_branches_at_that_stage_and_no_other() -> None:
    plan = plan_of(block("a b c", priced("draft", limits=Limits(cost_usd=0.65)), priced("check")))
    begun = ("start", "a: prepared", "b: prepared", "a: completed cost=0.3", "a: prepared")
    conversation, started = told(plan, *begun, "c: prepared")
    assert [line for line in started if "execute" in line] == [
        "? a: execute check 1 attempt 1",
        "? b: execute draft 1 attempt 1",
    ]
    conversation.happens("b: completed cost=0.3")
    assert question(conversation).startswith("stage 'draft' is at its cap: $0.60 of $0.65 spent; c: the next")


def test_what_is_granted_adds_up() -> None:
    conversation, _ = told(capped(priced(), cost_usd=0.1), "start", "prepared")
    assert answered(conversation, "0.1")[-1] == "< session_paused spending_cap"
    assert answered(conversation, "0.1")[-1] == "? execute plan 1 attempt 1"


def test_caps_of_a_nested_pipeline_and_of_its_node_are_both_kept() -> None:
    inner = nested("part", stage(limits=Limits(tokens=5)))
    own = replace(inner.plan.pipeline, limits=Limits(cost_usd=0.7, tokens=90, cycles=2))
    node = replace(inner, plan=replace(inner.plan, pipeline=own), limits=Limits(cost_usd=0.8, tokens=80))
    places = [(place.path, place.caps) for place in plan_of(stage(), node).caps]
    assert places == [("1", Amount(0.7, 80)), ("1.0", Amount(None, 5))]


def test_provider_that_nothing_bounds_is_asked_about_before_it_starts() -> None:
    conversation, asked = told(capped(stage(), cost_usd=1.0), "start", "prepared")
    assert asked[-1] == "< session_paused spending_cap"
    assert question(conversation) == (
        "nothing bounds what the next attempt of stage 'plan' with claude may spend below a cap. Set"
        " `max_iteration_cost_usd` and resume with `--recompile`, or cancel the run (cancel)?"
    )


def test_outcome_without_a_place_counts_for_the_run() -> None:
    """As in a damaged log."""
    conversation, _ = told(plan_of(stage()), "start", "prepared")
    lost = f.ErrorOccurred(FailureKind.AGENT_ERROR, "no", "plan", 1, usage=Usage(cost_usd=0.5))
    state = evolve(conversation.state, event(9, lost))
    assert (state.spending.cost_usd, state.spent) == (0.5, {})


def test_resume_resets_no_sum() -> None:
    plan = capped(priced(runs=3), cost_usd=0.5)
    conversation, _ = told(plan, "start", "prepared", "completed cost=0.3", "prepared")
    assert conversation.happens("resume")[-1] == "< session_paused spending_cap"
    assert counted(conversation) == 0.3


def test_far_below_the_cap_nothing_is_different() -> None:
    said = ("start", "prepared", "error provider_crashed cost=0.1", "fired retry", "completed cost=0.1")
    free, under = (told(plan, *said) for plan in (plan_of(priced()), capped(priced(), cost_usd=100.0)))
    assert free[1] == under[1]
    assert [event.fact for event in free[0].events[1:]] == [event.fact for event in under[0].events[1:]]


def test_notice_is_given_once() -> None:
    plan = plan_of(stage(runs=3))
    plan = replace(plan, pipeline=replace(plan.pipeline, warn_usd=0.25))
    conversation, _ = told(plan, "start", "prepared", "completed cost=0.2", "prepared")
    assert conversation.happens("completed cost=0.2")[0] == "< spending_warned 0.4 of 0.25"
    conversation.happens("prepared")
    assert not [line for line in conversation.happens("completed cost=0.2") if "warned" in line]


def test_grants_of_nodes_follow_them_to_a_new_plan() -> None:
    plan = in_order(Limits(cost_usd=0.5), None, Limits(cost_usd=0.1))
    conversation, _ = told(plan, "start", "prepared", "completed cost=0.3", "prepared")
    answered(conversation, ".1")
    assert conversation.state is not None
    granted_now = {
        **conversation.state.granted,
        "cost_usd@2": 1.0,
        "cost_usd@9": 3.0,
        "cost_usd": 2.0,
        "tokens": 7.0,
    }
    state = replace(conversation.state, granted=granted_now)
    moved = plan_of(stage("new"), *plan.nodes)
    paths: dict[str, str | None] = {"0": "1", "1": "2", "1.0": "2.0", "2.0": "3.0"}
    changed = f.PlanChanged(moved, Destination("1"), paths)
    told_to = [
        evolve(state, event(99, replace(changed, caps_set=set_now))) for set_now in ((), ("cost_usd",))
    ]
    kept, reset = (each.granted for each in told_to)
    assert kept == {"cost_usd@1": 0.1, "cost_usd@3": 1.0, "cost_usd@9": 3.0, "cost_usd": 2.0, "tokens": 7.0}
    assert reset == {"cost_usd@1": 0.1, "cost_usd@3": 1.0, "cost_usd@9": 3.0, "tokens": 7.0}
    assert told_to[0].spent == {"1": conversation.state.spent["0"]}


def test_answer_about_the_cap_of_a_node_follows_it_to_a_new_plan() -> None:
    plan = in_order(Limits(cost_usd=0.5), None, Limits(cost_usd=0.1))
    conversation, _ = told(plan, "start", "prepared", "completed cost=0.3", "prepared")
    assert conversation.state is not None
    (request,) = conversation.state.open_requests
    conversation.record(f.RequestAnswered(request.id, "0.2", "person"), request.at)
    paths: dict[str, str | None] = {"0": "1", "1": "2", "1.0": "2.0", "2.0": "3.0"}
    moved = f.PlanChanged(plan_of(stage("new"), *plan.nodes), Destination("1"), paths)
    conversation.record(moved, conversation.state.cursor)
    assert "? execute plan 2 attempt 1" in conversation.answer()
    assert conversation.state.granted == {"cost_usd@1": 0.2}


def test_plan_with_other_caps_keeps_the_rest() -> None:
    plan = capped(stage(), cycles=2, cost_usd=1.0, tokens=10)
    changed = plan.with_caps(Amount(cost_usd=2.0))
    assert changed.pipeline.limits == Limits(cycles=2, cost_usd=2.0, tokens=10)
    assert changed.pipeline.overrides.caps == Amount(cost_usd=2.0)
    both = changed.with_caps(Amount(tokens=5))
    assert both.pipeline.overrides.caps == Amount(2.0, 5)
    assert plan_of(stage()).with_caps(Amount(tokens=5)).pipeline.limits == Limits(tokens=5)


@pytest.mark.parametrize(
    ("answer", "what", "number"),
    [
        ("0.50", "cost_usd", 0.5),
        (".5", "cost_usd", 0.5),
        ("2", "cost_usd", 2),
        ("1000000", "cost_usd", 1_000_000),
        ("1000001", "cost_usd", 0),
        ("-1", "cost_usd", 0),
        ("1e3", "cost_usd", 0),
        ("nan", "cost_usd", 0),
        ("0.0000001", "cost_usd", 0),
        ("5000000", "tokens", 5_000_000),
        ("1000000000001", "tokens", 0),
        ("9" * 5000, "tokens", 0),
        ("0.5", "tokens", 0),
        ("1000001", "rounds", 0),
        ("\u0663", "rounds", 0),
    ],
)
def test_grant_is_a_number_of_what_is_asked_for(answer: str, what: str, number: float) -> None:
    assert granted(answer, what) == number


def test_hook_may_grant_as_much_as_the_cap() -> None:
    plan = capped(priced(limits=Limits(tokens=5)), block("a", stage()), cost_usd=1.5)
    keys = ("cost_usd", "tokens@0", "iteration_cost_usd@0", "tokens")
    assert [cap_in_plan(plan, key) for key in keys] == [1.5, 5, 0.3, 0]


def test_amounts_have_as_many_decimals_as_they_need() -> None:
    texts = [shown("cost_usd", value) for value in (0, 0.5, 1234.5, 0.000125)]
    assert texts == ["$0.00", "$0.50", "$1,234.50", "$0.000125"]
    assert shown("tokens", 1200) == "1,200 tokens"
