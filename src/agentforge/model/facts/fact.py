"""The base of all facts, and of those about a task."""

from abc import abstractmethod
from typing import ClassVar, TypeVar

from msgspec import Struct, field

from agentforge.model.course import CourseStep
from agentforge.model.failure import Failure
from agentforge.model.result import Usage
from agentforge.model.spending import Amount
from agentforge.model.status import IterationStatus, NodeStatus, RunStatus, TaskStatus

_T = TypeVar("_T")


class Fact(Struct, frozen=True, omit_defaults=True):
    """`TYPE` is the event's type in the log, its fields are the event's data. How it counts, each fact says
    itself, so that nothing else lists facts by their kind."""

    TYPE: ClassVar[str]
    EXTERNAL: ClassVar[bool] = False
    """Whether a person or the host caused it: no plan decides it, and it is not the outcome of a task."""
    FOLLOWS_ERROR: ClassVar[bool] = False
    """Whether it may be a consequence of an error: it does not show that the error is over."""
    AFTER_END: ClassVar[bool] = False
    """Whether it may be recorded when the run is over: it is about the log or the files of the run."""
    MOVES_TO: ClassVar[RunStatus | NodeStatus | IterationStatus | TaskStatus | None] = None
    """The status of the run, the node, the iteration or the task after it, if it changes."""

    @property
    def run_status(self) -> RunStatus | None:
        """The status of the run after it, if it changes."""
        # Statuses are texts: `failed` of a task equals that of a run, so the class has to be compared, too.
        return self.MOVES_TO if isinstance(self.MOVES_TO, RunStatus) else None

    def step(self) -> CourseStep | None:
        """The step of the run's course that it is, without its place; None: it isn't part of the course."""
        return None

    def defect(self, _session: str) -> str:
        """Why no engine can have recorded it in an event of the session; empty if one can."""
        # A log may have come with a repository, so what becomes a path is checked when it is read. Texts that
        # are only shown need no check.
        return ""

    @property
    def leaves(self) -> bool:
        """Whether the run has left the place of its cursor: a stage, a branch, or a node with all in it."""
        return False

    @property
    def is_progress(self) -> bool:
        """Whether something was completed that isn't done again: a run gets on although its engine dies."""
        return False


def written(default: _T) -> _T:
    """A default that is written to the log all the same, as readers of the log expect the field."""
    return field(default_factory=lambda: default)


# The life of a task is the same for every kind: an intent, perhaps an intent to stop it, one outcome. Each
# kind has event types and data of its own, but the rules (`engine.legal`, `engine.evolve`, the driver, a
# rehearsal) are written once, for the classes below. What tells tasks apart are properties, not fields: a
# field of a base class would come first in every line of the log, and each kind has its own order there.


class TaskFact(Fact, frozen=True):
    """About one task: its kind, what it is about, and its number."""

    KIND: ClassVar[str]
    MOVES_TO: ClassVar[TaskStatus | None] = None

    @property
    @abstractmethod
    def attempt(self) -> int: ...

    @property
    def about(self) -> str:
        """Tells it from other tasks of its kind with the same position and number."""
        return ""

    @property
    def label(self) -> str:
        """The same as the definition names it: another run of the same plan has it, too."""
        return self.about

    @property
    def named(self) -> str:
        """For people: its kind, and what it is about."""
        return f"{self.KIND} {self.label}".rstrip()


class TaskStarted(TaskFact, frozen=True):
    """The intent, durable before the task starts: what may be running after a crash is in the log."""

    MOVES_TO = TaskStatus.RUNNING

    @property
    def timeout(self) -> float | None:
        return None

    @property
    def reserves(self) -> Amount | None:
        """What it may spend."""
        return None

    def step(self) -> CourseStep:
        return CourseStep("task", attempt=self.attempt, detail=self.named)


class TaskEnding(TaskFact, frozen=True):
    """The intent to stop it; the signal is sent only after this is durable."""

    MOVES_TO = TaskStatus.ENDING

    @property
    @abstractmethod
    def reason(self) -> str: ...


class TaskOutcome(TaskFact, frozen=True):
    """How it ended."""

    MOVES_TO: ClassVar[TaskStatus] = TaskStatus.SUCCEEDED

    @property
    def failure(self) -> Failure | None:
        return None

    @property
    def leads_to(self) -> TaskStatus:
        """The status of the task after it."""
        return TaskStatus.FAILED if self.failure else self.MOVES_TO

    @property
    def usage(self) -> Usage | None:
        """What it cost, as far as that is known."""
        return None

    @property
    def started(self) -> bool:
        """False if it ended before anything ran."""
        return True

    @property
    def spent_nothing(self) -> bool:
        """Whether it is known that it cost nothing."""
        if self.usage is None:
            return not self.started
        used = self.usage
        return not (used.cost_usd or used.input_tokens or used.output_tokens)

    @property
    def is_progress(self) -> bool:
        return self.leads_to is TaskStatus.SUCCEEDED

    def step(self) -> CourseStep:
        return CourseStep("task_outcome", attempt=self.attempt, detail=f"{self.named}: {self.leads_to}")


class TaskLost(TaskOutcome, frozen=True):
    """It ended without a result: the engine or the host died meanwhile, or it was stopped on request."""

    MOVES_TO = TaskStatus.LOST
