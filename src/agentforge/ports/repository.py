"""The user's repository, as a delivery sees and changes it. Every method may be repeated after a crash."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from msgspec import Struct

from agentforge.model.delivery import DeliverRule, DeliveryBase, PreparedDelivery

MakeMessage = Callable[[Sequence[str], str], str]
"""The message of a commit: of the paths that it changes, and the tree that the run left."""


class Change(Struct, frozen=True):
    """What a run changed, and how it is to be delivered."""

    rule: DeliverRule
    base: DeliveryBase
    tree: str | None
    """The files that the run left; None: those of the project now."""
    message: MakeMessage
    date: datetime
    name: str
    """Of the branch and of the patch."""


class NotDelivered(Struct, frozen=True):
    """A step failed."""

    reason: str
    outdated: bool = False
    """Whether the repository is no longer as it was when the delivery was prepared."""


class Done(Struct, frozen=True):
    """A step is done."""

    url: str = ""
    found: bool = False
    """Whether it was done before."""


Outcome = Done | NotDelivered


class Repository(Protocol):
    def look(self) -> DeliveryBase:
        """The files and the repository now."""

    def prepare(self, change: Change) -> PreparedDelivery | NotDelivered:
        """Compare the change with the repository, and write the commit, to which nothing refers yet."""

    def commit(self, prepared: PreparedDelivery, accepted: Sequence[str]) -> Outcome:
        """Let the branch refer to the commit, and update the index at its paths; without a commit, only the
        index. Done again, it changes nothing."""

    def patch(self, prepared: PreparedDelivery) -> Outcome:
        """Write the patch to its file."""

    def is_committed(self, prepared: PreparedDelivery) -> bool:
        """Whether the branch has the commit."""

    def push(self, prepared: PreparedDelivery, mark: Mapping[str, str]) -> Outcome:
        """Push the branch, which must not exist there with another commit. `mark`: variables that identify
        the programs that it starts."""

    def is_pushed(self, prepared: PreparedDelivery, mark: Mapping[str, str]) -> bool:
        """Whether the remote branch has the commit."""

    def open_request(self, prepared: PreparedDelivery, body: str, mark: Mapping[str, str]) -> Outcome:
        """Open a pull request for the branch, unless there is one."""

    def has_request(self, prepared: PreparedDelivery, mark: Mapping[str, str]) -> bool:
        """Whether there is a pull request for the branch."""
