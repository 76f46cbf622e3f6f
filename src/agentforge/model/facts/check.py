"""Checks, verdicts and routes: each follows from the one before."""

from abc import abstractmethod

from agentforge.model.check import Baseline, CheckCounts, CheckProblem, CheckStatus, FilesBefore, TestsRan
from agentforge.model.course import CourseStep
from agentforge.model.cursor import Destination
from agentforge.model.facts.fact import (
    Fact,
    TaskEnding,
    TaskFact,
    TaskLost,
    TaskOutcome,
    TaskStarted,
    written,
)
from agentforge.model.layout import is_inside
from agentforge.model.request import Feedback
from agentforge.model.state import Waiver


class CheckFact(TaskFact, frozen=True):
    """What all facts about one run of a check name."""

    KIND = "check"

    check: str
    attempt: int = written(1)

    @property
    @abstractmethod
    def baseline(self) -> str:
        """Identifies the baseline that it is about: the check runs before the work, to compare its outcome
        with later ones. Empty: it verifies work."""

    @property
    def about(self) -> str:
        return self.baseline or self.check

    @property
    def named(self) -> str:
        return f"baseline of check {self.check}" if self.baseline else f"check {self.check}"

    @property
    def subject(self) -> str:
        return f"baseline of {self.check}" if self.baseline else self.check


class CheckStarted(CheckFact, TaskStarted, frozen=True):
    """The intent to run a check, durable before its program starts."""

    TYPE = "check_start"

    timeout: float | None = None
    baseline: str = ""

    def step(self) -> CourseStep:
        return CourseStep("check", attempt=self.attempt, detail=self.subject)


class CheckPrepared(CheckFact, frozen=True):
    """The files that a check is going to see, durable before its program starts."""

    TYPE = "check_prepared"

    files: FilesBefore = FilesBefore()
    baseline: str = ""


class CheckCompleted(CheckFact, TaskOutcome, frozen=True):
    """A check ended."""

    TYPE = "check_complete"

    status: CheckStatus = written("pass")
    exit_code: int | None = None
    counts: CheckCounts = CheckCounts()
    signatures: tuple[str, ...] = ()
    """Signatures of the first failures."""
    failures: int = 0
    """The number of failures."""
    problem: CheckProblem | None = None
    """The kind of error."""
    reason: str = ""
    feedback: str = ""
    """What the next iteration is told: counts, signatures and the end of the output."""
    output: str = ""
    """Its output, relative to the run directory."""
    tree_before: str | None = None
    tree_after: str | None = None
    changed: tuple[str, ...] = ()
    """Paths that changed while it ran; the outcome is then void."""
    tree_problem: str = ""
    """Why there is no tree before or after it: nothing shows whether files changed while it ran."""
    duration_ms: int = 0
    baseline: str = ""
    found: Baseline | None = None
    """What later outcomes of the check are compared with."""
    before: int = 0
    """Failures that don't count, because they were there before the first agent."""
    tests: TestsRan | None = None
    """The tests of its report; None if it has none, or too many to be kept."""

    def defect(self, _session: str) -> str:
        found = self.found.tests if self.found else None
        outside = any(not is_inside(one.file) for one in (self.tests, found) if one)
        return "the tests that it ran are outside the run" if outside else ""

    def step(self) -> CourseStep:
        # If files changed while it ran, its outcome counts for nothing, whatever the status is.
        how = "void" if self.changed else self.status
        return CourseStep("check_outcome", attempt=self.attempt, detail=f"{self.subject}: {how}")


class CheckEnding(CheckFact, TaskEnding, frozen=True):
    """The intent to stop a check; the signal is sent only after this is durable."""

    TYPE = "check_ending"

    reason: str = written("")
    baseline: str = ""


class CheckLost(CheckFact, TaskLost, frozen=True):
    """The engine or host died during a check, or it was stopped on request; it runs again."""

    TYPE = "check_lost"

    baseline: str = ""

    def step(self) -> CourseStep:
        return CourseStep("check_outcome", attempt=self.attempt, detail=f"{self.subject}: lost")


class Waived(Fact, frozen=True):
    """A person decided that a check of the run doesn't count, or that a stage isn't run."""

    TYPE = "waived"
    EXTERNAL = True

    check: str
    """Empty: it is about a stage."""
    reason: str
    by: str
    stage: str = ""

    @property
    def waiver(self) -> Waiver:
        return Waiver(self.check, self.reason, self.by, self.stage)

    def step(self) -> CourseStep:
        return CourseStep("waived", detail=self.waiver.what)


class StageVerdictReached(Fact, frozen=True):
    """A stage is over, with a verdict. (A judge only says whether a stage is over.)"""

    TYPE = "stage_verdict"

    verdict: str
    reason: str = ""
    ended: str = ""
    """Why the stage is over."""
    failing: tuple[str, ...] = ()
    """Checks that fail."""
    waived: tuple[str, ...] = ()
    """Checks that were waived by a person."""
    signatures: tuple[str, ...] = ()
    tree: str | None = None
    """The files that all its checks saw; None if files changed after them, or in between."""
    items: tuple[str, ...] = ()
    """The items that it is about."""
    skipped_by: str = ""
    """Who skipped the stage, which has this verdict without having been run."""

    def step(self) -> CourseStep:
        waived = f" (waived: {', '.join(self.waived)})" if self.waived else ""
        return CourseStep("verdict", detail=f"{self.verdict}{waived}")


class StageTransitioned(Fact, frozen=True, rename={"source": "from"}):
    """A verdict leads to another node than the next."""

    TYPE = "stage_transition"

    source: str
    """The id of the stage."""
    to: str
    """The id of the node; empty at the end of the run."""
    verdict: str
    reason: str = ""
    cycle: int = 0
    """The pass that begins, on the way back to an earlier node; from 2."""
    of: int = 0
    """The limit of passes, with what a person granted."""
    skipped: tuple[str, ...] = ()
    """The nodes that are passed over, on the way forward or to the end."""
    next: Destination | None = None
    feedback: Feedback | None = None

    def step(self) -> CourseStep:
        return CourseStep("route", detail=self.to or "the end")


_OfCheck = CheckStarted | CheckPrepared | CheckCompleted | CheckEnding | CheckLost
CheckedStageFact = _OfCheck | StageVerdictReached | StageTransitioned
"""About one stage; a waiver holds for the whole run."""

AnyCheckFact = _OfCheck | Waived | StageVerdictReached | StageTransitioned
