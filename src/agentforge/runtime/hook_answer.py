"""What a hook answers, as a service or a script wrote it or a function returned it: untrusted text, cut to
what the log and the context can hold."""

from typing import Literal, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.normalise import without_escapes
from agentforge.model.errors import NOT_JSON
from agentforge.model.failure import short_message
from agentforge.model.hook import MAX_CONTEXT, HookOutcome, HookResult
from agentforge.model.secrets import Redactor

TRUNCATED = "\n(truncated)"
MAX_ANSWER = 64 * 1024
"""Bytes of an object; the output of a script that has more was cut."""
KEYS = frozenset({"action", "context"})
"""An object with one of them is an answer; everything else is text for the context."""


WrittenAction = Literal["continue", "pause", "abort", "restart_stage", "modify_context"]


class WrittenAnswer(Struct, frozen=True):
    action: WrittenAction | None = None
    reason: str | None = None
    context: str | None = None


def read_answer(text: str) -> HookResult:
    """Raises ValueError with what is wrong."""
    if text.lstrip().startswith("{") and len(text.encode("utf-8", "replace")) > MAX_ANSWER:
        raise ValueError("its answer is an object of more than 64 KB")
    try:
        found = msgspec.json.decode(text)
    except NOT_JSON:
        found = None
    if not isinstance(found, dict) or not KEYS & found.keys():
        text = text.strip()
        return HookResult("modify_context" if text else "continue", context=text)
    _check_action(found.get("action"), get_args(WrittenAction))
    try:
        written = msgspec.convert(found, WrittenAnswer)
    except msgspec.ValidationError as error:
        raise ValueError(f"its answer is not valid: {error}") from error
    context = written.context or ""
    action = written.action or ("modify_context" if context else "continue")
    return HookResult(action, written.reason or "", context)


def _check_action(action: object, known: tuple[str, ...]) -> None:
    if isinstance(action, str) and action not in known:
        raise ValueError(f"its answer has the unknown action {action!r}; use {', '.join(known)}")


def checked_result(result: object) -> HookResult:
    """What a function returned. Raises ValueError with what is wrong."""
    if not isinstance(result, HookResult):
        raise ValueError(f"it returned {type(result).__name__} instead of a HookResult")  # noqa: TRY004
    _check_action(result.action, get_args(HookOutcome))
    try:
        return msgspec.convert(msgspec.to_builtins(result), HookResult)
    except (msgspec.ValidationError, TypeError) as error:
        raise ValueError(f"its result is not valid: {error}") from error


def as_recorded(result: HookResult, redactor: Redactor) -> HookResult:
    """Without secrets and escape codes, and cut to size."""
    return replace(
        result,
        reason=short_message(_clean(result.reason, redactor)),
        context=_cut(_clean(result.context, redactor)),
        answer=short_message(_clean(result.answer, redactor)),
        text=short_message(_clean(result.text, redactor)),
    )


def _clean(text: str, redactor: Redactor) -> str:
    """As an environment variable of a script can hold it, and without codes that a JSON string escaped."""
    plain = without_escapes(text.encode("utf-8", "replace")).decode("utf-8", "replace")
    return redactor.text(plain.replace("\0", "\N{REPLACEMENT CHARACTER}"))


def _cut(text: str) -> str:
    encoded = text.encode()
    if len(encoded) <= MAX_CONTEXT:
        return text
    return encoded[: MAX_CONTEXT - len(TRUNCATED)].decode("utf-8", "ignore") + TRUNCATED
