"""Text, bytes and data without the secrets in them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge.model.secrets import HIDDEN, Redactor, spellings

KEY = "sk-0123456789"
ODD = 'a"b\\c\nd\té/8'


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("", ""),
        ("nothing here", "nothing here"),
        (f"the key is {KEY}.", "the key is [secret]."),
        (f"{KEY}{KEY}", "[secret][secret]"),
        (json.dumps({"key": ODD}), '{"key": "[secret]"}'),
        (json.dumps({"key": ODD}, ensure_ascii=False), '{"key": "[secret]"}'),
        (json.dumps(json.dumps({"key": ODD})), '"{\\"key\\": \\"[secret]\\"}"'),
    ],
)
def test_secrets_are_hidden_however_they_are_spelled(text: str, clean: str) -> None:
    assert Redactor([KEY, ODD]).text(text) == clean


def test_a_longer_secret_is_hidden_whole_where_a_shorter_one_is_its_beginning() -> None:
    assert Redactor([KEY, f"{KEY}-more"]).text(f"{KEY}-more {KEY}") == "[secret] [secret]"


def test_bytes_that_are_not_text_are_unchanged() -> None:
    assert Redactor([KEY]).bytes(b"\xff\xfe" + KEY.encode() + b"\x80") == b"\xff\xfe[secret]\x80"


@pytest.mark.parametrize(
    ("content", "clean"),
    [
        (rb'{"a": "sk-0123456789"}', b'{"a": "[secret]"}'),
        (rb'{"a": "\u0073k-0123456789", "b": 1}', b'{"a":"[secret]","b":1}'),
        (b"\xef\xbb\xbf" + rb'["a\"b\\c\nd\t\u00e9\/8"]', b'["[secret]"]'),
        (rb'{"a": "one\n two"}', rb'{"a": "one\n two"}'),
        (rb'{"a": "sk-0123456789\n', rb'{"a": "[secret]\n'),
        (b"[" * 100_000 + b"\\", b"[" * 100_000 + b"\\"),
    ],
    ids=["plain", "escaped", "slashed", "other", "not JSON", "deep"],
)
def test_json_is_hidden_however_it_is_escaped(content: bytes, clean: bytes) -> None:
    assert Redactor([KEY, ODD]).json(content) == clean
    assert Redactor([]).json(content) == content


def test_data_is_hidden_in_every_text_of_it() -> None:
    data = {"a": [KEY, 1, None, True, {f"x{KEY}": f"{KEY}y"}], "b": (KEY, 2.5)}
    assert Redactor([KEY]).data(data) == {
        "a": ["[secret]", 1, None, True, {"x[secret]": "[secret]y"}],
        "b": ("[secret]", 2.5),
    }


def test_text_without_secrets_is_unchanged() -> None:
    redactor = Redactor([])
    assert not redactor
    data = {"a": [KEY]}
    assert redactor.data(data) is data
    assert redactor.text(KEY) == KEY
    assert redactor.bytes(b"\xff") == b"\xff"


def test_an_empty_value_is_not_a_secret() -> None:
    assert not Redactor([""])
    assert spellings([""]) == ()


@given(st.text(st.characters(exclude_characters="[]"), min_size=8), st.text(), st.text())
def test_a_secret_never_survives_in_json(secret: str, before: str, after: str) -> None:
    redactor = Redactor([secret])
    document = redactor.text(json.dumps({"said": before + HIDDEN + secret + HIDDEN + after}))
    assert secret not in document
