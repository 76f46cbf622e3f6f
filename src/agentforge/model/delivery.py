"""The delivery of what a run changed: as a commit, a patch or a pull request."""

from datetime import datetime
from typing import Literal

from msgspec import Struct

DeliveryMode = Literal["commit", "files", "patch", "pr"]
DeliveryStep = Literal["prepare", "commit", "patch", "push", "pull_request"]
DeliveredStatus = Literal[
    "committed", "staged", "files", "patched", "pull_request", "no_changes", "not_delivered"
]
ProblemKind = Literal["tree", "changed", "content", "busy", "branch", "moved", "edited"]
"""Why a person is asked, in the order of asking. `moved` and `edited` may be accepted."""

STEPS: dict[DeliveryMode, tuple[DeliveryStep, ...]] = {
    "files": ("prepare",),
    "patch": ("prepare", "patch"),
    "commit": ("prepare", "commit"),
    "pr": ("prepare", "commit", "push", "pull_request"),
}
NEEDS_GIT: frozenset[DeliveryMode] = frozenset({"commit", "patch", "pr"})
BRANCH_PREFIX = "feature/"
MAX_LISTED = 100
"""Paths of a change that its facts name."""


class DeliverRule(Struct, frozen=True, omit_defaults=True):
    """How a stage delivers."""

    mode: DeliveryMode = "commit"
    auto_commit: bool = True
    """With `commit`: False only stages the change."""
    message: str | None = None
    """The subject of the commit; by default made of the request."""
    branch_prefix: str = BRANCH_PREFIX
    """With `pr`: the beginning of the branch's name."""

    @property
    def steps(self) -> tuple[DeliveryStep, ...]:
        return STEPS[self.mode]


class DeliveryBase(Struct, frozen=True, omit_defaults=True):
    """The project and its repository when the run started."""

    tree: str = ""
    """Its files; empty if they couldn't be recorded."""
    head: str = ""
    """The commit; empty before the first one, and without git."""
    ref: str = ""
    """The full name of the branch, or `HEAD` without one."""
    remote: str = ""
    """The name of the remote repository of that branch; empty without one."""
    address: str = ""
    omitted: dict[str, str] = {}
    """What tells the files that are too large for a tree from later ones, by path."""
    problem: str = ""
    """Why nothing can be delivered later."""


class DeliveryProblem(Struct, frozen=True, omit_defaults=True):
    """Why a change isn't delivered without asking."""

    kind: ProblemKind
    id: str
    """Identifies it: what a person accepts is this one, not a later one of its kind."""
    text: str
    """A sentence without its end."""
    paths: tuple[str, ...] = ()
    """At most MAX_LISTED."""


class PreparedDelivery(Struct, frozen=True, omit_defaults=True):
    """A change as it is going to be delivered."""

    tree: str = ""
    """The files that the run left."""
    paths: tuple[str, ...] = ()
    """That change; at most MAX_LISTED."""
    count: int = 0
    """Of all paths."""
    head: str = ""
    """The commit that it is for; empty before the first one."""
    ref: str = ""
    """The full name of the branch that the commit is for, or `HEAD` without one."""
    commit: str = ""
    """The commit, written to the repository, with no reference to it yet; empty if none is made."""
    staged: str = ""
    """The tree of the commit, with the change in place of what the branch has."""
    base_branch: str = ""
    """With `pr`: the branch that the pull request is for."""
    remote: str = ""
    """With `pr`: the remote repository."""
    address: str = ""
    title: str = ""
    """The subject of the commit."""
    file: str = ""
    """Of the patch, relative to the project."""
    problems: tuple[DeliveryProblem, ...] = ()


class DeliveredWork(Struct, frozen=True, omit_defaults=True):
    """What a stage delivered."""

    mode: DeliveryMode
    status: DeliveredStatus
    commit: str = ""
    branch: str = ""
    """Without `refs/heads/`; empty for a detached HEAD."""
    url: str = ""
    """Of the pull request."""
    patch: str = ""
    """The file, relative to the project."""
    paths: tuple[str, ...] = ()
    """What changed; at most MAX_LISTED."""
    count: int = 0
    tree: str = ""


class DeliveryState(Struct, frozen=True):
    """How far a stage has got with its delivery."""

    prepared: PreparedDelivery | None = None
    number: int = 0
    """How often it was prepared."""
    accepted: tuple[str, ...] = ()
    """The ids of the problems that a person accepted; at most one of each kind."""
    done: tuple[DeliveryStep, ...] = ()
    effect: DeliveryStep | None = None
    """The step with an effect that was intended and not closed."""
    number_of_effect: int = 0
    """Its try."""
    found: bool = False
    """Whether that effect was found after a crash, instead of being performed again."""
    url: str = ""
    status: DeliveredStatus | None = None
    """Set when it is over."""
    since: datetime | None = None
    """When it was first prepared."""
