"""A run as the SDK returns it: how a call ended, and the status of a run, as plain data."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

from agentforge.model.artifact import Artifact
from agentforge.model.delivery import DeliveredWork
from agentforge.model.failure import StopReason
from agentforge.model.plan import Plan
from agentforge.model.request import Request
from agentforge.model.spending import Spending
from agentforge.model.state import RunState, Waiver
from agentforge.model.status import RunStatus, status_text
from agentforge.ports.event_log import BufferHealth, Damage
from agentforge.views.orchestration import orchestration_code
from agentforge.views.run_model import Health, Summary, health
from agentforge.views.spending import CapView, cap_views
from agentforge.views.text import one_line, reason_text, shown_reason
from agentforge.views.verification import unverified_stages
from agentforge.views.visits import StageVisit

# `interrupted` is derived, never recorded: the run is running and has no active engine.
ShownStatus = Literal[
    "pending", "running", "interrupted", "paused", "awaiting_approval", "completed", "failed", "aborted"
]


class RunResult(Struct, frozen=True):
    """How a call to `run` or `resume` ended."""

    session: str
    status: RunStatus
    reason: str
    iterations: int
    run_dir: str
    error: str | None = None
    error_type: str | None = None
    requests: tuple[Request, ...] = ()
    cassette: str | None = None
    """The path of the cassette, or None if the run isn't recorded."""
    spending: Spending = Spending()
    """Of the whole run; what is unknown is named."""
    caps: tuple[CapView, ...] = ()
    """What it may spend, those of the whole run first."""
    visits: tuple[StageVisit, ...] = ()
    """Of each stage with checks or a verdict, the latest visit."""
    unverified: tuple[str, ...] = ()
    """The completed stages that name checks of which none could be used: only agents verified the work."""
    waivers: tuple[Waiver, ...] = ()
    """Checks and stages that people skipped: of the whole run, with who and why."""
    duration_seconds: float = 0.0
    """From the start of the run to its latest event, with the time in which it waited."""
    waited_seconds: float = 0.0
    """How long the run was stopped until a person continued it."""
    delivered: DeliveredWork | None = None
    """What the latest stage that delivers delivered."""
    artifact: Artifact | None = None
    """The latest that was accepted, without its value if it is larger than 64 KB. Not in what `status` has,
    which doesn't read all of the log."""

    @property
    def completed(self) -> bool:
        return self.status is RunStatus.COMPLETED

    @property
    def orchestration_code(self) -> str | None:
        """Why it failed, was cancelled or needs a person: `ACODE-ORCH-001` to `-007`."""
        return orchestration_code(self.status, self.error_type, self.requests)

    @property
    def outcome(self) -> str:
        """How it ended, on one line for people; `reason` is what the log has."""
        status = status_text(self.status, self.requests)
        if self.error is not None:
            return f"{status}: {one_line(f'{self.error_type}: {self.error}')}"
        if self.status is RunStatus.AWAITING_APPROVAL:
            return ": ".join([status, *(one_line(request.question) for request in self.requests[:1])])
        reason = reason_text(self.reason)
        # As in "Completed 3 iterations (max: 3)".
        is_whole = reason.lower().startswith(status)
        return f"{reason[:1].lower()}{reason[1:]}" if is_whole else f"{status}: {reason}"


class RunInfo(Struct, frozen=True):
    """The status of a run."""

    session: str
    status: ShownStatus
    run_dir: str
    plan: Plan
    state: RunState
    summary: Summary
    driver_pid: int | None = None
    damage: tuple[Damage, ...] = ()
    buffer: BufferHealth | None = None
    state_file_seq: int | None = None
    """The latest event in state.json, or None if that is missing or unusable."""
    stopped: StopReason | None = None
    """Why its last engine, in the background, stopped without recording the end of the run."""
    answered: bool = False
    """Whether the run waits although a request was answered, or its time is over: `recover` continues it."""
    unanswered: tuple[str, ...] = ()
    """Ids of the requests that a person still has to answer although it was answered."""
    artifact: Artifact | None = None
    """As in its result."""

    @property
    def health(self) -> Health:
        return health(self.summary)

    @property
    def result(self) -> RunResult:
        """How the run stopped; its status is `running` if it didn't."""
        return result_of(
            self.session, self.plan, self.state, self.summary, self.run_dir, artifact=self.artifact
        )

    @property
    def is_archived(self) -> bool:
        """Whether the folder of the run was renamed: its log has the name that the run was started with."""
        return self.session != self.state.session


def result_of(
    session: str, plan: Plan, state: RunState, summary: Summary, run_dir: str, *, artifact: Artifact | None
) -> RunResult:
    failure = state.failure
    ran = {record.name for record in state.stages if record.iterations}
    return RunResult(
        session=session,
        status=state.status,
        reason=failure.message
        if failure
        else shown_reason(state.completion_reason or state.pause_reason or ""),
        iterations=summary.iterations,
        run_dir=run_dir,
        error=failure.message if failure else None,
        error_type=failure.kind.value if failure else None,
        requests=state.open_requests,
        cassette=f"{run_dir}/cassette.jsonl" if state.settings.record else None,
        spending=state.spending,
        caps=cap_views(plan, state),
        visits=summary.visits,
        unverified=tuple(id for id in unverified_stages(plan, state.baselines) if id in ran),
        waivers=state.waivers,
        duration_seconds=round(duration(state, state.status, state.updated_at), 3),
        waited_seconds=round(summary.waited_seconds, 3),
        delivered=state.delivered,
        artifact=artifact,
    )


def duration(state: RunState, status: str, now: datetime) -> float:
    """Seconds until now while the run is running, else until its last event."""
    until = now if status == "running" else state.updated_at
    # The clock of the machine that looks may be behind that of the one that drives the run.
    return max(0.0, (until - state.started_at).total_seconds())
