"""What decides how pytest runs a test file: the settings and conftest.py of its folder and of all above it.

An agent that may not change a test could have it skipped or left out there.
"""

import configparser
import re
import tomllib
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Final

import msgspec

TABLES: Final = "pyproject.toml"
"""Of this file only the tables of pytest count: a project also names its dependencies there."""
_SECTIONS: Final = {"tox.ini": "pytest", "setup.cfg": "tool:pytest"}
"""Files that are about other tools, too. A new one counts only with its section."""
_OWN: Final = ("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml")
GUARDS: Final = (*_OWN, TABLES, *_SECTIONS)
_HEADER: Final = re.compile(r"""^[ \t]*\[\[?[ \t]*([^\]]*?)[ \t]*\]\]?[ \t]*(?:#.*)?$""")
_OF_PYTEST: Final = re.compile(r"""tool[ \t]*\.[ \t]*["']?pytest""")


def guards_of(paths: Iterable[str]) -> tuple[str, ...]:
    """The files that decide about these tests, whether or not they exist; sorted."""
    folders: set[str] = set()
    for path in paths:
        if path.endswith(".py"):
            steps = path.split("/")[:-1]
            folders.update("".join(f"{step}/" for step in steps[:depth]) for depth in range(len(steps) + 1))
    return tuple(sorted(f"{folder}{name}" for folder in folders for name in GUARDS))


def is_in_part(path: str) -> bool:
    """Whether only a part of an existing file counts."""
    return path.rpartition("/")[2] == TABLES


def digest_of_settings(path: str, content: bytes) -> str:
    """Of the settings of pytest in a file; empty without any. Any file of pytest's own counts."""
    name = path.rpartition("/")[2]
    if name == TABLES:
        found = _tables(content)
        return _digest(found) if found else ""
    if name in _SECTIONS:
        parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
        try:
            parser.read_string(content.decode("utf-8", "replace"))
        except configparser.Error:
            return _digest(content.hex())
        section = _SECTIONS[name]
        return _digest(dict(parser[section])) if parser.has_section(section) else ""
    return _digest(content.hex())


def with_settings(current: bytes, frozen: bytes) -> bytes:
    """A pyproject.toml with the tables of pytest of another one, and all else as it is; if that can't be
    written, the other one as a whole."""
    try:
        kept = _split(current.decode())[0].rstrip("\n")
        added = _split(frozen.decode())[1].strip("\n")
        mixed = "\n\n".join(filter(None, (kept, added))) + "\n"
        is_right = _parsed(mixed) == {**_parsed(current.decode()), "tool": _tool(current, frozen)}
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        return frozen
    return mixed.encode() if is_right else frozen


def _tool(current: bytes, frozen: bytes) -> Any:
    others = {name: one for name, one in _tools(current.decode()).items() if not name.startswith("pytest")}
    return {**others, **_of_pytest(frozen.decode())}


def _split(text: str) -> tuple[str, str]:
    """The lines outside of the tables of pytest, and those inside."""
    parts: dict[bool, list[str]] = {False: [], True: []}
    inside = False
    for line in text.split("\n"):
        if header := _HEADER.match(line):
            inside = _OF_PYTEST.match(header[1]) is not None
        parts[inside].append(line)
    return "\n".join(parts[False]), "\n".join(parts[True])


def _tables(content: bytes) -> Any:
    try:
        return _of_pytest(content.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        return {"unreadable": content.hex()}


def _of_pytest(text: str) -> dict[str, Any]:
    return {name: one for name, one in _tools(text).items() if name.startswith("pytest")}


def _tools(text: str) -> dict[str, Any]:
    tools = _parsed(text).get("tool")
    return tools if isinstance(tools, dict) else {}


def _parsed(text: str) -> dict[str, Any]:
    # A file without tools is as one with none.
    return {"tool": {}, **tomllib.loads(text)}


def _digest(value: Any) -> str:
    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()
