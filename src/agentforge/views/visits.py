"""The visits of a run to its stages: the checks of each, its verdict, and where it led; from the events."""

from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from agentforge.model import facts as f
from agentforge.model.check import CheckCounts, CheckProblem, TestsRan
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.plan import FAIL, REJECT, Plan
from agentforge.model.state import StageState
from agentforge.views.text import shown_reason

CheckRunStatus = Literal["running", "lost", "void", "pass", "fail", "error", "timeout"]


class CheckRun(Struct, frozen=True):
    """One run of a check."""

    check: str
    number: int
    """How often it was started at this iteration."""
    iteration: int
    """The completed iterations when it ran."""
    started_at: datetime
    status: CheckRunStatus = "running"
    exit_code: int | None = None
    counts: CheckCounts = CheckCounts()
    failures: int = 0
    signatures: tuple[str, ...] = ()
    """Of its failures; bounded."""
    problem: CheckProblem | None = None
    """Of an error."""
    reason: str = ""
    output: str = ""
    """The file with its output, relative to the run directory."""
    tree: str | None = None
    changed: tuple[str, ...] = ()
    """Paths that changed while it ran: the outcome is void."""
    tree_problem: str = ""
    """Why there is no tree before or after it: nothing shows whether files changed."""
    duration_seconds: float | None = None
    """None while it is running, and if it was lost."""
    ended_at: datetime | None = None
    """When that was recorded; None while it is running."""
    before: int = 0
    """Failures that don't count, because they were there before the first agent."""
    unusable: str = ""
    """Of a baseline: why the check is not used in the run."""
    baseline: bool = False
    """Whether it ran before the work, to compare its outcome with later ones."""
    tests: TestsRan | None = None
    """The tests of its report; None if it has none."""


class StageCheck(CheckRun, frozen=True, kw_only=True):
    """One run of a check, with the visit that it belongs to."""

    stage: str
    path: str
    branch: str | None
    visit: int


class StageVisit(Struct, frozen=True):
    """One visit of a run to a stage, as far as it got."""

    stage: str
    """The id of the stage."""
    path: str
    branch: str | None
    """The provider, in a parallel block."""
    visit: int
    started_at: datetime
    ended_at: datetime | None = None
    iterations: int = 0
    """The completed ones."""
    ended: str = ""
    """Why the visit ended."""
    verdict: str = ""
    """Empty: none yet, or nothing depends on it."""
    reason: str = ""
    """Of the verdict."""
    failing: tuple[str, ...] = ()
    """Checks that fail."""
    waived: tuple[str, ...] = ()
    """Checks that a person waived."""
    skipped_by: str = ""
    """Who skipped the stage, which has its verdict without having been run."""
    tree: str | None = None
    """The files that the verdict is about."""
    accepted_by: str = ""
    """Who accepted the result despite its verdict."""
    accept_reason: str = ""
    to: str | None = None
    """The node that a route led to, empty for the end of the run; None without a route."""
    cycle: int = 0
    """On the way back: the pass that begins."""
    of: int = 0
    skipped: tuple[str, ...] = ()
    """The nodes that were passed over."""
    checks: tuple[CheckRun, ...] = ()

    @property
    def is_judged(self) -> bool:
        """Whether it has checks or a verdict."""
        return bool(self.checks or self.verdict)

    @property
    def latest_checks(self) -> tuple[CheckRun, ...]:
        """The last run of each check; its baseline says nothing about the work."""
        return tuple({run.check: run for run in self.checks if not run.baseline}.values())


def checks_of(visits: Iterable[StageVisit]) -> list[StageCheck]:
    return [
        StageCheck(**asdict(run), stage=visit.stage, path=visit.path, branch=visit.branch, visit=visit.visit)
        for visit in visits
        for run in visit.checks
    ]


VerdictMark = Literal["done", "failed", "warning"]
"""`warning`: a person accepted the result despite its verdict, or skipped the stage."""


def verdict_mark(verdict: str, overridden_by: str) -> VerdictMark:
    """`overridden_by`: the person."""
    if overridden_by:
        return "warning"
    return "failed" if verdict in (FAIL, REJECT) else "done"


JudgedFact = (
    f.CheckStarted
    | f.CheckCompleted
    | f.CheckLost
    | f.StageVerdictReached
    | f.StageTransitioned
    | f.NodeCompleted
    | f.StageCompleted
)
"""What changes the checks and the verdict of a visit."""
VisitFact = JudgedFact | f.NodeStarted | f.IterationStarted | f.IterationCompleted | f.NodeRestarted


