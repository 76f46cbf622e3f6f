"""What git would store of a file with the line endings of a work tree. The engine converts it itself: git
would also run the filters that a repository configures."""

from collections.abc import Mapping

from msgspec import Struct

NAMES = ("filter", "working-tree-encoding", "ident", "text", "eol", "crlf")
"""The attributes that say how git converts a file."""
_OFF = frozenset({"unset", "unspecified", ""})
_PLAIN = frozenset(b"\b\t\n\r\f\x1b")


class Conversion(Struct, frozen=True):
    """How git converts one file."""

    foreign: str = ""
    """The attribute because of which git would store something that the engine can't make."""
    text: bool = False
    auto: bool = False
    """Whether only content that looks like text is converted."""

    def stored(self, content: bytes, before: bytes | None = None) -> bytes:
        """`before`: what git has of the file."""
        if not self.text or b"\r\n" not in content:
            return content
        if self.auto and (is_binary(content) or (before is not None and b"\r\n" in before)):
            return content
        return content.replace(b"\r\n", b"\n")


def conversion(attributes: Mapping[str, str], autocrlf: str) -> Conversion:
    """`autocrlf`: the setting of that name."""
    given = {name: attributes.get(name, "unspecified") for name in NAMES}
    for name in ("filter", "working-tree-encoding", "ident"):
        if given[name] not in _OFF:
            return Conversion(name)
    text = given["text"] if given["text"] != "unspecified" else _older(given["crlf"])
    if text == "unset":
        return Conversion()
    if text == "auto":
        return Conversion(text=True, auto=True)
    if text == "unspecified" and given["eol"] in _OFF:
        return Conversion(text=autocrlf in ("true", "input"), auto=True)
    return Conversion(text=True)


def _older(crlf: str) -> str:
    return "set" if crlf == "input" else crlf


def is_binary(content: bytes) -> bool:
    """As git guesses it."""
    if b"\0" in content or content.count(b"\r") != content.count(b"\r\n"):
        return True
    odd = sum((byte < 32 and byte not in _PLAIN) or byte == 127 for byte in content)
    return (len(content) - odd) >> 7 < odd
