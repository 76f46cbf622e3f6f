"""Runs that fail as often as the engine allows, with the time that they take.

`Opponent` plays agents, judges, checks and hooks at random. `Worst` looks one event ahead: it fails while
that leads to another try, then succeeds, and goes back while a route is left. People approve, reject and
answer, and grant nothing.
"""

from collections import Counter
from datetime import datetime, timedelta
from random import Random

from tests.engine.plans import NOON, RUN_ID, SESSION, started

from agentforge.engine.decide.checks import DEFAULT_CYCLES, cycle_limits
from agentforge.engine.decide.people import MAX_QUESTION_ROUNDS
from agentforge.engine.decide.run import decide
from agentforge.engine.decide.stage_at import check_timeout
from agentforge.engine.decide.termination import JUDGE_TIMEOUT, QUEUE_TIMEOUT
from agentforge.engine.evolve.checks import route_key
from agentforge.engine.evolve.run import evolve
from agentforge.engine.items import Element, elements_of, planned
from agentforge.engine.legal import refuse_illegal
from agentforge.engine.nodes import entry, siblings
from agentforge.model import facts as f
from agentforge.model.check import Baseline
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.failure import LIMITS, FailureKind
from agentforge.model.hook import CALL_POINTS
from agentforge.model.plan import Plan, StageNode
from agentforge.model.request import Request
from agentforge.model.result import AgentQuestion, Decision, Result, Usage
from agentforge.model.spending import UNITS, Amount
from agentforge.model.state import RunSettings, RunState, StageState
from agentforge.model.status import FINAL
from agentforge.model.task import (
    AgentTask,
    CheckTask,
    HookTask,
    ItemsTask,
    JudgeTask,
    ManifestTask,
    PrepareTask,
    QueueTask,
    Task,
    Wait,
    Work,
)

MAX_TURNS = 20_000
UNLIMITED = 5_000.0
"""How long it takes what has no time limit."""
_KINDS = [kind for kind in FailureKind if kind not in {*LIMITS, FailureKind.CAP_REACHED}]


class FailingRun:
    """A run in which work takes as long as it may, branches at the same time."""

    def __init__(self, plan: Plan, settings: RunSettings | None = None) -> None:
        self.plan = plan
        self.now: datetime = NOON
        self.events: list[Event] = []
        self.counts: Counter[str] = Counter()
        self._state: RunState | None = None
        self._due: dict[str, datetime] = {}
        self.record(started(plan, settings), Cursor("0", 0, 0))

    @property
    def state(self) -> RunState:
        assert self._state is not None
        return self._state

    @property
    def seconds(self) -> float:
        return (self.now - NOON).total_seconds()

    def event(self, fact: f.AnyFact, cursor: Cursor | None) -> Event:
        return Event(len(self.events) + 1, self.now, SESSION, RUN_ID, fact, cursor)

    def record(self, fact: f.AnyFact, cursor: Cursor | None) -> None:
        refuse_illegal(self._state, fact, cursor)
        event = self.event(fact, cursor)
        self.events.append(event)
        self._state = evolve(self._state, event)
        counted = {
            f.IterationStarted: "iterations",
            f.AttemptStarted: "attempts",
            f.JudgeStarted: "judgments",
        }
        self.counts[counted.get(type(fact), "other")] += 1

    def play(self) -> None:
        """Until it ends, or only people could let it continue."""
        for _ in range(MAX_TURNS):
            decision = decide(self.plan, self.state)
            for draft in decision.facts:
                self.record(draft.fact, draft.cursor)
            if decision.facts:
                continue
            if self.state.status in FINAL or not (self._answered() or self._turn(decision.work)):
                return
        raise AssertionError("the run doesn't end")

    def _answered(self) -> bool:
        for request in self.state.open_requests:
            if answer := self._reply(request):
                text = "Shorter." if answer == "reject" else ""
                self.record(f.RequestAnswered(request.id, answer, "person", text), request.at)
                return True
        return False

    def _reply(self, request: Request) -> str:
        match request.kind:
            case "approval":
                return self.approval(request)
            case "checkpoint":
                return "approve"
            case "pause":
                return "continue"
            case "question":
                return "yes"
            case _:
                return ""

    def approval(self, request: Request) -> str:
        raise NotImplementedError

    def outcome(self, work: Task) -> f.AnyFact:
        raise NotImplementedError

    def duration(self, work: Work) -> float:
        match work:
            case AgentTask():
                at = self.stage(work)
                attempt = at.iteration.attempt if at.iteration else None
                timeout = attempt.timeout if attempt else None
                return UNLIMITED if timeout is None else timeout
            case JudgeTask():
                return JUDGE_TIMEOUT
            case CheckTask(check=check):
                timeout = self.stage(work).calls["check"].timeout
                assert timeout is not None
                return min(timeout, check_timeout(check))
            case QueueTask():
                return QUEUE_TIMEOUT
            case HookTask(hook=hook):
                if hook.point in CALL_POINTS:
                    return 0.0  # In place of a person.
                return UNLIMITED if hook.seconds is None else hook.seconds
            case _:
                return 0.0

    def _turn(self, works: tuple[Work, ...]) -> bool:
        """What ends first; False if nothing is under way."""
        works = tuple(
            work for work in works if not (isinstance(work, Wait) and work.timer.startswith("request:"))
        )
        if not works:
            return False
        known = {work.id: work for work in works}
        self._due = {id: due for id, due in self._due.items() if id in known}
        for id, work in known.items():
            takes = timedelta(seconds=self.duration(work))
            self._due.setdefault(id, work.due_at if isinstance(work, Wait) else self.now + takes)
        first = min(known, key=lambda id: self._due[id])
        self.now, work = max(self.now, self._due.pop(first)), known[first]
        fact = f.TimerFired(work.timer) if isinstance(work, Wait) else self.outcome(work)
        at = work.recorded_at or (self.state.cursor if isinstance(work, Wait) else None)
        if isinstance(fact, f.IterationCompleted) and work.cursor and work.cursor.provider:
            self.record(f.WorkerCompleted("result.json", 0), work.cursor)
        self.record(fact, at)
        return True

    def stage(self, work: Work) -> StageState:
        found = self.state.stage(work.cursor.provider if work.cursor else None)
        assert found is not None
        return found

    def node(self, work: Work) -> StageNode:
        assert work.cursor is not None
        found = self.plan.stage(work.cursor.node_path, work.cursor.provider)
        assert found is not None
        return found

    def reserved(self, work: AgentTask | JudgeTask) -> Amount:
        """What the work may spend."""
        tasks = dict(self.stage(work).tasks)
        return tasks["agent" if isinstance(work, AgentTask) else "judge"].reserved or Amount()

    def simple(self, work: Task) -> f.AnyFact | None:
        match work:
            case PrepareTask():
                item = work.item.id if work.item else ""
                return f.IterationStarted("x", "x", "claude", "opus", "0" * 64, item=item)
            case ItemsTask(node=node):
                steps = [{"id": f"i{n}"} for n in range(node.termination.max)]
                found = elements_of({"steps": steps}, "steps", len(steps))
                names = tuple(check.name for check in node.checks if check.criteria)
                elements = [one for one in found if isinstance(one, Element)]
                known, told, run = work.known, work.feedback, work.place.run
                return planned(elements, known, told, run, "0" * 64, checks_of=lambda _: names)
            case ManifestTask():
                return f.ManifestWritten("manifest.json")
            case _:
                return None


