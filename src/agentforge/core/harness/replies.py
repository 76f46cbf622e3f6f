"""The data in what a model answered: the last mapping counts, as examples come before the result."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from agentforge import parse_yaml

_FENCED = re.compile(r"^([ \t]*)```([\w-]*)[^\n]*\n(.*?)^\1```[ \t]*$", re.MULTILINE | re.DOTALL)
_DECODER = json.JSONDecoder()

Mapping = dict[str, Any]


def yaml_in(text: str | None) -> Mapping | None:
    """That of the last block of YAML, else of the last block without a language, else the whole text."""
    return _last(text, ("yaml", "yml"), _yaml) or _yaml(text or "")


def json_in(text: str | None) -> Mapping | None:
    """Like `yaml_in`, for JSON; without such a block, the last object in the text."""
    found = _last(text, ("json",), _json)
    return found or next(reversed([*_objects(text or "")]), None)


def _last(
    text: str | None, languages: tuple[str, ...], read: Callable[[str], Mapping | None]
) -> Mapping | None:
    blocks = [(match[2].lower(), match[3]) for match in _FENCED.finditer(text or "")]
    named = [content for language, content in blocks if language in languages]
    plain = [content for language, content in blocks if not language]
    return next(filter(None, map(read, [*reversed(named), *reversed(plain)])), None)


def _yaml(text: str) -> Mapping | None:
    try:
        found = parse_yaml(text.encode("utf-8", "replace"))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _json(text: str) -> Mapping | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _objects(text: str) -> Iterator[Mapping]:
    """The objects, without those that are part of another."""
    begin = text.find("{")
    while begin >= 0:
        try:
            found, end = _DECODER.raw_decode(text, begin)
            yield found
        except (ValueError, RecursionError):
            end = begin + 1
        begin = text.find("{", end)
