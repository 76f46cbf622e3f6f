"""What the trees of a git repository and those of a plain folder share: limits, errors and comparison."""

import threading
import time
from abc import ABC, abstractmethod
from itertools import islice

from agentforge.adapters.host.git_objects import UNREADABLE, GitObjects
from agentforge.adapters.host.tree_scan import DEFAULT_LIMITS, HashedFile, TooMuch, TreeLimits
from agentforge.model.errors import StorageFailed
from agentforge.model.secrets import Redactor
from agentforge.ports.tree import NoTree, TakenTree, is_tree_id


class ScannedTrees(ABC):
    def __init__(
        self,
        project: str,
        folder: str,
        redactor: Redactor,
        limits: TreeLimits = DEFAULT_LIMITS,
        *,
        without: frozenset[str] = frozenset(),
    ) -> None:
        """`folder`: where the objects are kept, in the folder of the run. `without`: paths of files that are
        not in the trees."""
        self._project = project
        self._folder = folder
        self._redactor = redactor
        self._limits = limits
        self._without = without
        self._hashed: dict[str, HashedFile] = {}
        self._too_much = ""
        self._lock = threading.Lock()

    def take(self) -> TakenTree | NoTree:
        with self._lock:
            try:
                deadline = time.monotonic() + self._limits.seconds
                return NoTree(self._too_much) if self._too_much else self._take(deadline)
            except TooMuch as reached:
                self._too_much = str(reached)
                return NoTree(self._too_much)
            except StorageFailed as error:
                return NoTree(error.message)
            except OSError as error:
                return NoTree(f"can't read the project: {error.strerror or error}")

    def changed(self, before: str, after: str, limit: int) -> tuple[str, ...] | NoTree:
        for id in (before, after):
            if not is_tree_id(id):
                return NoTree(f"{id[:80]!r} is not the id of a tree")
        objects = GitObjects(self._folder, "sha256" if len(before) == 64 else "sha1")
        try:
            return tuple(islice(objects.changed(before, after), limit))
        except UNREADABLE as error:
            return NoTree(f"the trees can't be compared: {error}")

    def _is_left_out(self, path: str) -> bool:
        """Whether it is not wanted, or contains a secret."""
        return path in self._without or self._redactor.text(path) != path

    @abstractmethod
    def _take(self, deadline: float) -> TakenTree | NoTree:
        """May raise TooMuch, StorageFailed and OSError."""
