"""An in-memory run: decided by the real engine, with outcomes from a past run or from a cassette.

Timers fire immediately, and the clock follows the past run's events.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from agentforge.engine.decide.files import nothing_done
from agentforge.engine.decide.run import Directive, decide
from agentforge.engine.decide.task_kinds import KINDS
from agentforge.engine.evolve.run import evolve
from agentforge.engine.nodes import NodeKey, NodeKeys, parse_key
from agentforge.engine.rehearsal.outcomes import Answers, PastReply, RequestKey, addressed
from agentforge.model import facts as f
from agentforge.model.cassette import Exchange, RecordedAnswer
from agentforge.model.course import OUTSIDE_ITERATIONS, CourseStep
from agentforge.model.cursor import Cursor
from agentforge.model.delivery import DeliveryBase, PreparedDelivery
from agentforge.model.event import Event
from agentforge.model.plan import Plan
from agentforge.model.request import TIMER, Request
from agentforge.model.state import RunSettings, RunState, Waiver
from agentforge.model.task import (
    DeliverTask,
    FilesTask,
    LedgerTask,
    ManifestTask,
    PrepareTask,
    RepositoryTask,
    StartedTask,
    Task,
    Wait,
    Work,
)

MAX_EVENTS_PER_EXCHANGE = 20
"""The maximum number of events that one exchange causes."""
NO_TREE = "0" * 40


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


def _own_answer(task: Task) -> f.AnyFact | None:
    """The outcome of a task that needs no recorded outcome, or None."""
    match task:
        case PrepareTask(node=node):
            return f.IterationStarted(node.id, node.stage, node.provider.type, node.provider.model, "")
        case ManifestTask():
            return f.ManifestWritten("")
        case LedgerTask():
            return f.LedgerAnswered(task.id, task.run_usd, task.allowed)
        case RepositoryTask():
            return f.RepositorySeen(DeliveryBase(tree=NO_TREE))
        case DeliverTask(step="prepare", ending=False):
            return f.DeliverCompleted("prepare", task.attempt, PreparedDelivery())
        case FilesTask():
            return nothing_done(task)
        case StartedTask(ending=True):
            stopped = KINDS[task.KIND].stopped
            return stopped(**task.names) if stopped else None
        case _:
            return None


def step_of_fact(fact: f.AnyFact, place: NodeKey | None, cursor: Cursor | None) -> CourseStep | None:
    """The course step of a fact, or None."""
    step = fact.step()
    if step is None:
        return None
    # By the node's name and not by its path: another plan may have it elsewhere.
    stage, branch, visit = _where(place, cursor)
    iteration = cursor.iteration if cursor and step.what not in OUTSIDE_ITERATIONS else step.iteration
    return replace(step, stage=stage, branch=branch, visit=visit, iteration=iteration)


def step_of_work(work: Work, place: NodeKey | None) -> CourseStep | None:
    """The course step that running this work leads to, or None."""
    if isinstance(work, Wait):
        return None
    step, where = KINDS[work.KIND].step, _where(place, work.cursor)
    detail = f"{work.KIND} {work.label}".rstrip() if step == "task" else work.label
    return CourseStep(step, *where, work.iteration, work.attempt, detail)


def _where(place: NodeKey | None, cursor: Cursor | None) -> tuple[str, str | None, int]:
    name = place.name if place else ""
    return (name, cursor.provider, cursor.node_run) if cursor else (name, None, 1)


# -- the events of a recording


def enact(
    plan: Plan,
    exchanges: Sequence[Exchange],
    *,
    plateau_test: bool = False,
    waivers: tuple[Waiver, ...] = (),
) -> list[Event]:
    """The events, as far as the exchanges reach. Raises ValueError if an exchange has no outcome."""
    at, session = plan.compiled_at, plan.session.name
    settings = RunSettings(delay=0.0, plateau_test=plateau_test)
    started = f.SessionStarted(
        plan.mode, session, plan, "", settings=settings, format=f.LOG_FORMAT, waivers=waivers
    )
    first = Event(1, at, session, session, started, Cursor("0", 0, 0))
    answers = Answers()
    for exchange in exchanges:
        key = parse_key(exchange.node, exchange.branch, exchange.stage)
        if exchange.answer is not None:
            answers.add_reply(*reply_of(exchange, exchange.answer))
            continue
        cursor = Cursor("", 1, exchange.iteration)
        answers.add(key, Event(0, at, session, session, outcome_of(exchange), cursor))
    run = RehearsedRun(plan, evolve(None, first))
    run.advance(answers, MAX_EVENTS_PER_EXCHANGE * (len(exchanges) + len(plan.steps) * plan.passes) + 100)
    return [first, *run.events]


def reply_of(exchange: Exchange, given: RecordedAnswer) -> tuple[RequestKey, PastReply]:
    """A recorded answer, and which request it is for. The request gets its id when it is opened."""
    place = parse_key(exchange.node, exchange.branch, exchange.stage)
    key = (place, exchange.iteration, exchange.attempt or 0, given.reason, given.subject)
    waived = tuple(f.Waived(each.check, each.reason, each.by, each.stage) for each in given.waivers)
    return key, PastReply(f.RequestAnswered("", given.answer, given.by, text=given.text), waived)


def outcome_of(exchange: Exchange) -> f.AnyFact:
    if exchange.kind == "queue" and exchange.remaining is not None:
        return f.QueueChecked(exchange.remaining)
    outcome = exchange.outcome
    kind = f.FACTS.get(outcome.type) if outcome else None
    if outcome is None or kind is None:
        raise ValueError(f"iteration {exchange.iteration} of {exchange.stage!r} has no recorded outcome")
    try:
        return msgspec.convert({**outcome.data, "attempt": exchange.attempt}, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(
            f"the outcome of iteration {exchange.iteration} of {exchange.stage!r} is invalid: {error}"
        ) from error
