"""Facts about the run as a whole: started, paused, resumed, ended, and its plan."""

from datetime import datetime
from typing import Literal

from msgspec import field

from agentforge.model.cursor import Destination
from agentforge.model.facts.fact import Fact
from agentforge.model.failure import FailureKind
from agentforge.model.plan import Mode, Plan
from agentforge.model.state import RunSettings


class SessionStarted(Fact, frozen=True):
    TYPE = "session_start"

    mode: Mode
    run_id: str
    plan: Plan
    engine: str
    """The version that began the run."""
    stage: str | None = None
    stage_name: str | None = None
    pipeline: str | None = None
    pipeline_file: str | None = None
    settings: RunSettings = field(default_factory=RunSettings)
    format: int = 1


class SessionRecovered(Fact, frozen=True):
    """A process recovered a run that another one left behind."""

    TYPE = "session_recovered"

    pid: int
    host: str
    by: Literal["recovery", "person"] = "recovery"
    """Only a person's word makes the counters begin anew."""
    context: str | None = None
    record: bool = False
    """From now on what agents do is kept as a cassette."""


class SessionContinued(Fact, frozen=True):
    """The run goes on after an answer; counters and limits stay as they are."""

    TYPE = "session_continued"

    requests: tuple[str, ...]
    """Those that were answered."""


class SessionCompleted(Fact, frozen=True):
    TYPE = "session_complete"

    reason: str


class SessionFailed(Fact, frozen=True):
    TYPE = "session_failed"

    kind: FailureKind = field(name="type")
    message: str
    stage: str


class SessionPaused(Fact, frozen=True):
    TYPE = "session_paused"

    reason: str
    requests: tuple[str, ...] = ()
    """What the run waits for; an answer continues it. Empty: only a resume does."""


class SessionResumed(Fact, frozen=True):
    """A person said go on: counters begin anew."""

    TYPE = "session_resumed"

    by: str
    context: str | None = None
    record: bool = False
    """From now on what agents do is kept as a cassette."""


class SessionAborted(Fact, frozen=True):
    TYPE = "session_aborted"

    reason: str


class AwaitingApproval(Fact, frozen=True):
    """Nothing is left to do before somebody answers."""

    TYPE = "awaiting_approval"

    requests: tuple[str, ...]


class PauseRequested(Fact, frozen=True):
    TYPE = "pause_requested"

    reason: str
    now: bool = False
    """End the agents instead of letting them finish."""
    due_at: datetime | None = None
    """When agents that are still working are ended; never, if absent."""
    control: str | None = None


class CancelRequested(Fact, frozen=True):
    TYPE = "cancel_requested"

    reason: str
    control: str | None = None


class PlanChanged(Fact, frozen=True):
    """A person had the pipeline compiled again; the run goes on by the new plan."""

    TYPE = "plan_changed"

    plan: Plan
    at: Destination | None = None
    """Where in the new plan the run is, or goes next; None: at its end."""
    paths: dict[str, str | None] = field(default_factory=dict)
    """Where the new plan has what was at each path; None where that is gone."""
    gone: dict[str, str] = field(default_factory=dict)
    """What the nodes at those paths are called, in any plan: one that comes back counts its visits on."""


class TmuxSessionCleaned(Fact, frozen=True):
    """A tmux session of this run's name was left over and nobody drove the run: it was ended."""

    TYPE = "tmux_session_cleaned"

    name: str
    pid: int | None = None
    """Of the process that drove the run last, where that is known."""
