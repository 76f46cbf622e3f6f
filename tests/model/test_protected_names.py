"""Which names are protected, however they are spelled."""

import pytest

from agentforge.model.protected_names import folded, protected_step


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (".git/config", ".git"),
        ("sub/.git", ".git"),
        ("a/b/.GIT/hooks/x", ".git"),
        (".g\u200cit/config", ".git"),
        ("．git/config", ".git"),
        (".Claude/settings.json", ".claude"),
        ("x/.agentforge/providers/y.yaml", ".agentforge"),
        (".gitignore", None),
        ("git/config", None),
        (".github/x", None),
        ("claude", None),
    ],
)
def test_a_protected_name_is_found_at_any_depth(path: str, name: str | None) -> None:
    assert protected_step(path) == name


def test_folding_keeps_the_steps() -> None:
    assert folded("Straße/ÄB") == "strasse/äb"
