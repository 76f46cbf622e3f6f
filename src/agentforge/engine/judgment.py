"""What a judge said, read from its answer. Pure."""

import re
from typing import Any

import msgspec

from agentforge.model.facts import JudgeResult

_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL)


def read_judgment(answer: str) -> JudgeResult | None:
    """The judgment in an answer that may wrap it in a fence or in words; nothing if there is none."""
    for candidate in _candidates(answer):
        try:
            value = msgspec.json.decode(candidate)
        except msgspec.DecodeError:
            continue
        if isinstance(value, dict) and "stop" in value:
            return _normalised(value)
    return None


def _candidates(answer: str) -> list[str]:
    found = [answer.strip(), *(block.strip() for block in _FENCED.findall(answer))]
    start, end = answer.find("{"), answer.rfind("}")
    return [*found, answer[start : end + 1]] if 0 <= start < end else found


def _normalised(value: dict[str, Any]) -> JudgeResult:
    stop, reason, confidence = value["stop"], value.get("reason"), value.get("confidence")
    known = isinstance(confidence, int | float) and not isinstance(confidence, bool)
    return JudgeResult(
        stop=stop is True or (isinstance(stop, str) and stop.strip().lower() == "true"),
        reason=reason if isinstance(reason, str) else "",
        confidence=min(1.0, max(0.0, float(confidence))) if known and confidence is not None else 0.0,
    )
