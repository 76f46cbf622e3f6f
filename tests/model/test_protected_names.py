"""Which names are protected, however they are spelled."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis.strategies import text

from agentforge.model.names import folded, protected_step


@pytest.mark.parametrize(
    ("path", "name"),
    [
        (".git/config", ".git"),
        ("sub/.git", ".git"),
        ("a/b/.GIT/hooks/x", ".git"),
        (".g\u200cit/config", ".git"),
        ("．git/config", ".git"),
        (".Claude/settings.json", ".claude"),
        (".git./config", ".git"),
        ("a/.git /config", ".git"),
        (".git . ./config", ".git"),
        (".git\u3000/config", ".git"),
        (".git…", ".git"),
        (".git::$INDEX_ALLOCATION/config", ".git"),
        (".g\ufe0fit/config", ".git"),
        (".g\u034fit", ".git"),
        (".agent\u17b4forge/x", ".agentforge"),
        (".claude\U000e0101/x", ".claude"),
        (".ſtage/.clauDe", ".claude"),
        ("x/.agentforge/providers/y.yaml", ".agentforge"),
        (".gitignore", None),
        ("git/config", None),
        (".github/x", None),
        ("claude", None),
        (".git-notes", None),
        (". git", None),
        (".git.d/x", None),
        (".gít", None),
    ],
)
def test_a_protected_name_is_found_at_any_depth(path: str, name: str | None) -> None:
    assert protected_step(path) == name


def test_folding_keeps_the_steps() -> None:
    assert folded("Straße/ÄB") == "strasse/äb"
    assert folded("../a/./.../ /:x") == "../a/./.../ /:x"


@given(text(max_size=20))
def test_all_forms_of_a_name_are_folded_alike(name: str) -> None:
    once = folded(name)
    assert folded(once) == once
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert folded(unicodedata.normalize(form, name)) == once