def used(of: Amount, share: float) -> Usage:
    cost = None if of.cost_usd is None else of.cost_usd * share
    return Usage(input_tokens=int((of.tokens or 0) * share), output_tokens=0, cost_usd=cost)


def completed(
    work: AgentTask, decision: Decision, usage: Usage | None, verdict: str = "", items: tuple[str, ...] = ()
) -> f.AnyFact:
    result = Result(decision=decision)
    if verdict:
        result = Result(decision=decision, verdict=verdict, items=items)
    if decision is Decision.ASK:
        question = AgentQuestion(
            "q", f"What of {work.iteration}?", default="a", blocking=work.iteration % 2 == 0
        )
        result = Result(decision=decision, questions=(question,))
    return f.IterationCompleted("x", work.attempt, decision, "", "result.json", result, 10, usage=usage)


def checked(work: CheckTask, status: str, number: int, *, changed: bool = False) -> f.AnyFact:
    signatures = (f"failure {number}",) if status == "fail" else ()
    return f.CheckCompleted(
        work.check.name,
        work.attempt,
        status,  # type: ignore[arg-type]
        signatures=signatures,
        tree_after=f"t{number}",
        baseline=work.baseline,
        found=Baseline() if work.baseline else None,
        changed=("a.py",) if changed else (),
        problem="terminated" if status == "error" else None,
    )


