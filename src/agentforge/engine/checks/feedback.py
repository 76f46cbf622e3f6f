"""What an iteration or a visit is told about failing checks, all of them within one limit."""

from collections.abc import Iterable, Sequence
from operator import add
from typing import Final

from agentforge.model.state import CheckRecord

MAX_FEEDBACK_BYTES: Final = 8 * 1024
"""In a prompt, with the introduction and the marks around it."""
FEEDBACK_ROOM: Final = MAX_FEEDBACK_BYTES - 640
END_OF_OUTPUT: Final = "\n\nEnd of the output:\n"
"""Between counts and failures, which are lines, and the output."""
_GAP: Final = "\n\n"
_MORE: Final = "\n- and more"
_COUNTS_BYTES: Final = 160
"""Of each check, at least; with many checks, there is less room for outputs."""
_MIN_OUTPUT_BYTES: Final = 80


def failing_text(failed: Sequence[CheckRecord], said: str = "") -> str:
    """`said`: what comes first. The checks share the rest: first the counts and failures of each, then the
    ends of their outputs."""
    told = _start(said, FEEDBACK_ROOM // 4) if failed else _start(said, FEEDBACK_ROOM)
    room = FEEDBACK_ROOM - size(told) - len(_GAP) * len(failed)
    told_by = [each.feedback or f"check {each.check!r}: {each.reason}" for each in failed]
    parts = [text.partition(END_OF_OUTPUT) for text in told_by]
    heads, outputs = [part[0] for part in parts], [part[2] for part in parts]
    needed = [size(END_OF_OUTPUT + output) if output else 0 for output in outputs]
    for_heads = min(room, max(room // 2, room - sum(needed), _COUNTS_BYTES * len(failed)))
    heads = list(map(_head, heads, _shares(map(size, heads), for_heads)))
    ends = map(_end, outputs, _shares(needed, room - sum(map(size, heads))))
    return _GAP.join(filter(None, (told, *map(add, heads, ends))))


def size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def end_of(text: str, room: int) -> str:
    """The last lines that fit into `room` bytes; of a longer last line its end."""
    content = text.encode("utf-8", "replace")
    if len(content) > room:
        content = content[len(content) - max(0, room) :]
        content = content[content.find(b"\n") + 1 :]
    return content.decode("utf-8", "ignore")


def _shares(sizes: Iterable[int], room: int) -> list[int]:
    """Divide the room: what one doesn't need is left to the others."""
    needed = list(sizes)
    shares = [0] * len(needed)
    for done, number in enumerate(sorted(range(len(needed)), key=needed.__getitem__)):
        shares[number] = min(needed[number], room // (len(needed) - done))
        room -= shares[number]
    return shares


def _head(text: str, room: int) -> str:
    """The first line, and the further ones that fit."""
    if size(text) <= room:
        return text
    first, *lines = text.split("\n")
    kept = _start(first, room)
    for line in lines:
        if size(f"{kept}\n{line}{_MORE}") > room:
            break
        kept = f"{kept}\n{line}"
    return kept + _MORE if size(kept + _MORE) <= room else kept


def _end(output: str, room: int) -> str:
    """Nothing, if there is room for a few words only."""
    kept = end_of(output, room - len(END_OF_OUTPUT))
    return END_OF_OUTPUT + kept if kept and (kept == output or room >= _MIN_OUTPUT_BYTES) else ""


def _start(text: str, room: int) -> str:
    return text.encode("utf-8", "replace")[: max(0, room)].decode("utf-8", "ignore")
