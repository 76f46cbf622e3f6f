"""What people see of spending and caps: the header, `status`, `top`, `show --metrics` and notices."""

from datetime import UTC, timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, plan_of, stage
from tests.engine.playbook import Play
from tests.engine.test_decide_caps import KEEPS, capped, priced, told
from tests.engine.test_decide_daily import daily
from tests.views.samples import NOON
from tests.views.test_status_view import ATTEMPT, ITERATION, NODE, STARTED, seen

from agentforge.model.event import Event
from agentforge.model.plan import Judgment, Limits, Plan
from agentforge.model.spending import Spending
from agentforge.model.state import RunState
from agentforge.views.lines.metrics import metric_rows
from agentforge.views.lines.status import status_rows
from agentforge.views.metrics import metrics_of
from agentforge.views.notice import notice_of
from agentforge.views.record import RunRecord
from agentforge.views.spending import (
    CapView,
    cap_of_run,
    cap_views,
    caps_line,
    cost_text,
    overrun_text,
    spending_json,
    unenforced,
)
from agentforge.views.top import top_row, totals

CAP = CapView("the run", "", "cost_usd", 1.0, 0.9, 0.3)
TOKENS = CapView("the run", "", "tokens", 2000, 1500, 0)
NODE_CAP = CapView("stage 'plan'", "0", "cost_usd", 0.5, 0.3, 0)


def state_of(play: Play) -> RunState:
    assert play.state is not None
    return play.state


def test_caps_are_those_of_the_run_then_of_nodes() -> None:
    play, _ = told(
        capped(priced(provider=KEEPS, limits=Limits(tokens=50)), cost_usd=1.0), "start", "prepared"
    )
    assert [cap.text for cap in cap_views(play.plan, state_of(play))] == [
        "$0.00 of $1.00, $0.30 reserved",
        "0 of 50 tokens, 50 tokens reserved",
    ]


@pytest.mark.parametrize(
    ("spent", "cap", "text"),
    [
        (Spending(), None, ""),
        (Spending(0.2, unpriced=("gpt-5",)), None, "$0.20 + unknown (gpt-5 reported none)"),
        (Spending(0.2, assumed_usd=0.3), None, "$0.20 + $0.30 assumed"),
        (Spending(assumed_usd=0.3), None, "$0.30 assumed"),
        (Spending(0.9), CAP, "$0.90 of $1.00, $0.30 reserved"),
        (
            Spending(0.6, assumed_usd=0.3, unpriced=("gpt-5",)),
            replace(CAP, reserved=0),
            "$0.90 of $1.00; $0.30 of it assumed (gpt-5 reported no cost, which counts as reserved)",
        ),
    ],
)
def test_text_of_what_was_spent(spent: Spending, cap: CapView | None, text: str) -> None:
    assert cost_text(spent, cap) == text


def test_overruns_are_counted() -> None:
    texts = map(overrun_text, (Spending(), Spending(overruns=1, overrun_usd=0.25), Spending(overruns=2)))
    assert list(texts) == [
        "",
        "1 attempt used more than reserved, $0.25 in all",
        "2 attempts used more than reserved",
    ]


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        (plan_of(stage()), "no cap"),
        (capped(stage(), cost_usd=5.0, tokens=2_000_000), "at most $5.00, 2,000,000 tokens"),
        (capped(stage(limits=Limits(tokens=5)), cost_usd=5.0), "at most $5.00, caps on 1 node"),
        (plan_of(stage(limits=Limits(tokens=5)), stage("b", limits=Limits(tokens=5))), "caps on 2 nodes"),
        (daily(plan_of(stage())), "at most $5.00 a day by all runs"),
        (daily(capped(stage(), cost_usd=2.0)), "at most $2.00, $5.00 a day by all runs"),
    ],
)
def test_header_names_the_caps(plan: Plan, line: str) -> None:
    assert caps_line(plan) == line


def test_stages_are_named_whose_figure_no_provider_keeps_to() -> None:
    judged = stage("draft", termination=Judgment(2), provider=KEEPS)
    plan = capped(judged, stage("free", provider=KEEPS), block("codex", stage("try")), cost_usd=1.0)
    assert list(unenforced(plan)) == ["draft (claude)", "try (codex)"]
    assert list(unenforced(plan_of(stage()))) == []
    assert list(unenforced(daily(plan_of(stage(), stage("free", provider=KEEPS))))) == ["plan (claude)"]


