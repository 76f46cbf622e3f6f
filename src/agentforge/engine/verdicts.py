"""Normalises what an agent concludes about the work in its result: a verdict, or the node to go to next."""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from agentforge.model.failure import Failure, FailureKind
from agentforge.model.plan import VERDICTS, StageNode
from agentforge.model.result import JSONObject

SHOWN_CHARS = 60

Claimed = tuple[str | UnsetType, tuple[str, ...]]
"""The verdict, and remarks about what was ignored."""


class AllowedVerdicts(Struct, frozen=True):
    """The verdicts that a result may have."""

    words: tuple[str, ...] = VERDICTS
    targets: tuple[tuple[str, str], ...] = ()
    """Each node that a route leads to, with the verdict of the route."""


def allowed_by(node: StageNode) -> AllowedVerdicts:
    targets = ((route.to, route.verdict) for route in node.routes if route.action == "go")
    return AllowedVerdicts(node.allowed_verdicts, tuple(targets))


def claimed_verdict(written: JSONObject, allowed: AllowedVerdicts) -> Claimed | Failure:
    """A verdict that isn't allowed makes the result invalid. `next` only counts without a verdict, and if a
    route leads there."""
    given = written.get("verdict")
    if given is None or given == "":
        return _hinted(written.get("next"), allowed)
    claimed = given.strip().lower() if isinstance(given, str) else None
    word = next((word for word in allowed.words if word.lower() == claimed), None)
    if word is None:
        known = ", ".join(allowed.words)
        message = f"verdict must be one of {known}, got {_shown(given)}"
        hint = "to allow it, add it to the stage's `verdicts`"
        return Failure(FailureKind.RESULT_INVALID, f"{message}; {hint}")
    to = written.get("next")
    agrees = not isinstance(to, str) or not to or (to.strip(), word) in allowed.targets
    return word, () if agrees else (f"next {_shown(to)} ignored: the verdict {word!r} decides",)


def _hinted(to: Any, allowed: AllowedVerdicts) -> Claimed:
    if not isinstance(to, str) or not to:
        return UNSET, ()
    word = next((word for target, word in allowed.targets if target == to.strip()), None)
    return (word, ()) if word else (UNSET, (f"next {_shown(to)} ignored: no route of the stage leads there",))


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
