"""How much of a campaign is a part of `make test`; `make soak` runs all of it."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

heavy = settings(max_examples=max(20, settings().max_examples // 4))
"""For properties whose examples are expensive."""


def one_in(step: int, values: Iterable[Any]) -> list[Any]:
    """Parameters of a test: the first of every `step` of them; the others only in a soak."""
    return [
        pytest.param(value, marks=pytest.mark.soak) if number % step else value
        for number, value in enumerate(values)
    ]
