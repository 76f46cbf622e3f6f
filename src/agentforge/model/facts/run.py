"""The run: started, paused, resumed, ended, and its plan."""

from datetime import datetime
from typing import Literal

from msgspec import field

from agentforge.model.artifact import Artifact
from agentforge.model.course import CourseStep
from agentforge.model.cursor import Destination
from agentforge.model.facts.fact import Fact
from agentforge.model.failure import FailureKind
from agentforge.model.names import session_problem
from agentforge.model.plan import Mode, Plan
from agentforge.model.plan_limits import artifact_defect, plan_defect
from agentforge.model.spending import Unit
from agentforge.model.state import RunSettings, Waiver
from agentforge.model.status import RunStatus


class SessionStarted(Fact, frozen=True):
    """A run started. It keeps this plan."""

    TYPE = "session_start"

    mode: Mode
    run_id: str
    plan: Plan
    engine: str
    """The version that started the run."""
    stage: str | None = None
    stage_name: str | None = None
    pipeline: str | None = None
    pipeline_file: str | None = None
    settings: RunSettings = field(default_factory=RunSettings)
    format: int = 1
    waivers: tuple[Waiver, ...] = ()
    """What the person who started it waived; `waived` has the waivers of a resume."""
    user_request: str = ""
    """What the user wants; empty: the pipeline takes none."""
    secrets: tuple[str, ...] = ()
    """The variables whose values were in the user request."""
    artifact: Artifact | None = None
    """The first artifact, which was given to the run."""

    def defect(self, session: str) -> str:
        return plan_defect(self.plan) or session_problem(session) or artifact_defect(self.artifact)


class SessionRecovered(Fact, frozen=True):
    """A process recovered a run whose engine had died, or whose machine had been shut down."""

    TYPE = "session_recovered"
    EXTERNAL = True

    pid: int
    host: str
    by: Literal["recovery", "person"] = "recovery"
    """Only `person` resets the counters."""
    context: str | None = None
    record: bool = False
    """From now on the agents' work is recorded to a cassette."""
    approve: bool = False
    """From now on approvals are given without asking."""
    secrets: tuple[str, ...] = ()
    """The variables whose values were in the context."""

    def step(self) -> CourseStep | None:
        # When an engine dies doesn't depend on the definition, so a recovery isn't part of the course.
        return CourseStep("resumed") if self.by == "person" else None


class SessionContinued(Fact, frozen=True):
    """The run continues after an answer; counters and limits are kept."""

    TYPE = "session_continued"
    MOVES_TO = RunStatus.RUNNING

    requests: tuple[str, ...]
    """The requests that were answered."""


class SessionCompleted(Fact, frozen=True):
    """All work of the run is done."""

    TYPE = "session_complete"
    MOVES_TO = RunStatus.COMPLETED

    reason: str

    def step(self) -> CourseStep:
        return CourseStep("run_completed", detail=self.reason)


class SessionFailed(Fact, frozen=True):
    """The run failed; a person can resume it."""

    TYPE = "session_failed"
    FOLLOWS_ERROR = True
    MOVES_TO = RunStatus.FAILED

    kind: FailureKind = field(name="type")
    message: str
    stage: str

    def step(self) -> CourseStep:
        return CourseStep("run_failed", detail=self.kind.value)


class SessionPaused(Fact, frozen=True):
    """The run is paused."""

    TYPE = "session_paused"
    MOVES_TO = RunStatus.PAUSED

    reason: str
    requests: tuple[str, ...] = ()
    """Requests whose answer continues the run. Empty: only a resume does."""

    def step(self) -> CourseStep:
        return CourseStep("run_paused", detail=self.reason)


class SessionResumed(Fact, frozen=True):
    """A person resumed the run: counters are reset."""

    TYPE = "session_resumed"
    EXTERNAL = True
    MOVES_TO = RunStatus.RUNNING

    by: str
    context: str | None = None
    record: bool = False
    """From now on the agents' work is recorded to a cassette."""
    approve: bool = False
    """From now on approvals are given without asking."""
    secrets: tuple[str, ...] = ()
    """The variables whose values were in the context."""

    def step(self) -> CourseStep:
        return CourseStep("resumed")