def test_cap_of_the_day_is_shown_as_the_ledger_answered_last() -> None:
    said = ("start", "a: prepared", "b: prepared", "a: ledger spent=4 reserved=0.1")
    conversation, _ = told(daily(plan_of(block("a b", priced()))), *said)
    conversation.now += timedelta(seconds=1)
    conversation.happens("b: ledger granted=0 spent=4.4 reserved=0.4")
    assert conversation.state is not None
    (cap,) = cap_views(conversation.plan, conversation.state)
    assert (cap.of, cap.path, cap.text) == ("2026-01-15, all runs", "*", "$4.40 of $5.00, $0.40 reserved")


def rows(**changes: Any) -> list[tuple[str, str]]:
    view = replace(seen(STARTED, NODE, ITERATION, ATTEMPT, status="running"), **changes)
    labels = ("Cost", "Tokens", "Cap", "Overrun", "Not enforced")
    return [(row.label, row.value) for row in status_rows(view, NOON, UTC) if row.label in labels]


def test_status_has_a_row_for_each_cap() -> None:
    assert rows() == []
    assert rows(
        cost_usd=0.6,
        assumed_usd=0.3,
        input_tokens=1000,
        output_tokens=500,
        overruns=1,
        caps=(CAP, TOKENS, NODE_CAP),
        unenforced=("plan (command)",),
    ) == [
        ("Cost", "$0.90 of $1.00, $0.30 reserved; $0.30 of it assumed"),
        ("Tokens", "1,000 in, 500 out (1,500 of 2,000 tokens)"),
        ("Cap", "stage 'plan': $0.30 of $0.50"),
        ("Overrun", "1 attempt used more than reserved"),
        ("Not enforced", "the caps hold if the figures of these do: plan (command)"),
    ]


def test_top_shows_the_cap_on_the_cost() -> None:
    view = replace(seen(STARTED, NODE, status="running"), caps=(TOKENS, CAP))
    row = top_row(view, NOON)
    assert row.cells[5] == "$0.90 of $1.00, $0.30 reserved"
    assert totals([row, replace(row, cap=None, cost_usd=0.2)]).endswith(" · $1.10")


def recorded(play: Play) -> RunRecord:
    record = RunRecord()
    for event in play.events:
        record.apply(event)
    return record


def test_metrics_have_cost_and_caps_of_stages() -> None:
    plan = plan_of(priced(runs=2, limits=Limits(cost_usd=0.9)))
    play, _ = told(plan, "start", "prepared", "completed cost=0.2", "prepared", "completed cost=0.25")
    (one,) = metrics_of(recorded(play))
    assert (one.cost_usd, one.visits[0].cost_usd) == (0.45, 0.45)
    shown = {row.label: row.value for row in metric_rows(one)}
    assert (shown["Cost"], shown["Cap"]) == ("$0.45", "$0.45 of $0.90")
    free, _ = told(plan_of(stage()), "start", "prepared", "completed")
    assert metrics_of(recorded(free))[0].cost_usd is None


def notice(play: Play, event: Event) -> str:
    found = notice_of(event, play.plan, state_of(play))
    assert found is not None
    return found.text


def test_notice_has_what_was_spent_below_a_cap() -> None:
    play, _ = told(capped(priced(), cost_usd=1.0), "start", "prepared", "completed cost=0.2")
    assert notice(play, play.events[-1]) == "refine auth: complete; $0.20 of $1.00"
    asked, _ = told(capped(priced(), cost_usd=0.1), "start", "prepared")
    (opened,) = [one for one in asked.events if one.fact.TYPE == "request_opened"]
    assert notice(asked, opened).count("$0.00 of $0.10") == 1


def test_json_has_what_was_assumed() -> None:
    found = spending_json(Spending(assumed_usd=0.3, overruns=1), (CAP,))
    assert (found["cost_usd"], found["assumed_usd"], found["overruns"]) == (None, 0.3, 1)
    assert found["caps"] == (CAP,)
    assert cap_of_run((NODE_CAP, TOKENS), "cost_usd") is None
