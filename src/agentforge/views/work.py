"""What the agents of a run did: its iterations with their attempts, results and trees, from the events."""

import posixpath
from collections.abc import Iterable
from datetime import datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.file_change import Changes, FileChange
from agentforge.model.git_left import LeftInGit
from agentforge.model.place import place_of
from agentforge.model.result import Decision, Result
from agentforge.model.state import Spending
from agentforge.ports.tree import is_tree_id
from agentforge.views.run_model import RunModel

WorkStatus = Literal["running", "completed", "failed", "lost", "cancelled"]


class AttemptWork(Struct, frozen=True):
    number: int
    provider: str
    model: str
    started_at: datetime
    status: WorkStatus = "running"
    ended_at: datetime | None = None
    error: str = ""
    """What failed, with its kind; or why it was lost or cancelled."""


class JudgeWork(Struct, frozen=True):
    """What the judge said about an iteration."""

    status: Literal["success", "failed", "skipped"]
    stop: bool
    reason: str
    confidence: float
    error: str = ""
    """Why the judge failed."""


class IterationWork(Struct, frozen=True):
    """One iteration, as far as it got."""

    path: str
    """Of the stage in the plan."""
    stage: str
    """The id of the stage."""
    visit: int
    iteration: int
    started_at: datetime
    branch: str | None = None
    status: WorkStatus = "running"
    ended_at: datetime | None = None
    duration_seconds: float | None = None
    """Of the attempt that completed it."""
    attempts: tuple[AttemptWork, ...] = ()
    result: Result | None = None
    reason: str = ""
    judge: JudgeWork | None = None
    spending: Spending = Spending()
    """Of all attempts and judges."""
    folder: str = ""
    """Relative to the run directory; empty if unknown."""
    text: str | None = None
    """The output, if it is only in the log."""
    before: str | None = None
    """The tree of the project's files before the first attempt; None if unknown."""
    after: str | None = None
    """The tree after the last attempt that ended."""
    omitted: int = 0
    """How many files were too large for the trees."""
    shared: bool = False
    """Whether other branches worked on the same files at the same time."""
    problem: str = ""
    """Why a tree is unknown."""
    git_left: tuple[LeftInGit, ...] = ()
    """What its confined programs left for git."""
    git_omitted: int = 0
    """How much more they left."""

    @property
    def name(self) -> str:
        """The stage as it is named on the command line."""
        return f"{self.stage}@{self.branch}" if self.branch else self.stage

    @property
    def exact_name(self) -> str:
        """For the command line if stages of several paths have the same name."""
        return f"{self.path}@{self.branch}" if self.branch else self.path

    @property
    def awaits_changes(self) -> bool:
        """Whether its changes will be known when it has ended."""
        return self.status == "running" and self.before is not None and not self.problem


class RunTrees(Struct, frozen=True):
    """The first and the latest known tree of a run."""

    first: str | None = None
    latest: str | None = None