class Opponent(FailingRun):
    """Anything may happen, mostly failures."""

    def __init__(self, plan: Plan, luck: Random, settings: RunSettings | None = None) -> None:
        self.luck = luck
        super().__init__(plan, settings)

    def approval(self, _: Request) -> str:
        return self.luck.choice(["approve", "reject", "reject"])

    def duration(self, work: Work) -> float:
        return self.luck.choice([0.0, 1.0, 1.0]) * super().duration(work)

    def outcome(self, work: Task) -> f.AnyFact:
        choose = self.luck.choice
        usage = None
        if isinstance(work, AgentTask | JudgeTask):
            usage = choose([None, used(self.reserved(work), choose([0.0, 0.5, 1.0, 1.0]))])
        match work:
            case AgentTask(attempt=attempt):
                if choose([True, True, False]):
                    frequent = [FailureKind.PROVIDER_TIMEOUT, FailureKind.ARTIFACT_INVALID]
                    return f.ErrorOccurred(
                        choose([*frequent * 20, *_KINDS]), "it went wrong", "x", attempt, usage=usage
                    )
                node = self.node(work)
                words = [*(route.verdict for route in node.routes), "pass", ""]
                decision = choose([Decision.CONTINUE, Decision.CONTINUE, Decision.STOP, Decision.ASK])
                return completed(work, decision, usage, choose(words), choose([(), ("i0",)]))
            case JudgeTask(attempt=attempt):
                reason = choose(["invoke_failed", "invoke_failed", "invalid_json", ""])
                status = "failed" if reason else "success"
                said = f.JudgeResult(choose([True, False, False]) and not reason, reason)
                return f.JudgeCompleted(status, said, attempt, usage)  # type: ignore[arg-type]
            case CheckTask():
                status = choose(["pass", "fail", "fail", "error", "timeout"])
                return checked(work, status, len(self.events), changed=choose([True, False, False]))
            case QueueTask():
                return f.QueueChecked(choose([0, 1, 1, 1]))
            case HookTask():
                of = (work.hook.id, work.hook.point, work.delivery, work.attempt)
                said = choose(
                    ["continue", "restart_stage", "restart_stage", "modify_context", "pause", "failed"]
                )
                if said == "failed":
                    return f.HookFailed(*of, message="no answer", retry=choose([True, True, False]))
                return f.HookCompleted(*of, action=said)
            case _:
                fact = self.simple(work)
                assert fact is not None
                return fact


class Worst(FailingRun):
    """The most that the limits of the plan allow."""

    def approval(self, request: Request) -> str:
        at = request.at
        assert at is not None
        node, stage = self.plan.stage(at.node_path, at.provider), self.state.stage(at.provider)
        assert node is not None
        assert stage is not None
        rounds = node.approve.rounds if node.approve else 0
        return "reject" if stage.round < rounds else "approve"

    def outcome(self, work: Task) -> f.AnyFact:
        match work:
            case AgentTask():
                return self._attempt(work)
            case JudgeTask(attempt=attempt):
                usage = self._usage(work)
                if self.stage(work).judge_tries:
                    said = f.JudgeResult(stop=False, reason="go on")
                    return f.JudgeCompleted("success", said, attempt, usage)
                said = f.JudgeResult(stop=False, reason="invoke_failed")
                return f.JudgeCompleted("failed", said, attempt, usage)
            case CheckTask():
                at = self.stage(work)
                is_first = bool(at.item) and at.item_tries < 2
                return checked(work, "fail" if is_first else "pass", len(self.events))
            case QueueTask():
                return f.QueueChecked(1)
            case HookTask():
                return f.HookCompleted(
                    work.hook.id, work.hook.point, work.delivery, work.attempt, action="continue"
                )
            case _:
                fact = self.simple(work)
                assert fact is not None
                return fact

    def _usage(self, work: AgentTask | JudgeTask) -> Usage:
        """All that it may spend; nothing below a cap, so that all others can start."""
        reserved = self.reserved(work)
        for unit in UNITS:
            if any(place.caps.of(unit) is not None for place in self.plan.caps):
                reserved = reserved.with_unit(unit, 0)
        return used(reserved, 1.0)

    def _attempt(self, work: AgentTask) -> f.AnyFact:
        usage = self._usage(work)
        for follows in (f.RetryScheduled, f.StageRetried, f.ProviderChanged):
            for kind in (
                FailureKind.PROVIDER_TIMEOUT,
                FailureKind.ARTIFACT_INVALID,
                FailureKind.RESULT_INVALID,
            ):
                failed = f.ErrorOccurred(kind, "it went wrong", "x", work.attempt, usage=usage)
                if kind is FailureKind.ARTIFACT_INVALID and not self.node(work).artifact:
                    continue
                then = decide(self.plan, evolve(self.state, self.event(failed, work.recorded_at)))
                if any(isinstance(draft.fact, follows) for draft in then.facts):
                    return failed
        if self.stage(work).asked < MAX_QUESTION_ROUNDS:
            return completed(work, Decision.ASK, usage)
        return completed(work, Decision.CONTINUE, usage, self._verdict(work))

    def _verdict(self, work: AgentTask) -> str:
        """What leads back the shortest way; `pass` if no route back is left."""
        node, at, cursor = self.node(work), self.stage(work), work.cursor
        assert cursor is not None
        rounds = node.approve.rounds if node.approve and not self.state.settings.approve else 1
        if at.item or at.round < rounds:
            return "pass"
        order = siblings(self.plan, cursor.node_path, cursor.provider)
        limit = cycle_limits(self.plan.pipeline, node).cycles or DEFAULT_CYCLES
        found = {}
        for route in node.routes:
            to = order.index(route.to) if route.action == "go" else len(order)
            if route.verdict == "pass" or to > order.index(node.id):
                continue
            path, _ = entry(self.plan, work.place, to, self.state.rounds)
            known = self.state.cycles.get(route_key(cursor.node_path, cursor.provider, path))
            if (known.taken if known else 0) + 2 <= limit:
                found[to] = route.verdict
        return found[max(found)] if found else "pass"