class SessionAborted(Fact, frozen=True):
    """The run was cancelled, which is final."""

    TYPE = "session_aborted"
    MOVES_TO = RunStatus.ABORTED

    reason: str

    def step(self) -> CourseStep:
        return CourseStep("run_aborted", detail=self.reason)


class AwaitingApproval(Fact, frozen=True):
    """The run can't proceed until a request is answered."""

    TYPE = "awaiting_approval"
    MOVES_TO = RunStatus.AWAITING_APPROVAL

    requests: tuple[str, ...]

    def step(self) -> CourseStep:
        return CourseStep("run_paused", detail="waiting for an answer")


class PauseRequested(Fact, frozen=True):
    """Someone asked for a pause."""

    TYPE = "pause_requested"
    EXTERNAL = True

    reason: str
    now: bool = False
    """Stop the agents instead of letting them finish."""
    due_at: datetime | None = None
    """When agents that are still running are stopped; None: never."""
    control: str | None = None

    def step(self) -> CourseStep:
        return CourseStep("stop_requested", detail=self.reason)


class CancelRequested(Fact, frozen=True):
    """Someone asked to cancel the run."""

    TYPE = "cancel_requested"
    EXTERNAL = True

    reason: str
    control: str | None = None

    def step(self) -> CourseStep:
        return CourseStep("stop_requested", detail=self.reason)


class RestartRequested(Fact, frozen=True):
    """Someone asked to start the current stage over, as its next visit."""

    TYPE = "restart_requested"
    EXTERNAL = True

    reason: str
    by: str
    provider: str | None = None
    """The branch, inside a parallel block."""
    control: str | None = None
    hook: str = ""
    """The hook that asked."""

    def step(self) -> CourseStep:
        return CourseStep("restart_requested")


class NoteAdded(Fact, frozen=True):
    """Text for all later iterations, added while the run is running."""

    TYPE = "note_added"
    EXTERNAL = True

    text: str
    by: str
    control: str | None = None
    secrets: tuple[str, ...] = ()
    """The variables whose values were in the text."""


class PlanChanged(Fact, frozen=True):
    """The pipeline was recompiled on request; the run continues with the new plan."""

    TYPE = "plan_changed"

    plan: Plan
    at: Destination | None = None
    """The run's current or next node in the new plan; None: at its end."""
    paths: dict[str, str | None] = field(default_factory=dict)
    """Each old path's path in the new plan; None if the node was removed."""
    gone: dict[str, str] = field(default_factory=dict)
    """Keys of the removed nodes, valid in any plan: a node that returns keeps its visit count."""
    skipped: tuple[str, ...] = ()
    """Paths of nodes that were not run and come before the current one now: no run goes back for them."""
    caps_set: tuple[Unit, ...] = ()
    """What a person set other caps of the run on: what was granted beyond the earlier ones is over."""

    def defect(self, _session: str) -> str:
        return plan_defect(self.plan)


class FileRefused(Fact, frozen=True):
    """Something in the run directory that can't be used. Recorded before it is moved aside."""

    TYPE = "file_refused"
    EXTERNAL = True
    AFTER_END = True

    name: str
    """Relative to the run directory."""
    reason: str
    moved_to: str
    """Its new name, in the same folder."""


class SpendingWarned(Fact, frozen=True):
    """The run has spent as much as its user wants to be told; nothing stops."""

    TYPE = "spending_warned"

    cost_usd: float
    warn_usd: float


class TmuxSessionCleaned(Fact, frozen=True):
    """A leftover tmux session with this run's name was ended; no engine was running."""

    TYPE = "tmux_session_cleaned"
    EXTERNAL = True

    name: str
    pid: int | None = None
    """PID of the last engine, if known."""


RunStop = SessionCompleted | SessionFailed | SessionPaused | AwaitingApproval | SessionAborted
"""After these, no engine drives the run."""
ControlFact = PauseRequested | CancelRequested | RestartRequested | NoteAdded
"""What a control file asked for."""


AnyRunFact = (
    PlanChanged
    | SessionStarted
    | SessionCompleted
    | SessionFailed
    | SessionPaused
    | SessionResumed
    | SessionAborted
    | SessionRecovered
    | PauseRequested
    | CancelRequested
    | RestartRequested
    | NoteAdded
    | AwaitingApproval
    | SessionContinued
    | TmuxSessionCleaned
    | SpendingWarned
    | FileRefused
)
