"""The iterations of a run: attempts, result, judge, spending and trees of each, as far as it got."""

import posixpath
from datetime import datetime
from typing import Any, Literal, assert_never

from msgspec import Struct
from msgspec.structs import asdict, replace

from agentforge.model import facts as f
from agentforge.model.artifact import Artifact, ContextUse
from agentforge.model.changes import Changes, LeftInGit
from agentforge.model.event import Event
from agentforge.model.place import visits_key
from agentforge.model.result import Result
from agentforge.model.spending import Spending
from agentforge.views.spending import usage_json

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
    item: str = ""
    """The item that it is about."""
    item_status: Literal["", "done", "failed"] = ""
    """How its item ended with it; empty: it didn't end."""
    item_reason: str = ""
    """Why the item failed."""
    artifact: Artifact | None = None
    """The one that was accepted."""
    context: ContextUse | None = None
    """How much it was given, if the stage has a context strategy or a budget."""
    tree_before: str | None = None
    """The tree of the project's files before the first attempt; None if unknown."""
    tree_after: str | None = None
    """The tree after the last attempt that ended."""
    tree_problem: str = ""
    """Why a tree is unknown."""
    omitted: int = 0
    """How many files were too large for the trees."""
    changed_by_others: bool = False
    """Whether other branches worked on the same files at the same time."""
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
    def key(self) -> str:
        """Of its stage in `RunState.items`."""
        return visits_key(self.path, self.branch)

    @property
    def awaits_changes(self) -> bool:
        """Whether its changes will be known when it has ended."""
        return self.status == "running" and self.tree_before is not None and not self.tree_problem


EndOfAttempt = f.IterationCompleted | f.ErrorOccurred | f.AttemptLost | f.AttemptCancelled
IterationFact = (
    f.IterationStarted
    | f.AttemptStarted
    | f.TreeTaken
    | f.GitLeft
    | f.JudgeCompleted
    | f.ItemEnded
    | EndOfAttempt
)


def worked(work: IterationWork, event: Event, fact: IterationFact, tree: str | None) -> IterationWork:
    """The iteration after one more event; `tree`: the latest of the project's files, None if unknown."""
    match fact:
        case f.IterationStarted():
            return work
        case f.AttemptStarted():
            attempt = AttemptWork(fact.attempt, fact.provider, fact.model, event.at)
            before = work.tree_before if work.attempts else tree
            return replace(work, attempts=(*work.attempts, attempt), status="running", tree_before=before)
        case f.TreeTaken():
            # What an earlier attempt changed is part of what the iteration changed.
            is_first = fact.when == "before" and len(work.attempts) <= 1
            before = tree if is_first else work.tree_before
            return replace(work, tree_before=before, omitted=fact.omitted, tree_problem=fact.problem)
        case f.GitLeft(items=items, omitted=omitted):
            left = tuple(dict.fromkeys((*work.git_left, *items)))
            return replace(work, git_left=left, git_omitted=work.git_omitted + omitted)
        case f.JudgeCompleted(status=status, result=result):
            judged = JudgeWork(status, result.stop, result.reason, result.confidence, fact.error)
            return replace(work, judge=judged, spending=work.spending.plus(fact.usage))
        case f.ItemEnded(status=status, reason=reason):
            return replace(work, item_status=status, item_reason=reason)
        case f.ErrorOccurred(kind=kind, message=message):
            failed = _ended(
                work, event.at, fact.attempt, tree, status="failed", error=f"{kind.value}: {message}"
            )
            return replace(failed, spending=work.spending.plus(fact.usage))
        case f.AttemptLost(reason=reason):
            return _ended(work, event.at, fact.attempt, tree, status="lost", error=reason)
        case f.AttemptCancelled(reason=reason):
            return _ended(work, event.at, fact.attempt, tree, status="cancelled", error=reason)
        case f.IterationCompleted():
            return replace(
                _ended(work, event.at, fact.attempt, tree, status="completed"),
                spending=work.spending.plus(fact.usage),
                result=fact.result,
                reason=fact.reason,
                duration_seconds=fact.duration_ms / 1000,
                folder=work.folder or posixpath.dirname(fact.result_file),
                text=fact.text,
                artifact=fact.artifact,
            )
        case _:
            assert_never(fact)


def _ended(
    work: IterationWork, at: datetime, number: int, tree: str | None, *, status: WorkStatus, error: str = ""
) -> IterationWork:
    ended = (
        replace(attempt, status=status, ended_at=at, error=error) if attempt.number == number else attempt
        for attempt in work.attempts
    )
    return replace(work, attempts=tuple(ended), status=status, ended_at=at, tree_after=tree)


# A field is in the JSON unless it is here: what the JSON has in another form, and what leads to files.
_NOT_IN_JSON = ("spending", "folder", "text", "omitted", "git_omitted")


def iteration_json(work: IterationWork, changes: Changes | None) -> dict[str, Any]:
    """`changes`: None if unknown, as `changed` is then."""
    fields = asdict(work)
    shown = {name: value for name, value in fields.items() if name not in _NOT_IN_JSON}
    result = work.result
    return {
        **shown,
        "artifact": work.artifact and replace(work.artifact, value=None),
        "decision": result.decision if result else None,
        "summary": result.summary if result else "",
        **usage_json(work.spending),
        "changed": changes.files if changes else None,
    }
