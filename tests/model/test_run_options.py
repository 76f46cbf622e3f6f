"""The rows of the options of starting and resuming, and what they override."""

import pytest

from agentforge.model.plan import Overrides
from agentforge.model.run_options import (
    Argument,
    OverrideOptions,
    ResumeOptions,
    RunOptions,
    StartOptions,
    arguments_of,
    completed,
    overrides_of,
)


@pytest.mark.parametrize("kind", [StartOptions, OverrideOptions, RunOptions, ResumeOptions])
def test_every_argument_has_a_row(kind: type) -> None:
    rows = arguments_of(kind)
    assert rows.keys() == kind.__annotations__.keys()
    assert all(isinstance(row, Argument) for row in rows.values())
    assert completed(kind, kind()) == {name: row.default for name, row in rows.items()}
    with pytest.raises(TypeError, match="unexpected keyword argument 'forse'"):
        completed(kind, {"forse": True})


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
    )
    assert overrides_of(given) == Overrides(
        "codex", "gpt", "why", ("a.md",), {"test": "true"}, 3, {"effort": "high"}
    )
