"""What a hook answers, as a service or a script wrote it or a function returned it: untrusted text, cut to
what the log and the context can hold."""

from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.model.failure import short_message
from agentforge.model.hook import MAX_CONTEXT, HookResult
from agentforge.model.json_text import NOT_JSON
from agentforge.model.secrets import Redactor

TRUNCATED = "\n(truncated)"
KEYS = frozenset({"action", "context"})
"""An object with one of them is an answer; everything else is text for the context."""


class WrittenAnswer(Struct, frozen=True):
    action: Literal["continue", "pause", "abort", "restart_stage", "modify_context"] | None = None
    reason: str | None = None
    context: str | None = None


def read_answer(text: str) -> HookResult:
    """Raises ValueError with what is wrong."""
    try:
        found = msgspec.json.decode(text)
    except NOT_JSON:
        found = None
    if not isinstance(found, dict) or not KEYS & found.keys():
        text = text.strip()
        return HookResult("modify_context" if text else "continue", context=text)
    try:
        written = msgspec.convert(found, WrittenAnswer)
    except msgspec.ValidationError as error:
        raise ValueError(f"its answer is not valid: {error}") from error
    context = written.context or ""
    action = written.action or ("modify_context" if context else "continue")
    return HookResult(action, written.reason or "", context)


def checked_result(result: object) -> HookResult:
    """What a function returned. Raises ValueError with what is wrong."""
    if not isinstance(result, HookResult):
        raise ValueError(f"it returned {type(result).__name__} instead of a HookResult")  # noqa: TRY004
    try:
        return msgspec.convert(msgspec.to_builtins(result), HookResult)
    except msgspec.ValidationError as error:
        raise ValueError(f"its result is not valid: {error}") from error


def as_recorded(result: HookResult, redactor: Redactor) -> HookResult:
    """Without secrets, and cut to size."""
    return replace(
        result,
        reason=short_message(redactor.text(result.reason)),
        context=_cut(redactor.text(result.context)),
        answer=short_message(redactor.text(result.answer)),
        text=short_message(redactor.text(result.text)),
    )


def _cut(text: str) -> str:
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= MAX_CONTEXT:
        return encoded.decode()
    return encoded[: MAX_CONTEXT - len(TRUNCATED)].decode("utf-8", "ignore") + TRUNCATED
