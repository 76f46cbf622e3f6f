"""Text, spans and amounts as people read them."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.views.text import (
    MAX_LINE,
    age,
    counted,
    money,
    one_line,
    padded,
    printable,
    shortened,
    span,
    width,
)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0.0s"),
        (0.44, "0.4s"),
        (9.94, "9.9s"),
        (9.96, "10s"),
        (59.4, "59s"),
        (59.6, "1m 00s"),
        (187, "3m 07s"),
        (7500, "2h 05m"),
        (273600, "3d 4h"),
    ],
)
def test_span(seconds: float, shown: str) -> None:
    assert span(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0s ago"), (59, "59s ago"), (60, "1m ago"), (7199, "1h ago"), (200000, "2d ago")],
)
def test_age(seconds: float, shown: str) -> None:
    assert age(seconds) == shown


def test_money_and_counts() -> None:
    assert [money(usd) for usd in (0.0042, 0.1, 12.345)] == ["$0.0042", "$0.10", "$12.35"]
    assert [counted(n, "event") for n in (0, 1, 12345)] == ["0 events", "1 event", "12,345 events"]


def test_one_line_takes_the_steering_out_of_text() -> None:
    assert one_line("a\x1b[2J\r\n\tb\u202e") == "a\ufffd[2J b\ufffd"
    assert one_line("word " * 10, 12) == "word word w…"


class LongText(str):
    """A text that must be cut before it is read."""

    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("every character was read")


def test_long_text_is_cut_before_it_is_cleaned() -> None:
    assert one_line(LongText("a \x1b" * 10_000_000), 12) == "a \ufffda \ufffda \ufffda…"
    assert one_line(LongText(" " * 50_000_000 + "a"), 12) == "…"
    assert len(one_line(LongText("a" * 50_000_000))) == MAX_LINE
    assert one_line("a" * MAX_LINE) == "a" * MAX_LINE


@given(st.text(), st.integers(min_value=0, max_value=40))
def test_shortened_text_fits_its_columns(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert width(line) <= limit
    assert line.isprintable()


def test_columns_of_wide_and_combining_characters() -> None:
    assert width("日本") == 4
    assert width("e\u0301") == 1
    assert padded("日本", 6) == "日本  "
    assert shortened("日本語", 5) == "日本…"
    assert printable("a\nb") == "a b"


def test_shortened_text_without_any_room_is_empty() -> None:
    assert [shortened("abc", limit) for limit in (0, -1)] == ["", ""]
    assert shortened("", -1) == ""
