"""Records the tree of the project's files before and after the attempts of agents.

After an attempt, its outcome carries the tree. Before one, the tree is a fact of its own, and only if
something else than the attempts changed the files: usually, the tree before is the latest one.
"""

import asyncio

from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.ports.host import Clock, NoTree, TakenTree, Trees
from agentforge.runtime.tasks.call import TaskReport

FRESH_SECONDS = 1.0
"""A tree that was recorded this recently is that before the next attempt, too."""


class TreeRecord:
    def __init__(self, trees: Trees, clock: Clock) -> None:
        self._trees = trees
        self._clock = clock
        self._latest: TakenTree | NoTree | None = None
        """As recorded last by this engine."""
        self._taken_at = 0.0

    async def before(self, attempt: int, report: TaskReport) -> None:
        """Record the tree before the agent starts, durably."""
        age = self._clock.monotonic() - self._taken_at
        if not self._trees.is_possible() or (self._latest is not None and age < FRESH_SECONDS):
            return
        before, taken = self._latest, await self._take()
        if taken != before:
            report(_fact(attempt, taken))

    async def after(self, attempt: int, outcome: f.AnyFact, report: TaskReport) -> f.AnyFact:
        """The outcome of the attempt, with its tree. Repeated after a crash, it is that of the files then."""
        if not isinstance(outcome, _OUTCOMES) or not getattr(outcome, "started", True):
            return outcome
        if not self._trees.is_possible():
            return outcome
        before = self._latest
        try:
            taken = await self._take()
        except asyncio.CancelledError:
            # The attempt has ended: its outcome counts.
            self.forget()
            return outcome
        if isinstance(taken, TakenTree):
            return replace(outcome, tree=taken.id)
        if taken != before:
            report(replace(_fact(attempt, taken), when="after"))
        return outcome

    def forget(self) -> None:
        """Something else may change the files from now on."""
        self._latest = None

    async def _take(self) -> TakenTree | NoTree:
        taken = await asyncio.to_thread(self._trees.take)
        self._latest, self._taken_at = taken, self._clock.monotonic()
        return taken


_OUTCOMES = f.IterationCompleted | f.ErrorOccurred | f.AttemptLost | f.AttemptCancelled


def _fact(attempt: int, taken: TakenTree | NoTree) -> f.TreeTaken:
    if isinstance(taken, NoTree):
        return f.TreeTaken(attempt, problem=taken.reason)
    return f.TreeTaken(attempt, tree=taken.id, omitted=taken.omitted)
