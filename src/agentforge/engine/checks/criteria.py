"""The criteria of an item that the engine itself verifies: rules about files, and checks by their names.

They come from the artifact of an agent. A command line in it is never run: a criterion can only name a
command that the plan has.
"""

from collections.abc import Collection, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from agentforge.model.check import CRITERIA, FileRule
from agentforge.model.layout import is_inside
from agentforge.model.plan import StageNode
from agentforge.model.plan_limits import MAX_CHECK_TEXT, MAX_CHECK_TEXTS

MAX_CRITERIA = 50
"""Of one item."""

_Text = Annotated[str, Meta(max_length=MAX_CHECK_TEXT)]
_Texts = _Text | Annotated[list[_Text], Meta(max_length=MAX_CHECK_TEXTS)]


class _File(Struct, forbid_unknown_fields=True):
    path: Annotated[str, Meta(min_length=1, max_length=MAX_CHECK_TEXT)]
    contains: _Texts = []
    absent: _Texts = []
    heading: _Texts = []


class _Criterion(Struct, forbid_unknown_fields=True):
    file: _File | None = None
    command: str | None = None


class Criteria(Struct, frozen=True):
    rules: tuple[FileRule, ...] = ()
    checks: tuple[str, ...] = ()
    """Named by commands that are known."""
    problems: tuple[str, ...] = ()
    """Why others can't be verified."""

    @property
    def needs_rules(self) -> bool:
        return bool(self.rules or self.problems)


def criteria_of(item: Any, field: str, known: Collection[str]) -> Criteria:
    """`known`: the checks that they may name. What is text is for the agent."""
    listed = item.get(field) if isinstance(item, dict) else None
    if not isinstance(listed, list):
        wrong = listed is not None and not isinstance(listed, str)
        return Criteria(problems=(f"`{field}` must be a list",)) if wrong else Criteria()
    rules, checks, problems = list[FileRule](), list[str](), list[str]()
    for number, one in enumerate(listed[:MAX_CRITERIA], 1):
        found = None if isinstance(one, str) else _criterion(one, known)
        if isinstance(found, FileRule):
            rules.append(found)
        elif isinstance(found, _Criterion):
            checks.append(found.command or "")
        elif found is not None:
            problems.append(f"criterion {number} can't be verified: {found}")
    if len(listed) > MAX_CRITERIA:
        problems.append(f"it has {len(listed):,} criteria; the maximum is {MAX_CRITERIA}")
    return Criteria(tuple(rules), tuple(dict.fromkeys(checks)), tuple(problems))


def criteria_in(node: StageNode, item: Any) -> Criteria:
    known = {check.name for check in node.checks if check.run}
    return criteria_of(item, node.criteria or "", known)


def needed_checks(node: StageNode, item: Any) -> tuple[str, ...]:
    """The checks of a stage that verify the criteria of an item."""
    if node.criteria is None:
        return ()
    found = criteria_in(node, item)
    return (*([CRITERIA] if found.needs_rules else []), *found.checks)


def _criterion(one: Any, known: Collection[str]) -> "FileRule | _Criterion | str":
    try:
        read = msgspec.convert(one, _Criterion)
    except msgspec.ValidationError as error:
        return str(error)
    if (read.file is None) == (read.command is None):
        return "it needs `file` or `command`"
    if read.file is None:
        names = ", ".join(sorted(known)) or "none"
        return read if read.command in known else f"no command has this name; there are: {names}"
    if not is_inside(read.file.path):
        return "the path leads outside the project"
    return FileRule(read.file.path, *map(_all, (read.file.contains, read.file.absent, read.file.heading)))


def _all(texts: str | Sequence[str]) -> tuple[str, ...]:
    """Agents fill in what a schema names: an empty text asks for nothing."""
    return tuple(filter(None, (texts,) if isinstance(texts, str) else texts))
