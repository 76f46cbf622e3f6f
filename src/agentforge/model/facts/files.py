"""Files of the project: the tree of a visit, files that are frozen and restored, visits that are undone."""

from agentforge.model.facts.fact import TaskEnding, TaskFact, TaskLost, TaskOutcome, TaskStarted, written
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.frozen import FilesAction, FilesSeen, FrozenFile


class FilesFact(TaskFact, frozen=True):
    """What all facts about one task with the files of the project name."""

    KIND = "files"

    action: FilesAction
    subject: str = ""
    """What it is for: the start or the end of a visit, or a check."""
    attempt: int = written(1)

    @property
    def about(self) -> str:
        return f"{self.action} {self.subject}".rstrip()


class FilesStarted(FilesFact, TaskStarted, frozen=True):
    """The intent to look at files of the project, or to restore some."""

    TYPE = "files_start"


class FilesPrepared(FilesFact, frozen=True):
    """What is going to be replaced, durable before the first file changes."""

    TYPE = "files_prepared"

    tree: str = ""
    """All files before."""
    paths: tuple[str, ...] = ()


class VisitTree(FilesFact, TaskOutcome, frozen=True):
    """The files of the project at the start of a visit."""

    TYPE = "visit_tree"

    tree: str | None = None
    problem: str = ""
    """Why there is no tree."""
    inexact: tuple[str, ...] = ()
    """Paths that the tree doesn't have as they are: too large, or with a secret in them."""

    @property
    def seen(self) -> FilesSeen:
        return FilesSeen(self.tree, self.problem, self.inexact)


class FilesFrozen(FilesFact, TaskOutcome, frozen=True):
    """Files that must stay as they are for the rest of the run."""

    TYPE = "files_frozen"

    stage: str = ""
    files: tuple[FrozenFile, ...] = ()
    tree: str = ""
    """It has their content."""


class FrozenVerified(FilesFact, TaskOutcome, frozen=True):
    """All frozen files are as they must be."""

    TYPE = "frozen_verified"


class FilesRestored(FilesFact, TaskOutcome, frozen=True):
    """Frozen files that were changed, deleted or shadowed are as they must be again."""

    TYPE = "files_restored"

    paths: tuple[str, ...] = ()
    replaced: str = ""
    """The tree before: it has what was replaced."""
    count: int = 0
    """How often files were restored in the run since a person was asked about that."""


class FilesRolledBack(FilesFact, TaskOutcome, frozen=True):
    """The files that the attempts of a visit changed are as they were before."""

    TYPE = "files_rolled_back"

    paths: tuple[str, ...] = ()
    replaced: str = ""
    """The tree before: it has what was replaced."""
    to: str = ""
    """The tree at the start of the visit."""


class RollbackRefused(FilesFact, TaskOutcome, frozen=True):
    """A visit isn't undone, as files were changed by something else, or can't be restored: a person is
    asked."""

    TYPE = "rollback_refused"

    paths: tuple[str, ...] = ()
    reason: str = ""


class FilesFailed(FilesFact, TaskOutcome, frozen=True):
    """Why it couldn't be done."""

    TYPE = "files_failed"

    message: str = ""

    @property
    def failure(self) -> Failure:
        return Failure(FailureKind.FILES_UNUSABLE, self.message)


class FilesEnding(FilesFact, TaskEnding, frozen=True):
    """The intent to stop it."""

    TYPE = "files_ending"

    reason: str = written("")


class FilesLost(FilesFact, TaskLost, frozen=True):
    """It was stopped on request; it is done later."""

    TYPE = "files_lost"


AnyFilesFact = (
    FilesStarted
    | FilesPrepared
    | VisitTree
    | FilesFrozen
    | FrozenVerified
    | FilesRestored
    | FilesRolledBack
    | RollbackRefused
    | FilesFailed
    | FilesEnding
    | FilesLost
)
