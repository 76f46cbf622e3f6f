"""The items of a list in an artifact: their ids, contents and order, and which of them a visit works
through."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from heapq import heappop, heappush
from itertools import chain, count, islice
from typing import Any

import msgspec
from msgspec import Struct

from agentforge.model import facts as f
from agentforge.model.artifact import PlannedItem
from agentforge.model.failure import short_message
from agentforge.model.plan_limits import is_directory_name
from agentforge.model.request import Feedback
from agentforge.model.result import JSONObject

SHOWN = 5
MAX_PROBLEMS = 10
_BLANK = re.compile(r"\s+")


# Theory of operation
#
# An item is its id and the hash of its content, both recorded when a visit begins (`planned`). So a later
# visit can tell what is done from what was changed since, without an earlier version of the artifact:
# what is done stays done when the same list comes again, after feedback or under another plan, and what
# says something else now is done again. An id that an agent doesn't give is derived from the content for
# the same reason: derived from the position, one step that is inserted at the top would make each item
# another one.
#
# The list is an agent's, and the order follows from it alone: dependencies first, then the place in the
# list. A wrong element is a problem of the artifact, which its agent may correct. Found only when the
# stage over the items starts, it would need a person.
#
# Feedback that names no item of the list couldn't reopen one, and a visit in which all items are done
# would end at once, with the same result. So it is an item of its own, `repair`, whose content is the
# feedback.


class Element(Struct, frozen=True):
    """An element of the list, as it is in the artifact."""

    id: str
    value: Any
    hash: str
    after: tuple[str, ...] = ()


def elements_of(artifact: JSONObject, field: str, most: int) -> list[Element] | list[str]:
    """The elements in the order in which they are worked through: of those whose dependencies are done, the
    first in the list. Or what is wrong with them, at least one text."""
    listed = artifact.get(field)
    if not isinstance(listed, list):
        found = "it is missing" if field not in artifact else f"got {_shown(listed)}"
        return [f"$.{field}: it must be the list of the items; {found}"]
    if len(listed) > most:
        return [f"$.{field}: it has {len(listed):,} items; the maximum is {most:,}"]
    problems: list[str] = []
    elements = [_element(one, f"$.{field}[{index}]", problems) for index, one in enumerate(listed)]
    problems += islice(_name_problems(elements, field), MAX_PROBLEMS + 1)
    if problems:
        return [*problems[:MAX_PROBLEMS], *(["and more"] if len(problems) > MAX_PROBLEMS else [])]
    ordered = _ordered(elements)
    return ordered if len(ordered) == len(elements) else [f"$.{field}: {_cycle(elements, ordered)}"]


def id_of(value: Any) -> str:
    """Its own, else one derived from its content. Empty: its own is not a name."""
    given = value.get("id") if isinstance(value, dict) else None
    # Models number their steps: a whole number is a name, too.
    return f"item-{_hash(value)[:8]}" if given is None else _name(given)


def _hash(value: Any) -> str:
    return sha256(msgspec.json.encode(value, order="deterministic")).hexdigest()


def _element(value: Any, path: str, problems: list[str]) -> Element:
    id, after = id_of(value), value.get("after") if isinstance(value, dict) else None
    if not id or not is_directory_name(id):
        problems.append(f"{path}.id: use letters, digits, `-`, `_` and `.`; got {_shown(value['id'])}")
    names = [_name(one) for one in after] if isinstance(after, list) else []
    if after is not None and (not isinstance(after, list) or not all(names)):
        problems.append(f"{path}.after: it must be a list of ids; got {_shown(after)}")
    return Element(id, value, _hash(value), tuple(dict.fromkeys(filter(None, names))))


def _name(value: Any) -> str:
    return str(value) if type(value) in (str, int) else ""


def _name_problems(elements: Sequence[Element], field: str) -> Iterator[str]:
    first: dict[str, int] = {}
    for index, one in enumerate(elements):
        # Two folders whose names differ in case only are one on some file systems.
        if one.id and first.setdefault(one.id.casefold(), index) != index:
            before = first[one.id.casefold()]
            yield f"$.{field}[{index}].id: {_shown(one.id)} is the id of $.{field}[{before}], too"
    known = {one.id for one in elements}
    for index, one in enumerate(elements):
        for name in one.after:
            if name not in known:
                yield f"$.{field}[{index}].after: no item has the id {_shown(name)}"


def _ordered(elements: Sequence[Element]) -> list[Element]:
    """Without those that are in a cycle, or behind one."""
    followers: dict[str, list[int]] = {}
    waiting = [len(one.after) for one in elements]
    for index, one in enumerate(elements):
        for name in one.after:
            followers.setdefault(name, []).append(index)
    ordered: list[Element] = []
    ready = [index for index, left in enumerate(waiting) if not left]
    while ready:
        index = heappop(ready)
        ordered.append(elements[index])
        for other in followers.get(elements[index].id, ()):
            waiting[other] -= 1
            if not waiting[other]:
                heappush(ready, other)
    return ordered


def _cycle(elements: Sequence[Element], ordered: Sequence[Element]) -> str:
    """One of the cycles: from any item that is left, its dependencies lead into one."""
    left = {one.id: one for one in elements} | dict.fromkeys([one.id for one in ordered])
    at, seen = next(one for one in left.values() if one is not None), dict[str, None]()
    while at.id not in seen:
        seen[at.id] = None
        at = next(one for name in at.after if (one := left[name]) is not None)
    names = [*seen][[*seen].index(at.id) :]
    shown = " after ".join(map(_shown, (*names[:SHOWN], *(["…"] if len(names) > SHOWN else []), at.id)))
    return f"the items depend on each other in a cycle: {shown}"


def _shown(value: Any) -> str:
    text = _BLANK.sub(" ", value if isinstance(value, str) else msgspec.json.encode(value).decode())
    return f"`{short_message(text, 60)}`"


def planned(
    elements: Iterable[Element],
    known: Sequence[PlannedItem],
    feedback: Feedback | None,
    run: int,
    digest: str,
    *,
    checks_of: Callable[[Any], tuple[str, ...]] = lambda _: (),
) -> f.ItemsPlanned:
    """What a visit works through, with what the visit before left. `run`: the number of the visit;
    `checks_of`: what verifies the criteria of an element."""
    listed, before = list(elements), {item.id: item for item in known}
    present = {one.id for one in listed}
    same = {one.id for one in listed if one.id in before and before[one.id].hash == one.hash}
    asked = set(feedback.items if feedback else ())
    named, is_repaired = present & asked, any(item.repair and item.id in asked for item in known)
    reopened = tuple(one.id for one in listed if one.id in named and one.id in same)
    finished = {id for id in same - named if before[id].status == "done"}
    items = [
        PlannedItem(
            one.id, one.hash, one.after, "done" if one.id in finished else "pending", checks_of(one.value)
        )
        for one in listed
    ]
    repair = ""
    if feedback is not None and before and (is_repaired or not named):
        taken, name = {one.id.casefold() for one in listed}, f"repair-{run}"
        numbered = (f"{name}-{number}" for number in count(1))
        repair = next(one for one in chain([name], numbered) if one not in taken)
        content = sha256(feedback.text.encode("utf-8", "replace")).hexdigest()
        items.append(PlannedItem(repair, content, repair=True))
    return f.ItemsPlanned(
        tuple(items),
        added=tuple(one.id for one in listed if one.id not in before),
        changed=tuple(one.id for one in listed if one.id in before and one.id not in same),
        dropped=tuple(id for id in before if id not in present),
        reopened=reopened,
        repair=repair,
        sha256=digest,
    )
