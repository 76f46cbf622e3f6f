"""Signatures leave out what changes from run to run, and keep the rest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.engine.checks.signature import MAX_SIGNATURE_CHARS, signature


@pytest.mark.parametrize(
    ("message", "masked"),
    [
        ("took 12.5s, then 300 ms", "took <time>, then <time>"),
        ("after 3 seconds and 2m", "after <time> and <time>"),
        ("at 2026-11-16T08:58:41.987688+00:00", "at <time>"),
        ("on 2026-11-16 at 08:58:41,123", "on <time> at <time>"),
        ("<A object at 0x7ff0e6fa6c90>", "<A object at <address>>"),
        ("id 379cb2fc-e402-4533-b2bd-bc7adba7b6b8 unknown", "id <uuid> unknown"),
        ("'/tmp/pytest-of-me/pytest-3/x.txt' missing", "'<tmp>' missing"),
        ("/private/var/folders/zz/T/tmp1: gone", "<tmp>: gone"),
        ("commit 3f2a91bc not found", "commit <hex> not found"),
        ("line 12, column 4: 1,024 of 3.5", "line <n>, column <n>: <n> of <n>"),
        ("127.0.0.1:5432 refused", "<n> refused"),
        (
            "port 8080/tcp, x86_64, E501, utf8, deadline, 1.5e-07 != 3",
            "port <n>/tcp, x86_64, E501, utf8, deadline, <n> != <n>",
        ),
        ("\n  first\n second", "first"),
        ("tab\tand \x1b[m bell\x07", "tab and [m bell"),
        ("cut in the mid...", "cut in the"),
    ],
)
def test_messages(message: str, masked: str) -> None:
    assert signature("t", message) == f"t: {masked}"


@pytest.mark.parametrize(
    ("place", "kept"),
    [
        ("a.py::test_2[1-x]", "a.py::test_2[1-x]"),
        ("test[<object at 0x7ff0e6fa6c90>]", "test[<object at <address>>]"),
        ("/tmp/w1/a.py E501", "<tmp> E501"),
    ],
)
def test_places(place: str, kept: str) -> None:
    assert signature(place, "") == kept


@pytest.mark.parametrize("length", range(130, 190, 7))
def test_a_place_is_cut_after_what_changes_is_masked(length: int) -> None:
    """Wherever the cut is: in the temporary path, before it or after it."""
    one, other = (f"{'x' * length}/tmp/{name}/a.py::test" for name in ("pytest-1", "w/pytest-of-me/12345"))
    assert signature(one, "m") == signature(other, "m")


def test_either_part_may_be_missing() -> None:
    assert (signature("", ""), signature("", "m"), signature("t", "  \n")) == ("", "m", "t")


@given(st.text(), st.text())
def test_signatures_are_short_stable_and_can_be_stored(place: str, message: str) -> None:
    found = signature(place * 50, message * 500)
    assert found == signature(place * 50, message * 500)
    assert len(found) <= MAX_SIGNATURE_CHARS
    assert found.isprintable()
    found.encode()


@given(st.integers(0, 2**64), st.uuids(), st.datetimes(), st.floats(0, 1e6))
def test_what_changes_is_not_in_it(number: int, id: object, at: object, seconds: float) -> None:
    """Whatever the values are."""
    message = f"{number} of {id} at {at}: {number:#x} took {seconds:.3f}s"
    assert signature("t", message) == "t: <n> of <uuid> at <time>: <address> took <time>"
