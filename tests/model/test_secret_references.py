"""Secrets that are stored as references to their variables."""

from agentforge.model.secrets import SecretReferences, references_in

KEY = 'sk-"quoted"-0123'
REFERENCES = SecretReferences({"MY_KEY": KEY, "TOKEN": "tok-0123456789", "LONG_TOKEN": "tok-0123456789-long"})


def test_values_are_replaced_by_references_and_back() -> None:
    text = f"use {KEY}, tok-0123456789-long and tok-0123456789"
    hidden = REFERENCES.hide(text)
    assert hidden == "use ${secret:MY_KEY}, ${secret:LONG_TOKEN} and ${secret:TOKEN}"
    assert REFERENCES.names_in(text) == ("LONG_TOKEN", "MY_KEY", "TOKEN")
    assert references_in(hidden) == ("LONG_TOKEN", "MY_KEY", "TOKEN")
    assert REFERENCES.resolve(hidden, references_in(hidden)) == text


def test_values_are_found_in_json_as_well() -> None:
    assert REFERENCES.hide('{"context": "sk-\\"quoted\\"-0123"}') == '{"context": "${secret:MY_KEY}"}'


def test_only_the_named_references_are_resolved() -> None:
    text = "${secret:TOKEN} ${secret:OTHER} ${TOKEN}"
    assert REFERENCES.resolve(text, ("TOKEN",)) == "tok-0123456789 ${secret:OTHER} ${TOKEN}"


def test_without_secrets_nothing_changes() -> None:
    none = SecretReferences({})
    assert (none.hide("text"), none.names_in("text"), none.value("X")) == ("text", (), None)
    assert REFERENCES.value("TOKEN") == "tok-0123456789"
