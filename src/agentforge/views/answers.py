"""How requests are answered: with which commands, and with which choices of a terminal."""

import shlex
from collections.abc import Iterator, Sequence

from msgspec import Struct

from agentforge.model.names import session_argument
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
from agentforge.model.spending import SPENDING_CAP
from agentforge.views.text import one_line

APPROVED_WITH = {"approval": APPROVE, "checkpoint": APPROVE, "pause": CONTINUE}
"""The kinds of requests that `approve` and `reject` answer, with the answer of `approve`."""
LABELS = {
    "approval": ("Approve", "Reject"),
    "checkpoint": ("Approve", "Abort"),
    "pause": ("Continue", "Abort"),
}
"""What `approve` and `reject` do with each kind."""


def answer_command(session: str, request: Request, program: str, *, only: bool) -> str:
    """Uses the first option that needs no reason, so that it can be pasted unchanged. TEXT stands for any
    text, AMOUNT for how much more a run at its cap may spend. `only`: whether it is the only open request, so
    that it needn't be named."""
    name = session_argument(session)
    if request.kind in APPROVED_WITH:
        return f"{program} approve{_named(request, only)} {name}"
    if request.reason == SPENDING_CAP and RETRY not in request.options:
        return f"{program} answer{_named(request, only)} {name} AMOUNT"
    plain = next((option for option in request.options if not request.needs_reason(option)), None)
    answer = shlex.quote(one_line(plain)) if plain is not None else "TEXT"
    return f"{program} answer{_named(request, only)} {name} {answer}"


def reject_command(session: str, request: Request, program: str, *, only: bool) -> str:
    """The command that sends the result of an approval back, or ends the run."""
    how = "-f TEXT" if request.kind == "approval" else "--abort"
    # -f takes the next word, whatever it begins with; a session after `--` can't be taken for an option.
    words = f"{how} -- {session}" if session.startswith("-") else f"{session} {how}"
    return f"{program} reject{_named(request, only)} {words}"


def _named(request: Request, only: bool) -> str:
    return "" if only else f" --request {request.id}"


def answer_commands(session: str, requests: Sequence[Request], program: str) -> list[str]:
    """All commands that answer the requests."""
    only = len(requests) == 1
    return [text for one in requests for text in commands_of(session, one, program, only=only)]


def commands_of(session: str, request: Request, program: str, *, only: bool) -> list[str]:
    """The command that answers the request, and, where they are offered, those that repeat, reject and
    accept."""
    return [command for _, command in labelled_commands(session, request, program, only=only)]


def labelled_commands(
    session: str, request: Request, program: str, *, only: bool
) -> Iterator[tuple[str, str]]:
    """`commands_of`, each with a label such as `Approve`, `Retry` or `Abort`."""
    name, answer = session_argument(session), f"{program} answer{_named(request, only)}"
    to_answer, to_reject = LABELS.get(request.kind, ("Answer", ""))
    yield to_answer, answer_command(session, request, program, only=only)
    if request.kind == "pause" and RETRY in request.options:
        yield "Retry", f"{answer} {name} {RETRY}"
    if request.kind in APPROVED_WITH:
        yield to_reject, reject_command(session, request, program, only=only)
    if ACCEPT in request.options and request.needs_reason(ACCEPT):
        yield "Accept", f"{answer} --reason TEXT {name} {ACCEPT}"


def inspect_command(session: str, requests: Sequence[Request], program: str) -> str | None:
    """The command that shows what is asked about, or None if nothing is."""
    return f"{program} inbox show {session_argument(session)}" if requests else None


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
    SPENDING_CAP: {
        RESUME: "look at the caps again, as after `resume --max-cost`",
        RETRY: "one more attempt, which may spend as much as the last one",
    },
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
