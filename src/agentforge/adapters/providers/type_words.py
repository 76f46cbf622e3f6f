"""What is wrong with a value, in the words of those who write YAML."""

import re

import msgspec

_NAMES = {
    "str": "text",
    "int": "a number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "a mapping",
    "null": "nothing",
}
_WRONG = re.compile(r"Expected `(?P<wanted>[^`]+)`(?P<bound> [<>]=? \S+)?(?:, got `(?P<found>[^`]+)`)?")

_CHOSEN = re.compile(r"Invalid enum value (.+)", re.DOTALL)


def in_words(error: msgspec.ValidationError, key: str = "") -> str:
    """As in "`timeout` must be a number, not text"; `key` names the value that was looked at."""
    message, _, path = str(error).partition(" - at `$")
    inside = path.rstrip("`").removesuffix("[...]")
    name = f"{key}{inside}" if key else inside.lstrip(".")
    if chosen := _CHOSEN.fullmatch(message):
        return f"`{name}` can't be {chosen[1]}"
    wrong = _WRONG.fullmatch(message)
    if wrong is None:
        return f"`{name}`: {message}" if name else message
    told = f"must be {_kinds(wrong['wanted'])}{wrong['bound'] or ''}"
    if wrong["found"]:
        told += f", not {_kinds(wrong['found'])}"
    return f"`{name}` {told}" if name else f"it {told}"


def _kinds(types: str) -> str:
    """Leaving out that it may be left out."""
    names = [name for name in types.split(" | ") if name != "null"] or ["null"]
    return " or ".join(dict.fromkeys(_NAMES.get(name, f"`{name}`") for name in names))
