"""The lines at the end of an attached run."""

import pytest

from agentforge.cli.attached import conclusion
from agentforge.model.state import Spending
from agentforge.model.status import RunStatus
from agentforge.views.results import RunResult


@pytest.mark.parametrize(
    ("spending", "shown"),
    [
        (Spending(), ""),
        (Spending(0.25, 9, 1), ", cost $0.25"),
        (Spending(0.25, 9, 1, ("gpt-5",)), ", cost $0.25 + unknown (gpt-5 reported none)"),
        (Spending(0.0, 9, 1, ("gpt-5",)), ", cost unknown (gpt-5 reported none)"),
    ],
)
def test_the_cost_of_a_run_says_what_is_unknown(spending: Spending, shown: str) -> None:
    result = RunResult("s", RunStatus.COMPLETED, "", 2, "/runs/s", spending=spending, duration_seconds=3.0)
    assert conclusion(result)[0].endswith(f"2 iterations in 3.0s{shown}")
