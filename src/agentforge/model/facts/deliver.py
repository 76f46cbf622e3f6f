"""Delivery: what a run changed becomes a commit, a patch or a pull request."""

from typing import Literal

from agentforge.model.course import CourseStep
from agentforge.model.delivery import (
    DeliveredWork,
    DeliveryBase,
    DeliveryStep,
    PreparedDelivery,
)
from agentforge.model.facts.fact import (
    Fact,
    TaskEnding,
    TaskFact,
    TaskLost,
    TaskOutcome,
    TaskStarted,
    written,
)
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.status import TaskStatus


class RepositorySeen(Fact, frozen=True):
    """The files and the repository before the first agent: what a delivery is compared with."""

    TYPE = "repository_seen"

    base: DeliveryBase


class DeliverFact(TaskFact, frozen=True):
    """What all facts about a step of a delivery name."""

    KIND = "deliver"

    what: DeliveryStep
    attempt: int = written(1)

    @property
    def about(self) -> str:
        return self.what


class DeliverStarted(DeliverFact, TaskStarted, frozen=True):
    """The intent to perform a step of a delivery, durable before it."""

    TYPE = "deliver_start"
    FOLLOWS_ERROR = True


class DeliverCompleted(DeliverFact, TaskOutcome, frozen=True):
    """A step of a delivery is done."""

    TYPE = "deliver_complete"

    prepared: PreparedDelivery | None = None
    """Of `prepare`."""
    url: str = ""
    """Of `pull_request`."""
    found: bool = False
    """Whether it was already done when an engine looked after a crash."""


class DeliverFailed(DeliverFact, TaskOutcome, frozen=True):
    """A step of a delivery failed."""

    TYPE = "deliver_failed"
    MOVES_TO = TaskStatus.FAILED

    message: str = ""
    outdated: bool = False
    """Whether the repository is no longer as it was when the delivery was prepared: it is prepared again."""

    @property
    def failure(self) -> Failure:
        return Failure(FailureKind.DELIVERY_FAILED, self.message)


class DeliverLost(DeliverFact, TaskLost, frozen=True):
    """The engine or host died during a step, or it was stopped on request, and the step is not done."""

    TYPE = "deliver_lost"
    FOLLOWS_ERROR = True

    effect: Literal["unknown", "absent"] = "absent"
    """What was found of its effect."""


class DeliverEnding(DeliverFact, TaskEnding, frozen=True):
    """The intent to stop a step of a delivery."""

    TYPE = "deliver_ending"
    FOLLOWS_ERROR = True

    reason: str = ""


class Delivered(Fact, frozen=True):
    """A delivery is over."""

    TYPE = "delivered"

    work: DeliveredWork

    def step(self) -> CourseStep:
        return CourseStep("task_outcome", detail=f"delivered: {self.work.status}")

    @property
    def is_progress(self) -> bool:
        return True


AnyDeliverFact = (
    RepositorySeen
    | DeliverStarted
    | DeliverCompleted
    | DeliverFailed
    | DeliverLost
    | DeliverEnding
    | Delivered
)
