"""Patterns match as Python's regular expressions do, but never take long."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentforge.model.text_pattern import MAX_PATTERN, PatternRefused, matches

CHARACTERS = ("a", "b", ".", "é", "]", r"\.", r"\\", r"\[", "^", "$")
SETS = ("[ab]", "[^a]", "[a-c]", "[-a]", "[a-]", r"[\d_]", "[^^]", r"[\]]")
singles = st.sampled_from((*CHARACTERS, *SETS, r"\d", r"\w", r"\s", r"\D", r"\W", r"\S"))
valid = st.recursive(
    singles,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=1, max_size=3).map("|".join).map("({})".format),
        st.tuples(inner.map("({})".format), st.sampled_from("*+?")).map("".join),
    ),
    max_leaves=8,
)
texts = st.text(st.sampled_from("abc .\\[]^-_é7"), max_size=8)


@given(valid, texts)
@example("aab", "aaab")
def test_a_pattern_matches_as_in_python(pattern: str, text: str) -> None:
    assert matches(pattern, text) == bool(re.search(pattern.replace("$", r"\Z"), text))


@pytest.mark.parametrize(
    "pattern", ["(a*)*b", "(a|a)*b", "(a+)+$b", "(.*)(.*)(.*)(.*)(.*)b", "((a?)+)+b", "()*b", "(a?a?a?a?)*b"]
)
def test_patterns_that_take_other_engines_forever_are_quick(pattern: str) -> None:
    assert not matches(pattern, "a" * 1_000)
    assert matches(pattern.replace("$b", "$"), "a" * 200 + "b") is ("$" not in pattern)


def test_the_whole_text_can_be_required() -> None:
    assert matches("^feature-[0-9]+$", "feature-12")
    assert not matches("^feature-[0-9]+$", "my-feature-12")
    assert matches("", "anything")


@pytest.mark.parametrize(("pattern", "text"), [(r"1\.5", "1.5"), (r"[\d_]\]", "7]"), (r"[\]]", "]")])
def test_an_escaped_character_is_itself_or_a_class(pattern: str, text: str) -> None:
    assert matches(f"^{pattern}$", text)
    assert not matches(f"^{pattern}$", "x" * len(text))


@pytest.mark.parametrize(
    ("pattern", "message", "offset"),
    [
        ("a(b", "`(` is not closed", 1),
        ("ab)", "`)` has no `(` before it", 2),
        ("[ab", "`[` is not closed", 0),
        ("a[]", "`[]` is empty", 1),
        ("*a", "`*` has nothing to repeat", 0),
        ("(+)", "`+` has nothing to repeat", 1),
        ("a**", "`*` follows `*`", 2),
        ("a{3}", "`{…}` is not supported in a pattern; write the part several times, or `\\{`", 1),
        ("{3}", "`{` has nothing to repeat", 0),
        ("(?:a)", "`(?` is not supported in a pattern; groups are `(…)`", 0),
        (r"(a)\1", r"`\1` is not supported in a pattern", 3),
        ("a\\", "`\\` is not supported in a pattern", 1),
        ("[z-a]", "`z-a` is not a range", 1),
        (r"[a-\d]", "`a-\\` is not a range", 1),
        ("(" * 21 + ")" * 21, "groups are nested more than 20 levels deep", 20),
        ("a" * (MAX_PATTERN + 1), "the pattern has 201 characters; the maximum is 200", 0),
    ],
)
def test_an_invalid_pattern_is_refused_with_its_reason(pattern: str, message: str, offset: int) -> None:
    with pytest.raises(PatternRefused) as refused:
        matches(pattern, "a")
    assert (refused.value.message, refused.value.offset) == (message, offset)


@given(st.text(st.sampled_from("ab()[]{}|*+?^$.\\-d")), texts)
def test_any_pattern_matches_or_not_or_is_refused(pattern: str, text: str) -> None:
    try:
        assert matches(pattern, text) in (True, False)
    except PatternRefused as error:
        refused = error
    else:
        return
    assert 0 <= refused.offset <= len(pattern)
