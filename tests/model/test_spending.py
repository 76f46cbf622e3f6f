"""What counts as spent once an attempt has ended."""

import pytest

from agentforge.model.result import Usage
from agentforge.model.spending import NOTHING, UNITS, Amount, Spending


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (None, [0.5, 900]),
        (Usage(), [0.5, 900]),
        (Usage(100, 20, cost_usd=0.1), [0.1, 120]),
        # No cost is unknown if tokens were used, and none if there were none.
        (Usage(100, 20), [0.5, 120]),
        (Usage(0, 0), [0, 0]),
        (NOTHING, [0, 0]),
        (Usage(0, None), [0.5, 900]),
        (Usage(100, None, cost_usd=0.1), [0.1, 900]),
        (Usage(800, 300, cost_usd=0.7), [0.7, 1100]),
    ],
)
def test_what_is_unknown_counts_as_reserved(usage: Usage | None, counts: list[float]) -> None:
    spent = Spending().settled(usage, Amount(0.5, 900))
    assert [spent.counted(unit) for unit in UNITS] == counts
