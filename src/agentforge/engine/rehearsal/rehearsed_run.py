"""An in-memory run: decided by the real engine, with outcomes from a past run.

Timers fire immediately, and the clock follows the past run's events.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec.structs import replace

from agentforge.engine.decide.run import Directive, decide
from agentforge.engine.decide.task_kinds import KINDS
from agentforge.engine.evolve.run import evolve
from agentforge.engine.node_identity import NodeKeys
from agentforge.engine.rehearsal.course import step_of_fact, step_of_work
from agentforge.engine.rehearsal.outcomes import Answers, addressed
from agentforge.model import facts as f
from agentforge.model.course import CourseStep
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.plan import Plan
from agentforge.model.request import TIMER, Request
from agentforge.model.state import RunState
from agentforge.model.task import ManifestTask, PrepareTask, StartedTask, Task, Wait, Work


class RehearsedRun:
    def __init__(self, plan: Plan, state: RunState) -> None:
        self.plan = plan
        self.keys = NodeKeys(plan)
        self.state = state
        self.now: datetime = state.updated_at
        self.events: list[Event] = []
        self.course: list[CourseStep] = []

    def decision(self) -> Directive:
        return decide(self.plan, self.state)

    def record(self, fact: f.AnyFact, cursor: Cursor | None, at: datetime | None = None) -> None:
        self.now = max(self.now, at or self.now)
        event = Event(
            self.state.seq + 1, self.now, self.state.session, self.state.run_id, fact, cursor or None
        )
        self.state = evolve(self.state, event)
        self.events.append(event)
        if step := step_of_fact(fact, self.keys.at(cursor), cursor):
            self.course.append(step)

    # The clock never goes back and is never read: a limit of time expires where it did in the past run.
    def fire(self, wait: Wait) -> None:
        # A delay between iterations takes no time here; a limit must really expire.
        self.record(f.TimerFired(wait.timer), wait.cursor, None if wait.timer == "delay" else wait.due_at)

    def advance(self, answers: Answers, max_steps: int) -> tuple[CourseStep, ...]:
        """Continue while there are recorded outcomes; return the steps that have none."""
        for _ in range(max_steps):
            decision = self.decision()
            for draft in decision.facts:
                self.record(draft.fact, draft.cursor)
            if not decision.facts and not self._continue(decision.work, answers):
                return self._open(decision.work)
        return self._open(self.decision().work)

    def _continue(self, works: Sequence[Work], answers: Answers) -> bool:
        """Take the next outcome. People answer when nothing else is left to do, and before a timeout."""
        timeouts = [work for work in works if isinstance(work, Wait) and work.timer.startswith(TIMER)]
        others = [work for work in works if work not in timeouts]
        return (
            any(self._answer(work, answers) for work in others)
            or any(self._reply(request, answers) for request in self.state.open_requests)
            or any(self._answer(work, answers) for work in timeouts)
        )

    def _reply(self, request: Request, answers: Answers) -> bool:
        facts = answers.reply(request, self.keys.at(request.at))
        for fact in facts:
            self.record(fact, request.at)
        return bool(facts)

    def _answer(self, work: Work, answers: Answers) -> bool:
        if isinstance(work, Wait):
            self.fire(work)
            return True
        event = answers.take(work, self.keys.at(work.cursor))
        fact = event.fact if event else _own_answer(work)
        if fact is not None:
            self.record(addressed(fact, work), work.recorded_at, event.at if event else None)
        return fact is not None

    def _open(self, works: Iterable[Work]) -> tuple[CourseStep, ...]:
        steps = (step_of_work(work, self.keys.at(work.cursor)) for work in works)
        return tuple(step for step in steps if step is not None)

    def renamed(self, fact: f.AnyFact, requests: dict[str, str]) -> f.AnyFact:
        """A person's answer, with the request ids of this run."""
        if isinstance(fact, f.RequestAnswered):
            return replace(fact, id=requests.get(fact.id, fact.id))
        return fact


def _own_answer(task: Task) -> f.AnyFact | None:
    """The outcome of a task that needs no recorded outcome, or None."""
    match task:
        case PrepareTask(node=node):
            return f.IterationStarted(node.id, node.stage, node.provider.type, node.provider.model, "")
        case ManifestTask():
            return f.ManifestWritten("")
        case StartedTask(ending=True):
            stopped = KINDS[task.KIND].stopped
            return stopped(**task.names) if stopped else None
        case _:
            return None
