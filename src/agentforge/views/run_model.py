"""The fold that views of a run read: its state, latest iterations, counters and health."""

from collections.abc import Iterable
from datetime import datetime
from typing import get_args

from msgspec import Struct, field
from msgspec.structs import replace

from agentforge.engine.evolve.run import evolve
from agentforge.model import facts as f
from agentforge.model.changes import MAX_LEFT, LeftInGit
from agentforge.model.event import Event
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.model.status import RunStatus, TaskStatus
from agentforge.views.history import History
from agentforge.views.text import counted, shortened
from agentforge.views.visits import JudgedFact, StageVisit, latest_visits

WARNING_BELOW = 0.3
JUDGE_ERROR_CHARS = 400
_STOPPED = frozenset({RunStatus.PAUSED, RunStatus.AWAITING_APPROVAL, RunStatus.FAILED})
"""A person can continue it from there."""


class Summary(Struct, frozen=True):
    events: int = 0
    iterations: int = 0
    attempts: int = 0
    reattached: int = 0
    lost: int = 0
    recoveries: int = 0
    errors: int = 0
    consecutive_errors: int = 0
    without_files: int = 0
    """Iterations whose result and output are only in the log."""
    without_progress: int = 0
    """Iterations that suspected a plateau or have no summary."""
    judge_failures: int = 0
    """Judgments that failed."""
    judge_error: str = ""
    """Why the last of them failed."""
    last_type: str = ""
    last_at: datetime | None = None
    visits: tuple[StageVisit, ...] = ()
    """Of each stage with checks or a verdict, the latest visit, without the signatures of failures."""
    stopped_at: datetime | None = None
    """When the run stopped; None while it is running, and once it is over."""
    waited_seconds: float = 0.0
    """How long it was stopped before someone continued it."""
    git_left: tuple[LeftInGit, ...] = ()
    """What confined programs of the run left for git, also those of hooks: the latest."""
    git_omitted: int = 0
    """How much more they left."""


class Health(Struct, frozen=True):
    score: float
    label: str
    warnings: tuple[str, ...]


def fold(summary: Summary, event: Event) -> Summary:
    """The counters after one more event."""
    fact, events = event.fact, summary.events + 1
    # The most frequent events come first, each with one copy of the struct: `replace` is most of the cost.
    if type(fact) is f.AttemptStarted:
        attempts = summary.attempts + 1
        return replace(summary, events=events, last_type=fact.TYPE, last_at=event.at, attempts=attempts)
    if type(fact) is f.IterationCompleted:
        stalled = fact.result.signals.plateau_suspected or not fact.result.summary.strip()
        return replace(
            summary,
            events=events,
            last_type=fact.TYPE,
            last_at=event.at,
            consecutive_errors=0,
            iterations=summary.iterations + 1,
            without_files=summary.without_files + (fact.text is not None),
            without_progress=summary.without_progress + stalled,
        )
    consecutive = summary.consecutive_errors if fact.FOLLOWS_ERROR else 0
    seen = replace(
        summary, events=events, last_type=fact.TYPE, last_at=event.at, consecutive_errors=consecutive
    )
    if type(fact) is f.IterationStarted:
        return seen
    # What the fact says about itself comes before its kind: comparing classes of structs takes longer.
    if fact.MOVES_TO is TaskStatus.FAILED:
        return replace(seen, errors=seen.errors + 1, consecutive_errors=summary.consecutive_errors + 1)
    status = fact.run_status
    if status in _STOPPED:
        return replace(seen, stopped_at=event.at)
    if status in (RunStatus.RUNNING, RunStatus.ABORTED):
        return _continued(seen, event)
    match fact:
        case f.JudgeCompleted(status="failed", result=result, error=error):
            return replace(
                seen,
                errors=seen.errors + 1,
                consecutive_errors=summary.consecutive_errors + 1,
                judge_failures=seen.judge_failures + 1,
                judge_error=shortened(error or result.reason, JUDGE_ERROR_CHARS),
            )
        case f.GitLeft(items=items, omitted=omitted):
            left = tuple(dict.fromkeys((*seen.git_left, *items)))
            more = seen.git_omitted + omitted + len(left[:-MAX_LEFT])
            return replace(seen, git_left=left[-MAX_LEFT:], git_omitted=more)
        case f.AttemptReattached():
            return replace(seen, reattached=seen.reattached + 1)
        case f.AttemptLost():
            return replace(seen, lost=seen.lost + 1)
        case f.SessionRecovered():
            return replace(_continued(seen, event), recoveries=seen.recoveries + 1)
        case _:
            return seen


def _continued(summary: Summary, event: Event) -> Summary:
    # The clock may have been set back.
    waited = max(0.0, (event.at - (summary.stopped_at or event.at)).total_seconds())
    return replace(summary, stopped_at=None, waited_seconds=summary.waited_seconds + waited)


def health(summary: Summary) -> Health:
    # An error weighs more than an iteration without progress, but only errors in a row count.
    raw = 1.0 - 0.1 * summary.consecutive_errors - 0.05 * summary.without_progress
    score = round(min(1.0, max(0.0, raw)), 2)
    warnings = []
    if score < WARNING_BELOW:
        warnings.append(f"health below {WARNING_BELOW:.2f}")
    if summary.consecutive_errors:
        warnings.append(f"{counted(summary.consecutive_errors, 'error')} in a row")
    if summary.without_progress:
        warnings.append(f"{counted(summary.without_progress, 'iteration')} without progress")
    if summary.judge_failures:
        warnings.append(judge_warning(summary.judge_failures, summary.judge_error))
    return Health(score, "warning" if score < WARNING_BELOW else "ok", tuple(warnings))


def judge_warning(failures: int, error: str) -> str:
    """How often the judge failed, and why it did the last time."""
    times = "once" if failures == 1 else f"{failures:,} times"
    return f"the judge failed {times}: {error}"


_CHANGES_PLAN_OR_VISITS = frozenset(get_args(JudgedFact | f.PlanFact))


class RunModel(Struct):
    """A run as of the last applied event. Its spending is part of the state, where `decide` reads it."""

    plan: Plan | None = None
    state: RunState | None = None
    summary: Summary = Summary()
    history: History = field(default_factory=History)

    def apply(self, event: Event) -> None:
        before, self.state = self.state, evolve(self.state, event)
        self.summary = fold(self.summary, event)
        self.history.apply(event)
        # Of a struct, `isinstance` is slow if it is false, as it is for nearly all of many events.
        if type(event.fact) not in _CHANGES_PLAN_OR_VISITS:
            return
        if isinstance(event.fact, f.PlanFact):
            self.plan = event.fact.plan
        provider = event.cursor.provider if event.cursor else None
        # The end of a node is about a stage that the state after it no longer has.
        stage = before.stage(provider) if before else None
        visits = latest_visits(self.summary.visits, self.plan, event, stage)
        self.summary = replace(self.summary, visits=visits)

    def catch_up(self, event: Event) -> None:
        """Apply an event, unless the state that the model started from already includes it."""
        if self.state is None or event.seq > self.state.seq:
            self.apply(event)


def fold_events(events: Iterable[Event], model: RunModel | None = None) -> RunModel:
    model = model or RunModel()
    apply = model.apply
    for event in events:
        apply(event)
    return model
