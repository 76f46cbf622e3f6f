"""The answers to a request that a terminal offers, and what was typed to choose one."""

from msgspec import Struct

from agentforge.model.request import (
    ABORT,
    ACCEPT,
    APPROVE,
    CANCEL,
    CONTINUE,
    REJECT,
    RESUME,
    RETRY,
    SUCCEEDED,
    Request,
)
from agentforge.views.text import one_line

OPTION_CHARS = 200
KEYS = {APPROVE: "a", REJECT: "r", CONTINUE: "c", RETRY: "t", ABORT: "x"}
MEANINGS = {
    "approval": {
        APPROVE: "accept the result and continue",
        REJECT: "run the stage again, with your feedback",
        ABORT: "end the run; it can't be resumed",
    },
    "checkpoint": {APPROVE: "continue", ABORT: "end the run; it can't be resumed"},
    "pause": {
        RETRY: "run the hook again",
        ABORT: "end the run; it can't be resumed",
    },
    "escalation": {
        RESUME: "continue; counters start again",
        RETRY: "one more try; counters are kept",
        SUCCEEDED: "count the work as done",
        ACCEPT: "continue despite the verdict, for a reason that is recorded",
        CANCEL: "end the run; it can't be resumed",
    },
}
_BACK = {RETRY: "go back once more", RESUME: "run the checks again; the cycle counter is reset"}
_AGAIN = {
    RETRY: "restart the stage once more",
    ACCEPT: "continue without a restart",
    RESUME: "restart it; the restart counter is reset",
}
BY_REASON = {
    "hook_restarts": _AGAIN,
    "verdict": {RETRY: "run the stage again", RESUME: "run the checks again"},
    "cycle_limit": _BACK,
    "failure_cluster": _BACK,
    "no_progress": _BACK,
}
"""What answers mean for escalations with that reason."""
FINAL = frozenset({ABORT, CANCEL})
"""Answers that end the run."""


class Choice(Struct, frozen=True):
    key: str
    """What is typed to choose it."""
    answer: str
    meaning: str = ""

    @property
    def text(self) -> str:
        option = one_line(self.answer, OPTION_CHARS)
        return f"{option}: {self.meaning}" if self.meaning else option


def choices(request: Request) -> list[Choice]:
    """The options, each with a key of its own. Where a number is an answer, the keys are no numbers."""
    meanings = MEANINGS.get(request.kind, {}) | BY_REASON.get(request.reason, {})
    if meanings and all(option in KEYS for option in request.options):
        return [Choice(KEYS[option], option, meanings.get(option, "")) for option in request.options]
    letters = "abcdefghijk"
    keys = letters if request.grants else [str(number + 1) for number in range(len(request.options))]
    return [
        Choice(key, option, meanings.get(option, ""))
        for key, option in zip(keys, request.options, strict=False)
    ]


def chosen(request: Request, typed: str) -> str | None:
    """The answer that was typed, as a key or in full; None if there is no such answer."""
    text = typed.strip()
    if request.accepts(text):
        return text
    return next((choice.answer for choice in choices(request) if choice.key == text.lower()), None)
