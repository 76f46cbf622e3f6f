"""Reserves in the ledger of the day what attempts and judges may spend, and settles what they spent."""

import logging
from collections.abc import Callable

from agentforge.model import facts as f
from agentforge.model.errors import StorageFailed
from agentforge.model.task import AgentTask, JudgeTask, LedgerTask, ledger_key
from agentforge.ports.ledger import Ledger, Reservation
from agentforge.runtime.tasks.call import TaskReport
from agentforge.runtime.tasks.performer import Performer

log = logging.getLogger("agentforge.run")


class RunLedger:
    """The ledger, as one run uses it."""

    def __init__(self, ledger: Ledger, run: str, folder: str, release: Callable[[], bool]) -> None:
        """`release`: settles what dead runs have left; returns whether there was anything."""
        self._ledger = ledger
        self._run = run
        self._folder = folder
        self._release = release

    def do(self, task: LedgerTask) -> f.LedgerAnswered:
        asked = Reservation(self._run, task.id, task.most_usd, self._folder)
        answer = self._ledger.reserve(asked, task.least_usd, task.cap_on)
        if not answer.granted_usd and self._release():
            answer = self._ledger.reserve(asked, task.least_usd, task.cap_on)
        return f.LedgerAnswered(task.id, task.run_usd, answer)

    def settle(self, task: AgentTask | JudgeTask, outcome: f.AnyFact) -> None:
        """Before the outcome is recorded: after a crash in between, it is found and settled once more."""
        reserved = task.budget.cost_usd if task.budget else None
        usd = spent_usd(outcome, reserved or 0.0)
        try:
            self._ledger.settle(self._run, ledger_key(task.cursor, task.attempt, task.KIND), usd)
        except StorageFailed as error:
            log.warning("what an attempt reserved of the day counts as spent: %s", error.message)


def spent_usd(outcome: f.AnyFact, reserved: float) -> float:
    """What counts against the cap of the day."""
    if not isinstance(outcome, f.TaskOutcome) or not outcome.started:
        return 0.0
    cost = outcome.usage.cost_usd if outcome.usage else None
    return reserved if cost is None else cost


class AllowAll:
    """Without a ledger, as in a replay."""

    def do(self, task: LedgerTask) -> f.LedgerAnswered:
        return f.LedgerAnswered(task.id, task.run_usd, task.allowed)


class Settling:
    """Settles what the tasks of a performer spent."""

    def __init__(self, performer: Performer, ledger: RunLedger) -> None:
        self._performer = performer
        self._ledger = ledger

    async def perform(self, task: AgentTask | JudgeTask, *, fresh: bool, report: TaskReport) -> f.AnyFact:
        outcome = await self._performer.perform(task, fresh=fresh, report=report)
        self._ledger.settle(task, outcome)
        return outcome
