"""Requests to people: what is asked, and what was said. Their texts are stored with references to secrets
(`${secret:NAME}`); what refers to another variable than those in `secrets` is just text."""

import re
from datetime import datetime
from typing import Literal

from msgspec import Struct

from agentforge.model.cursor import Cursor

RequestKind = Literal["approval", "checkpoint", "question", "escalation", "pause"]
RequestScope = Literal["run", "branch"]
Answerer = Literal["person", "agent"]

APPROVE, REJECT, ABORT = "approve", "reject", "abort"
"""Answers to an approval; a checkpoint takes the first and the last."""
RESUME, RETRY, CANCEL, SUCCEEDED = "resume", "retry", "cancel", "succeeded"
"""Answers to an escalation."""
ACCEPT = "accept"
"""The answer to an escalation about a verdict that lets the run continue despite it."""
CONTINUE = "continue"
"""The answer to a pause that continues the run; ABORT ends it, and RETRY repeats what failed."""

TIMER = "request:"
"""Prefix of the name of a request's timer, before its id."""
MAX_GRANT = 1_000_000
MAX_SPENT_TOKENS = 10**12
_WHOLE, _MONEY = re.compile("[0-9]{1,13}"), re.compile(r"[0-9]{1,7}(\.[0-9]{1,6})?|\.[0-9]{1,6}")


class Request(Struct, frozen=True, omit_defaults=True):
    """A question that is open, or answered and not yet resolved."""

    id: str
    kind: RequestKind
    key: str
    reason: str
    question: str
    options: tuple[str, ...]
    opened_at: datetime
    answerers: tuple[Answerer, ...] = ("person",)
    scope: RequestScope = "run"
    due_at: datetime | None = None
    default: str | None = None
    subject: str = ""
    """The name of the checkpoint, the id of the agent's question or of the hook, the kind of the failure."""
    grants: str = ""
    """What a number as the answer grants: `seconds`, `rounds`, `cost_usd`. Empty: none is accepted."""
    at: Cursor | None = None
    """Where it was asked."""
    overdue: bool = False
    answer: str | None = None
    answered_by: str = ""
    text: str = ""
    """What was said with the answer: the feedback of a rejection, or a remark."""
    secrets: tuple[str, ...] = ()
    """The variables whose values were in the answer or the text."""

    @property
    def is_open(self) -> bool:
        return self.answer is None

    @property
    def takes_text(self) -> bool:
        """Whether any text is an answer."""
        return self.kind == "question" and not self.options

    @property
    def unit(self) -> str:
        return granted_unit(self.grants)

    def accepts(self, answer: str) -> bool:
        """Whether the answer was offered."""
        if self.takes_text:
            return bool(answer.strip())
        return answer in self.options or (bool(self.grants) and granted(answer, self.grants) > 0)

    def needs_reason(self, answer: str) -> bool:
        """Whether the text of the answer has to say why: it overrides a verdict."""
        return self.kind == "escalation" and answer == ACCEPT

    @property
    def resumes_with(self) -> str | None:
        """The answer that a plain resume of the run gives, or None: it leaves the request open."""
        answer = {"escalation": RESUME, "pause": CONTINUE}.get(self.kind)
        return answer if answer in self.options and not self.is_overdue else None

    def is_due(self, now: datetime) -> bool:
        """Whether its time is over, so that the default is the answer."""
        return self.is_overdue or (
            self.default is not None and self.due_at is not None and self.due_at <= now
        )

    @property
    def is_overdue(self) -> bool:
        """Whether it timed out unanswered, so that the default is the answer."""
        return self.is_open and self.overdue and self.default is not None


def granted_unit(what: str) -> str:
    """What a number as the answer grants, for people."""
    return "US dollars" if what == "cost_usd" else what


def most_granted(what: str) -> int:
    """By one answer."""
    return MAX_SPENT_TOKENS if what == "tokens" else MAX_GRANT


def granted(answer: str, what: str) -> int | float:
    """The number that the answer grants, or 0 if it isn't a number in range."""
    # The pattern bounds the length: Python refuses to convert numbers with thousands of digits.
    if what == "cost_usd":
        money = float(answer) if _MONEY.fullmatch(answer) else 0.0
        return money if money <= most_granted(what) else 0
    number = int(answer) if _WHOLE.fullmatch(answer) else 0
    return number if number <= most_granted(what) else 0


MAX_USER_REQUEST_BYTES = 256 * 1024


class UserRequest(Struct, frozen=True, omit_defaults=True):
    """The text that a run was started with: what its user wants."""

    text: str
    secrets: tuple[str, ...] = ()
    """The variables whose values were in the text."""


class Note(Struct, frozen=True, omit_defaults=True):
    """Text added to the context of all later iterations, by a person or a hook."""

    text: str
    by: str
    secrets: tuple[str, ...] = ()
    """The variables whose values were in the text; of a hook, none."""


class Feedback(Struct, frozen=True, omit_defaults=True):
    """What was said about a visit of a stage; its next visit receives it."""

    text: str
    by: str
    files: tuple[str, ...] = ()
    """What it is about, relative to the run directory."""
    items: tuple[str, ...] = ()
    """The items that are to be done again."""
    secrets: tuple[str, ...] = ()
    """The variables whose values were in the text."""


class AnsweredQuestion(Struct, frozen=True, omit_defaults=True):
    """A question of an agent, with its answer."""

    id: str
    question: str
    answer: str
    by: str
    text: str = ""
    """A remark."""
    secrets: tuple[str, ...] = ()
    """The variables whose values were in the answer or the remark."""
