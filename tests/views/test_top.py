"""The rows of `top`."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.views.samples import NOON
from tests.views.test_status_view import ATTEMPT, ITERATION, NODE, STARTED, seen

from agentforge.model.request import Request
from agentforge.views.hook_calls import HookCallView
from agentforge.views.stage_progress import BranchProgress, StageProgress
from agentforge.views.status import FailureStatus, PauseStatus, RunningCheck, WaitStatus
from agentforge.views.top import HEADS, TopRow, column_widths, in_order, top_row, totals

RUNNING = seen(STARTED, NODE, ITERATION, ATTEMPT, status="running")
ASKED = Request("r-1", "approval", "k", "", "Ship\nit?", ("approve", "reject"), NOON)
CALL = HookCallView("review", "stage_end", "confirm", "plan", None, "running", "d-1", 1, NOON, None)
BRANCH = BranchProgress("claude", "current", "draft", 0, 1)


def waits(status: str = "running", **changes: Any) -> str:
    return top_row(replace(RUNNING, status=status, **changes), NOON).waits_for


def test_row_of_a_running_run() -> None:
    row = top_row(RUNNING, NOON)
    assert row == TopRow("auth", "running", "plan", 1, 2, 0, 1, 90.0, 0.0, None, (), "agent (command)")
    assert row.cells == ("auth", "running", "plan", "1/2", "1m 30s", "", "agent (command)")
    assert len(row.cells) == len(HEADS)


def test_row_of_a_run_that_can_not_be_read() -> None:
    assert TopRow("odd", "unknown").cells == ("odd", "unknown", "", "", "0.0s", "", "")


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (waits(attempt=2), "agent (command), attempt 2"),
        (waits(attempt=0), ""),
        (waits(node=None), ""),
        (waits(stages=(StageProgress("a", "current", 0, 1, branches=(BRANCH,)),)), "agents (command)"),
        (
            waits(waiting=(WaitStatus("plan", "claude", NOON + timedelta(seconds=53), "slow"),)),
            "claude, another 53s",
        ),
        (waits(hooks=(CALL,)), "hook review, 0.0s"),
        (waits(running_check=RunningCheck("test", NOON - timedelta(seconds=12))), "check test, 12s"),
        (waits(hooks=(replace(CALL, status="asking"),), requests=(ASKED,)), "a person, 0.0s: Ship it?"),
        (waits(requests=(ASKED,)), "a person, 0.0s: Ship it?"),
        (waits("awaiting_approval", requests=(ASKED, ASKED)), "a person, 0.0s: Ship it? (and 1 more)"),
        (waits("awaiting_approval", requests=(ASKED,), answered=True), "recover: answered, not continued"),
        (waits("paused", answered=True), "recover: answered, not continued"),
        (
            waits("paused", requests=(ASKED,), answered=True, program_hooks=("h",)),
            "the program that registers its hooks",
        ),
        (waits("paused", pause=PauseStatus("lunch", NOON, ())), "resume: lunch"),
        (waits("paused"), "resume: "),
        (waits("interrupted"), "recover"),
        (waits("failed", failure=FailureStatus("timeout", "late", 1)), "resume: timeout"),
        (waits("failed"), "resume"),
        *(
            (waits(status, program_hooks=("h",)), "the program that registers its hooks")
            for status in ("interrupted", "failed", "paused")
        ),
        (waits("paused", program_hooks=("h",), requests=(ASKED,)), "a person, 0.0s: Ship it?"),
        (waits("completed"), ""),
    ],
)
def test_what_a_run_waits_for(found: str, text: str) -> None:
    assert found == text


def test_unfinished_runs_come_first_and_the_total_counts_them() -> None:
    rows = [
        TopRow("a", "completed", cost_usd=0.5),
        TopRow("b", "aborted", unpriced_models=("gpt-5",)),
        TopRow("c", "paused"),
        TopRow("d", "running", cost_usd=0.25),
    ]
    ordered = in_order(rows)
    assert [row.session for row in ordered] == ["d", "c", "a", "b"]
    assert (
        totals(ordered)
        == "1 running, 1 paused, 1 completed, 1 cancelled · $0.75 + unknown (gpt-5 reported none)"
    )
    assert totals(rows[2:3]) == "1 paused"


def test_long_texts_are_shortened_and_then_columns_left_out() -> None:
    line = ("s" * 30, "running", "t" * 20, "1/3", "12s", "", "w" * 25)
    assert column_widths([HEADS, line], 200) == [30, 7, 20, 4, 7, 4, 25]
    fitted = column_widths([HEADS, line], 78)
    assert sum(fitted) + len(fitted) == 78
    assert fitted[1] == 7
    assert max(fitted) - fitted[2] <= 1
    narrow = column_widths([HEADS, line], 47)
    assert len(narrow) == 5
    assert column_widths([HEADS, line], 5) == [10]
