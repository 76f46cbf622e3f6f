"""The core schema of YAML 1.2: which plain words are something else than text.

PyYAML's own resolver follows 1.1, where `on`, `no`, `2026-01-01` and `1:30` change their meaning.
"""

import re

from agentforge.definition.tree import ScalarValue

_NULL = frozenset(("", "~", "null", "Null", "NULL"))
_TRUE = frozenset(("true", "True", "TRUE"))
_FALSE = frozenset(("false", "False", "FALSE"))
_DECIMAL = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(inf|Inf|INF)")
_NAN = frozenset((".nan", ".NaN", ".NAN"))

# Beyond 64 bits no JSON reader agrees on a number, so such digits stay text.
_MAX_INTEGER_CHARS = 24
_INTEGERS = range(-(2**63), 2**63)


def plain_value(text: str) -> ScalarValue:
    """What an unquoted scalar means."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    return _number(text)


def _number(text: str) -> int | float | str:
    for pattern, base in ((_DECIMAL, 10), (_OCTAL, 8), (_HEX, 16)):
        if pattern.fullmatch(text):
            return _integer(text, base)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _INFINITE.fullmatch(text):
        return float("-inf") if text.startswith("-") else float("inf")
    return float("nan") if text in _NAN else text


def _integer(text: str, base: int) -> int | str:
    if len(text) > _MAX_INTEGER_CHARS:
        return text
    number = int(text, base)
    return number if number in _INTEGERS else text
