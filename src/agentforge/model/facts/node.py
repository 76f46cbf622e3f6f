"""Stages and parallel blocks: entered and left, and the waits between iterations."""

from datetime import datetime
from typing import Literal

from msgspec import field

from agentforge.model.course import CourseStep
from agentforge.model.cursor import Destination
from agentforge.model.facts.fact import Fact, written
from agentforge.model.failure import FailureKind
from agentforge.model.plan_limits import folder_defect, name_defect
from agentforge.model.request import Feedback
from agentforge.model.spending import DailyAnswer
from agentforge.model.status import NodeStatus


class NodeStarted(Fact, frozen=True):
    """A visit to a stage, or to a parallel block (see `kind`), started."""

    TYPE = "node_start"
    MOVES_TO = NodeStatus.RUNNING

    name: str
    path: str = ""
    run: int = 1
    """The number of this visit."""
    folder: str = ""
    """The visit's folder, relative to the run directory."""
    rounds: tuple[int, ...] = (1,)
    type: str = ""
    provider: str = ""
    model: str = ""
    runs: int = written(1)
    """The maximum of its iterations; 0 if it has one for each item of a list."""
    kind: Literal["parallel"] | None = None
    providers: tuple[str, ...] = ()
    stages: tuple[str, ...] = ()
    skipped: bool = False
    """Whether a person skips the stage: nothing is run in this visit."""

    def defect(self, _session: str) -> str:
        return folder_defect(self.folder) or name_defect(*self.providers)

    def step(self) -> CourseStep:
        return CourseStep("node_entered", detail=", ".join(self.providers) if self.kind else "")


class NodeCompleted(Fact, frozen=True):
    """A visit to a stage or a parallel block ended."""

    TYPE = "node_complete"
    MOVES_TO = NodeStatus.COMPLETED

    name: str
    reason: str
    iterations: int
    status: Literal["completed"] = written("completed")
    next: Destination | None = None
    """The next node; None at the end of the run."""
    verdict: str = ""
    """What the stage concluded, if it has checks, verdicts or routes."""
    overridden_by: str = ""
    """Who accepted the result despite its verdict."""
    override_reason: str = ""

    def step(self) -> CourseStep:
        return CourseStep("node_over", iteration=self.iterations, detail=self.reason)

    @property
    def leaves(self) -> bool:
        return True


class NodeRestarted(Fact, frozen=True):
    """A visit to a stage ended without completing the stage, which is visited again."""

    TYPE = "node_restart"
    MOVES_TO = NodeStatus.COMPLETED

    name: str
    cause: Literal["rejected", "requested"]
    reason: str
    by: str
    iterations: int
    round: int = 1
    """The round of approval of the next visit."""
    feedback: Feedback | None = None
    next: Destination | None = None
    """The stage itself; None in a branch, whose next stage it is."""

    def step(self) -> CourseStep:
        return CourseStep("node_restarted", detail=self.cause)

    @property
    def leaves(self) -> bool:
        return True


class ProviderStarted(Fact, frozen=True):
    """A provider started its branch of a parallel block."""

    TYPE = "parallel_provider_start"

    provider: str
    stages: tuple[str, ...]

    def defect(self, _session: str) -> str:
        return name_defect(self.provider)

    def step(self) -> CourseStep:
        return CourseStep("branch_begun")


class ProviderCompleted(Fact, frozen=True):
    """A provider ended its branch of a parallel block."""

    TYPE = "parallel_provider_complete"

    provider: str
    status: Literal["completed", "failed"] = written("completed")
    error: str | None = None
    kind: FailureKind | None = field(default=None, name="type")
    """Of the error."""

    def step(self) -> CourseStep:
        return CourseStep("branch_over", detail=self.status)

    @property
    def leaves(self) -> bool:
        """A branch that failed stays where it is: a resume continues it."""
        return self.status == "completed"


class WorkerCompleted(Fact, frozen=True):
    """An agent inside a parallel block ended."""

    TYPE = "worker_complete"
    EXTERNAL = True

    result_file: str
    exit_code: int


class StageCompleted(Fact, frozen=True):
    """A provider finished one stage of a parallel block."""

    TYPE = "stage_complete"

    name: str
    reason: str
    iterations: int
    verdict: str = ""
    """What the stage concluded, if it has verdicts or routes."""
    overridden_by: str = ""
    """Who accepted the result despite its verdict."""
    override_reason: str = ""

    def step(self) -> CourseStep:
        return CourseStep("stage_over", iteration=self.iterations, detail=self.reason)

    @property
    def leaves(self) -> bool:
        return True


class ManifestWritten(Fact, frozen=True):
    """The outputs of all providers of a block are listed in one file."""

    TYPE = "manifest_written"

    path: str

    def step(self) -> CourseStep:
        return CourseStep("manifest")


class DelayStarted(Fact, frozen=True):
    """The pause between two iterations."""

    TYPE = "delay_start"

    due_at: datetime


class TimerFired(Fact, frozen=True):
    """A wait is over."""

    TYPE = "timer_fired"
    FOLLOWS_ERROR = True

    timer: str


class LedgerAnswered(Fact, frozen=True):
    """What an attempt or a judge may spend within the cap of the day, as the ledger of all runs answered."""

    TYPE = "daily_cap"
    FOLLOWS_ERROR = True

    key: str
    """Of the reservation in the ledger."""
    run_usd: float
    """What the run had spent itself."""
    answer: DailyAnswer


PlaceFact = (
    NodeStarted
    | NodeCompleted
    | NodeRestarted
    | ProviderStarted
    | ProviderCompleted
    | StageCompleted
    | ManifestWritten
)
"""A run enters or leaves a node, a branch or a stage, or completes a block."""

StageFact = WorkerCompleted | DelayStarted | TimerFired | LedgerAnswered
"""Something happens in a stage. Its tasks between two iterations are of this subject, too, if no other has
them."""

AnyNodeFact = StageFact | PlaceFact
