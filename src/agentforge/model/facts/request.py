"""Questions to people: requests, and their answers."""

from datetime import datetime
from typing import Literal

from agentforge.model.course import CourseStep
from agentforge.model.facts.fact import Fact
from agentforge.model.plan_limits import name_defect
from agentforge.model.request import Answerer, RequestKind, RequestScope


class RequestOpened(Fact, frozen=True):
    """A question to a person, kept as state rather than as a blocked thread."""

    TYPE = "request_opened"

    id: str
    kind: RequestKind
    key: str
    """The task or node that it is about; each question is open only once."""
    reason: str
    question: str
    options: tuple[str, ...]
    answerers: tuple[Answerer, ...] = ("person",)
    """Who may answer."""
    scope: RequestScope = "run"
    due_at: datetime | None = None
    """When the default becomes the answer."""
    default: str | None = None
    subject: str = ""
    """The name of the checkpoint, the id of the agent's question or of the hook, the kind of the failure."""
    grants: str = ""
    """What a number as the answer grants. Empty: numbers are not accepted."""

    def defect(self, _session: str) -> str:
        return name_defect(self.id)

    def step(self) -> CourseStep:
        return CourseStep("person_asked", detail=self.reason)


class RequestAnswered(Fact, frozen=True):
    """The answer as given. Its consequences are recorded as separate facts."""

    TYPE = "request_answered"
    EXTERNAL = True

    id: str
    answer: str
    by: str
    text: str = ""
    """What was said with it: the feedback of a rejection, or a remark."""
    secrets: tuple[str, ...] = ()
    """The variables whose values were in the answer or the text."""


class RequestResolved(Fact, frozen=True):
    """The effect of an answer; the request is closed."""

    TYPE = "request_resolved"

    id: str
    effect: Literal[
        "approved",
        "rejected",
        "cleared",
        "answered",
        "continue",
        "retry",
        "reset",
        "granted",
        "succeeded",
        "accepted",
        "cancel",
        "withdrawn",
    ]
    """`continue`: one more try, counters are kept; `reset`: counters are reset; `retry`: a hook is called
    again."""
    granted: int | float = 0
    """Money is granted in dollars, with decimals."""


class CheckpointCleared(Fact, frozen=True):
    """A checkpoint was approved; it isn't asked again in this run."""

    TYPE = "checkpoint_cleared"

    name: str
    by: str


AnyRequestFact = RequestOpened | RequestAnswered | RequestResolved | CheckpointCleared
