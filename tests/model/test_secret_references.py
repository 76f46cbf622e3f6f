"""Secrets that are stored as references to their variables."""

from hypothesis import given
from hypothesis import strategies as st

from agentforge.model.secrets import (
    NO_SECRETS,
    SecretReferences,
    StoredText,
    from_marks,
    references_in,
    resolve,
    with_marks,
)

KEY = 'sk-"quoted"-0123'
VALUES = {"MY_KEY": KEY, "TOKEN": "tok-0123456789", "LONG_TOKEN": "tok-0123456789-long"}
REFERENCES = SecretReferences(VALUES)
MARK = "m" * 64


def test_values_are_replaced_by_references_and_back() -> None:
    text = f"use {KEY}, tok-0123456789-long and tok-0123456789"
    hidden = REFERENCES.hide(text)
    assert hidden.text == "use ${secret:MY_KEY}, ${secret:LONG_TOKEN} and ${secret:TOKEN}"
    assert hidden.secrets == ("LONG_TOKEN", "MY_KEY", "TOKEN")
    assert references_in(hidden.text) == set(hidden.secrets)
    assert resolve(hidden.text, VALUES) == text


def test_values_are_found_in_json_as_well() -> None:
    hidden = REFERENCES.hide('{"context": "sk-\\"quoted\\"-0123"}')
    assert hidden == StoredText('{"context": "${secret:MY_KEY}"}', ("MY_KEY",))


def test_a_reference_that_is_already_in_a_text_names_no_secret() -> None:
    assert REFERENCES.hide("say ${secret:TOKEN}") == StoredText("say ${secret:TOKEN}")
    assert NO_SECRETS.hide("say ${secret:TOKEN}") == StoredText("say ${secret:TOKEN}")


def test_each_variable_is_told_once() -> None:
    told: list[str] = []
    SecretReferences(VALUES, told.append).hide(f"{KEY} {KEY} tok-0123456789")
    assert told == ["MY_KEY", "TOKEN"]


def test_what_cannot_be_stored_is_replaced() -> None:
    assert REFERENCES.hide("a\udcffb").text == "a\N{REPLACEMENT CHARACTER}b"


def test_only_known_references_are_resolved() -> None:
    text = "${secret:TOKEN} ${secret:OTHER} ${TOKEN}"
    assert resolve(text, VALUES) == "tok-0123456789 ${secret:OTHER} ${TOKEN}"
    assert resolve("plain", VALUES) == "plain"


def test_a_proof_counts_for_its_text_and_its_variable() -> None:
    proofs = REFERENCES.proofs(("TOKEN",), "text")
    assert REFERENCES.proven(proofs, "text") == ("TOKEN",)
    assert REFERENCES.proven(proofs, "another") == ()
    assert REFERENCES.proven({"MY_KEY": proofs["TOKEN"], "ABSENT": proofs["TOKEN"]}, "text") == ()
    assert NO_SECRETS.proven(proofs, "text") == ()


PIECES = st.lists(
    st.sampled_from(["$", "{", "secret", ":", "TOKEN", "}", "${secret:TOKEN}", ":TOKEN}", "x "])
)


@given(PIECES, PIECES)
def test_no_text_completes_a_reference(before: list[str], after: list[str]) -> None:
    """Only the marked reference is resolved, whatever stands beside it."""
    given_text = with_marks("${secret:MY_KEY}", ("MY_KEY",), MARK)
    stored = from_marks(f"{''.join(before)}{given_text}{''.join(after)}", MARK)
    assert references_in(stored) == {"MY_KEY"}
    assert resolve(stored, VALUES) == f"{''.join(before)}{KEY}{''.join(after)}"


def test_marks_are_put_only_for_the_given_variables() -> None:
    text = "${secret:TOKEN} ${secret:MY_KEY}"
    assert with_marks(text, (), MARK) == text
    assert with_marks(text, ("TOKEN",), MARK) == f"{MARK}TOKEN}} ${{secret:MY_KEY}}"
    assert from_marks("${secret:TOKEN}", MARK) == "${secret::TOKEN}"
    assert resolve("${secret::TOKEN}", VALUES) == "${secret:TOKEN}"
