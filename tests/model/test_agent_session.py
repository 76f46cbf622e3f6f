"""Ids of agent sessions."""

import pytest

from agentforge.model.result import is_agent_session


@pytest.mark.parametrize(
    "text", ["0198c5b2-2d9e-7c7e-a5c7-0f4b9a1c2d3e", "ses_5f3a", "20261115_1", "a", "A.b:c", "x" * 128]
)
def test_ids_of_real_agents_are_valid(text: str) -> None:
    assert is_agent_session(text)


@pytest.mark.parametrize(
    "text", ["", "-a", "--resume", "_a", ".a", "a b", "a/b", "a\n", "\x1b", "é", "a\u202e", "x" * 129]
)
def test_options_paths_and_control_characters_are_invalid(text: str) -> None:
    assert not is_agent_session(text)