class WorkFold:
    """Folds the events of a run."""

    def __init__(self) -> None:
        self._model = RunModel()
        self._iterations: dict[Cursor, IterationWork] = {}
        self._under_way: set[Cursor] = set()
        self._tree: str | None = None
        """The latest tree; None: unknown."""
        self.trees = RunTrees()

    @property
    def iterations(self) -> tuple[IterationWork, ...]:
        return tuple(self._iterations.values())

    def apply(self, event: Event) -> None:
        self._model.apply(event)
        at, fact = event.cursor, event.fact
        if at is None:
            return
        match fact:
            case f.IterationStarted():
                self._iterations[at] = self._begun(event, at, fact)
            case f.AttemptStarted():
                self._start(event, at, fact)
            case f.TreeTaken():
                self._take(at, fact)
            case f.GitLeft(items=items, omitted=omitted) if at in self._iterations:
                known = self._iterations[at]
                left = tuple(dict.fromkeys((*known.git_left, *items)))
                self._change(at, git_left=left, git_omitted=known.git_omitted + omitted)
            case f.IterationCompleted() | f.ErrorOccurred() | f.AttemptLost() | f.AttemptCancelled():
                self._end(event, at, fact)
            case f.JudgeCompleted(status=status, result=result):
                spending = self._of(at, event).spending.plus(fact.usage)
                judged = JudgeWork(status, result.stop, result.reason, result.confidence, fact.error)
                self._change(at, judge=judged, spending=spending)

    def _begun(self, event: Event, at: Cursor, fact: f.IterationStarted) -> IterationWork:
        plan, state = self._model.plan, self._model.state
        node = plan.stage(at.node_path, at.provider) if plan else None
        stage = state.stage(at.provider) if state else None
        place = place_of(plan, state, at.provider, stage) if plan and state and stage else None
        folder = f"{place.folder}/iterations/{at.iteration:03d}" if place else ""
        id = node.id if node else fact.stage
        return IterationWork(
            at.node_path, id, at.node_run, at.iteration, event.at, at.provider, folder=folder
        )

    def _of(self, at: Cursor, event: Event) -> IterationWork:
        """The iteration; a damaged log may lack its start."""
        if at not in self._iterations:
            self._iterations[at] = IterationWork(
                at.node_path, at.node_path, at.node_run, at.iteration, event.at, at.provider
            )
        return self._iterations[at]

    def _start(self, event: Event, at: Cursor, fact: f.AttemptStarted) -> None:
        known = self._of(at, event)
        attempt = AttemptWork(fact.attempt, fact.provider, fact.model, event.at)
        before = known.before if known.attempts else self._tree
        self._under_way.add(at)
        self._change(at, attempts=(*known.attempts, attempt), status="running", before=before)
        others = [other for other in self._under_way if other != at and other.provider]
        for shared in (at, *others) if others and at.provider else ():
            self._change(shared, shared=True)

    def _take(self, at: Cursor, fact: f.TreeTaken) -> None:
        self._see(_valid(fact.tree))
        known = self._iterations.get(at)
        if known is None:
            return
        if fact.when == "before" and len(known.attempts) <= 1:
            self._change(at, before=self._tree)
        self._change(at, omitted=fact.omitted, problem=fact.problem)

    def _end(
        self,
        event: Event,
        at: Cursor,
        fact: f.IterationCompleted | f.ErrorOccurred | f.AttemptLost | f.AttemptCancelled,
    ) -> None:
        known = self._of(at, event)
        self._under_way.discard(at)
        if getattr(fact, "started", True):
            self._see(_valid(fact.tree))
        status, error = _status(fact), _error(fact)
        attempts = tuple(
            replace(attempt, status=status, ended_at=event.at, error=error)
            if attempt.number == fact.attempt
            else attempt
            for attempt in known.attempts
        )
        self._change(at, attempts=attempts, status=status, ended_at=event.at, after=self._tree)
        if isinstance(fact, f.IterationCompleted | f.ErrorOccurred):
            self._change(at, spending=known.spending.plus(fact.usage))
        if isinstance(fact, f.IterationCompleted):
            self._change(
                at,
                result=fact.result,
                reason=fact.reason,
                duration_seconds=fact.duration_ms / 1000,
                folder=known.folder or posixpath.dirname(fact.result_file),
                text=fact.text,
            )

    def _see(self, tree: str | None) -> None:
        self._tree = tree
        if tree is not None:
            self.trees = RunTrees(self.trees.first or tree, tree)

    def _change(self, at: Cursor, **changes: object) -> None:
        self._iterations[at] = replace(self._iterations[at], **changes)


def fold_work(events: Iterable[Event]) -> WorkFold:
    fold = WorkFold()
    for event in events:
        fold.apply(event)
    return fold


def _valid(tree: str | None) -> str | None:
    """A log may have come with a repository."""
    return tree if tree is not None and is_tree_id(tree) else None


def _status(fact: f.AnyFact) -> WorkStatus:
    match fact:
        case f.IterationCompleted():
            return "completed"
        case f.AttemptLost():
            return "lost"
        case f.AttemptCancelled():
            return "cancelled"
        case _:
            return "failed"


def _error(fact: f.AnyFact) -> str:
    match fact:
        case f.ErrorOccurred(kind=kind, message=message):
            return f"{kind.value}: {message}"
        case f.AttemptLost(reason=reason) | f.AttemptCancelled(reason=reason):
            return reason
        case _:
            return ""


class IterationView(Struct, frozen=True):
    stage: str
    branch: str | None
    path: str
    visit: int
    iteration: int
    status: WorkStatus
    started_at: datetime
    ended_at: datetime | None
    duration_seconds: float | None
    decision: Decision | None
    summary: str
    reason: str
    result: Result | None
    attempts: tuple[AttemptWork, ...]
    judge: JudgeWork | None
    cost_usd: float | None
    """None if no agent reported its cost."""
    unpriced_models: tuple[str, ...]
    input_tokens: int
    output_tokens: int
    changed: tuple[FileChange, ...] | None
    """None if unknown."""
    changed_by_others: bool
    """Whether other branches worked on the same files at the same time."""
    tree_before: str | None
    tree_after: str | None
    tree_problem: str
    git_left: tuple[LeftInGit, ...]
    """What its confined programs left for git."""


def iteration_view(work: IterationWork, changes: Changes | None) -> IterationView:
    result, spent = work.result, work.spending
    return IterationView(
        stage=work.stage,
        branch=work.branch,
        path=work.path,
        visit=work.visit,
        iteration=work.iteration,
        status=work.status,
        started_at=work.started_at,
        ended_at=work.ended_at,
        duration_seconds=work.duration_seconds,
        decision=result.decision if result else None,
        summary=result.summary if result else "",
        reason=work.reason,
        result=result,
        attempts=work.attempts,
        judge=work.judge,
        cost_usd=spent.cost_usd or None,
        unpriced_models=spent.unpriced,
        input_tokens=spent.input_tokens,
        output_tokens=spent.output_tokens,
        changed=changes.files if changes else None,
        changed_by_others=work.shared,
        tree_before=work.before,
        tree_after=work.after,
        tree_problem=work.problem,
        git_left=work.git_left,
    )