def latest_visits(
    known: tuple[StageVisit, ...], plan: Plan | None, event: Event, stage: StageState | None = None
) -> tuple[StageVisit, ...]:
    """After one more event: of each stage with checks or a verdict, the latest visit, in brief. `stage`: the
    state of the stage before the event."""
    # In brief, because state.json contains it: without signatures, earlier visits and earlier runs of checks.
    at, fact = event.cursor, event.fact
    if isinstance(fact, f.PlanChanged):
        moved = (replace(one, path=fact.paths.get(one.path, one.path) or "") for one in known)
        return tuple(one for one in moved if one.path)
    if not isinstance(fact, JudgedFact) or at is None or (begun := begun_visit(plan, at, event.at)) is None:
        return known
    place = (at.node_path, at.provider)
    before = next((one for one in known if (one.path, one.branch) == place), None)
    if stage is not None and stage.started_at is not None:
        begun = replace(begun, started_at=stage.started_at)
    visit = before if before and before.visit == at.node_run else begun
    now = visited(visit, event.at, at, fact)
    checks = tuple(replace(run, signatures=(), tests=None) for run in now.latest_checks)
    now = replace(now, iterations=stage.completed if stage else at.iteration, checks=checks)
    others = tuple(one for one in known if one is not before)
    return (*others, now) if now.is_judged else known


def begun_visit(plan: Plan | None, at: Cursor, when: datetime) -> StageVisit | None:
    """A new visit; None if there is no such stage, as for a parallel block."""
    stage = plan.stage(at.node_path, at.provider) if plan else None
    if stage is None:
        return None
    return StageVisit(stage.id, at.node_path, at.provider, at.node_run, when)


def visited(visit: StageVisit, when: datetime, at: Cursor, fact: VisitFact) -> StageVisit:
    """The visit after one more event."""
    match fact:
        case f.IterationCompleted():
            return replace(visit, iterations=visit.iterations + 1)
        case f.CheckStarted():
            run = CheckRun(fact.check, fact.attempt, at.iteration, when, baseline=bool(fact.baseline))
            return replace(visit, checks=(*visit.checks, run))
        case f.CheckLost():
            return _checked(visit, fact, "lost", ended_at=when)
        case f.CheckCompleted():
            return _completed(visit, when, fact)
        case f.StageVerdictReached():
            return replace(
                visit,
                verdict=fact.verdict,
                reason=fact.reason,
                failing=fact.failing,
                waived=fact.waived,
                skipped_by=fact.skipped_by,
                tree=fact.tree,
            )
        case f.StageTransitioned():
            return replace(visit, to=fact.to, cycle=fact.cycle, of=fact.of, skipped=fact.skipped)
        case f.NodeCompleted() | f.StageCompleted():
            by, why = fact.overridden_by, fact.override_reason
            return replace(
                visit, ended_at=when, ended=shown_reason(fact.reason), accepted_by=by, accept_reason=why
            )
        case f.NodeRestarted():
            return replace(visit, ended_at=when, ended=shown_reason(fact.reason))
        case f.NodeStarted() | f.IterationStarted():  # exhaustive
            return visit


def _completed(visit: StageVisit, when: datetime, fact: f.CheckCompleted) -> StageVisit:
    return _checked(
        visit,
        fact,
        "void" if fact.changed else fact.status,
        ended_at=when,
        exit_code=fact.exit_code,
        counts=fact.counts,
        failures=fact.failures,
        signatures=fact.signatures,
        problem=fact.problem,
        reason=fact.reason,
        output=fact.output,
        tree=fact.tree_after,
        changed=fact.changed,
        tree_problem=fact.tree_problem,
        duration_seconds=fact.duration_ms / 1000,
        before=fact.before,
        unusable=fact.found.unusable if fact.found else "",
        tests=fact.tests,
    )


def _checked(
    visit: StageVisit, fact: f.CheckCompleted | f.CheckLost, status: CheckRunStatus, **known: object
) -> StageVisit:
    """With what is known about the check that was started last."""
    # Checks of a visit run one after the other; another name means that the log lacks the start.
    runs = visit.checks
    if not runs or (runs[-1].check, runs[-1].baseline) != (fact.check, bool(fact.baseline)):
        return visit
    return replace(visit, checks=(*runs[:-1], replace(runs[-1], status=status, **known)))
