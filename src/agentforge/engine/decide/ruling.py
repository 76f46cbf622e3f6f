"""What a gate has to say about a stage: facts to record, work that should be running, or how it ends."""

from msgspec import Struct

from agentforge.model.event import Cursor, Draft
from agentforge.model.facts import RequestScope
from agentforge.model.failure import Failure
from agentforge.model.task import Work, task_place

RESUME, CANCEL, SUCCEEDED = "resume", "cancel", "succeeded"


class Question(Struct, frozen=True):
    """Why a person is needed before anything more is spent."""

    reason: str
    text: str
    options: tuple[str, ...] = (RESUME, CANCEL)
    scope: RequestScope = "branch"
    """`run`: the answer is for the whole run, so it is asked once, whichever branch comes to it first."""
    at: Cursor | None = None
    number: int = 0
    """Of the task that it is about, if it is about one."""

    @property
    def key(self) -> str:
        """What the question is about: the same question is open once."""
        if self.scope == "run" or self.at is None:
            return self.reason
        return f"{self.reason}@{task_place(self.at, self.number)}"


class Ruling(Struct, frozen=True):
    facts: tuple[Draft, ...] = ()
    work: tuple[Work, ...] = ()
    done: str | None = None
    """Why the stage is complete."""
    failure: Failure | None = None
    """Why the stage can't go on."""
    question: Question | None = None
