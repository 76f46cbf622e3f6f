"""Did you mean: the closest known name, and short lists of what there is."""

from collections.abc import Iterable
from difflib import get_close_matches

_MAX_LISTED = 12
_RESEMBLES = 0.6
_MISSPELT = 0.72
"""Below it lie different words: `termination` resembles `description`, and is no typing mistake."""


def closest(name: str, known: Iterable[str], cutoff: float = _RESEMBLES) -> str | None:
    lowered = {candidate.lower(): candidate for candidate in known}
    found = get_close_matches(name.lower()[:80], lowered, n=1, cutoff=cutoff)
    return lowered[found[0]] if found else None


def is_misspelt(name: str, known: Iterable[str]) -> bool:
    """Whether the name is so close to a known one that it can only be a typing mistake or a short form."""
    return closest(name, known, _MISSPELT) is not None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    found = closest(name, known)
    return f"did you mean `{found}`?" if found else ""


def available(what: str, known: Iterable[str]) -> str:
    """`stages: a, b, c`, cut where it would fill the screen."""
    names = sorted(set(known))
    if not names:
        return f"there are no {what} yet"
    more = f", and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return f"{what}: {', '.join(names[:_MAX_LISTED])}{more}"


def choice(name: str, what: str, known: Iterable[str]) -> str:
    """The whole hint for a name that isn't there."""
    names = tuple(known)
    meant = did_you_mean(name, names)
    return f"{meant} {available(what, names)}" if meant else available(what, names)
