"""Did you mean: the closest known name, and short lists of what there is."""

from collections.abc import Iterable
from difflib import get_close_matches

_MAX_LISTED = 12


def closest(name: str, known: Iterable[str]) -> str | None:
    lowered = {candidate.lower(): candidate for candidate in known}
    found = get_close_matches(name.lower()[:80], lowered, n=1, cutoff=0.6)
    return lowered[found[0]] if found else None


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
