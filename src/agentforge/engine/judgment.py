"""What a judge said, read from its answer. Pure."""

import json
from collections.abc import Iterator
from typing import Any

from agentforge.model.facts import JudgeResult

MOST_TRIES = 1000
"""So many opening braces of an answer are looked at: enough for any sentence around a judgment."""

_decoder = json.JSONDecoder()


def read_judgment(answer: str) -> JudgeResult | None:
    """The judgment in an answer that may wrap it in a fence or in words, the last one if there are several;
    nothing if there is none."""
    found = None
    for value in _objects(answer):
        if "stop" in value:
            found = _normalised(value)
    return found


def _objects(answer: str) -> Iterator[dict[str, Any]]:
    """Every JSON object in the text, outermost only."""
    start = answer.find("{")
    for _ in range(MOST_TRIES):
        if start < 0:
            return
        try:
            value, end = _decoder.raw_decode(answer, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            yield value
        start = answer.find("{", end)


def _normalised(value: dict[str, Any]) -> JudgeResult:
    stop, reason, confidence = value["stop"], value.get("reason"), value.get("confidence")
    return JudgeResult(
        stop=stop is True or (isinstance(stop, str) and stop.strip().lower() == "true"),
        reason=reason if isinstance(reason, str) else "",
        confidence=_confidence(confidence),
    )


def _confidence(given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        return 0.0
    # Written so that what is no number at all counts as nothing.
    return float(given) if 0 <= given <= 1 else 1.0 if given > 1 else 0.0
