"""The rows of the options of starting and resuming, and what they override."""

import math
from decimal import Decimal
from typing import Any

import pytest

from agentforge.model.errors import InvalidRequest
from agentforge.model.plan import Overrides
from agentforge.model.run_options import (
    Argument,
    OverrideOptions,
    ResumeOptions,
    RunOptions,
    StartOptions,
    arguments_of,
    caps_of,
    completed,
    overrides_of,
)
from agentforge.model.spending import Amount


@pytest.mark.parametrize("kind", [StartOptions, OverrideOptions, RunOptions, ResumeOptions])
def test_every_argument_has_a_row(kind: type) -> None:
    rows = arguments_of(kind)
    assert rows.keys() == kind.__annotations__.keys()
    assert all(isinstance(row, Argument) for row in rows.values())
    assert completed(kind, kind()) == {name: row.default for name, row in rows.items()}
    with pytest.raises(TypeError, match="unexpected keyword argument 'forse'"):
        completed(kind, {"forse": True})


def test_caps_are_amounts_that_a_run_can_spend() -> None:
    assert overrides_of(OverrideOptions(max_cost=0.5, max_tokens=9)).caps == Amount(0.5, 9)
    assert (caps_of(None, None), caps_of(5.0, None)) == (None, Amount(5.0))


@pytest.mark.parametrize("cost", [0.0, -1.0, math.nan, math.inf, 1_000_001.0])
def test_no_bad_cap_means_that_there_is_none(cost: float) -> None:
    with pytest.raises(InvalidRequest, match="the cap on cost must be greater than 0 and at most 1,000,000"):
        caps_of(cost, None)
    with pytest.raises(InvalidRequest, match="the cap on tokens must be greater than 0"):
        caps_of(5.0, 0)


@pytest.mark.parametrize("cost", ["5", True, Decimal("0.5")])
def test_a_cap_that_a_log_could_not_hold_is_refused(cost: Any) -> None:
    with pytest.raises(InvalidRequest, match="the cap on cost must be a number of US dollars, got"):
        caps_of(cost, None)
    with pytest.raises(InvalidRequest, match=r"the cap on tokens must be a whole number, got 1\.5"):
        caps_of(5, 1.5)  # type: ignore[arg-type]


def test_what_overrides_the_definition_is_kept_for_the_plan() -> None:
    assert overrides_of(OverrideOptions()) == Overrides()
    given = RunOptions(
        force=True,
        inputs=["a.md"],
        provider="codex",
        model="gpt",
        provider_config={"effort": "high"},
        context="why",
        commands={"test": "true"},
        max_iterations=3,
        supervised=False,
        exit_after="plan",
        rounds=2,
        iterate=False,
        max_runtime=60.0,
        executors=["plan"],
    )
    assert overrides_of(given) == Overrides(
        "codex",
        "gpt",
        "why",
        ("a.md",),
        {"test": "true"},
        3,
        {"effort": "high"},
        supervised=False,
        exit_after="plan",
        rounds=2,
        iterate=False,
        max_runtime=60.0,
        executors=("plan",),
    )
