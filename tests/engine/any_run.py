"""Hypothesis: whole runs, as the driver would have recorded them, in a world that answers anything.

`any_run` keeps to the known plans and to what the engine decides. `any_wild_run` takes place on any plan:
nodes lead back to earlier ones as a router may have it, and questions are asked that later parts of the
engine will ask. In both, people answer what they like in any order.
"""

from datetime import timedelta
from itertools import count
from typing import get_args

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from tests.engine.plans import NOON, RUN_ID, SESSION, block, nested, plan_of, stage, started

from agentforge.engine.decide.files import nothing_done
from agentforge.engine.decide.run import Directive as Decided
from agentforge.engine.decide.run import decide
from agentforge.engine.evolve.run import evolve
from agentforge.engine.items import Element, elements_of, planned
from agentforge.engine.legal import refuse_illegal
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.check import Check
from agentforge.model.condition import ConstantTerm, Operation, VariableTerm
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.errors import IllegalMove
from agentforge.model.event import Event
from agentforge.model.failure import FailureKind
from agentforge.model.frozen import FrozenFile
from agentforge.model.hook import POINTS, Hook, HookOutcome
from agentforge.model.plan import (
    Approval,
    ArtifactSource,
    Fixed,
    InputSources,
    Items,
    Judgment,
    LimitPolicy,
    Limits,
    Node,
    Plan,
    ProviderChoice,
    Queue,
    RetryPolicy,
    Route,
    Semantics,
    StageNode,
)
from agentforge.model.request import Request
from agentforge.model.result import AgentQuestion, Decision, Result, Signals
from agentforge.model.spending import DailyAnswer
from agentforge.model.state import MACHINE_SHUTDOWN, RunState
from agentforge.model.status import FINAL, RunStatus
from agentforge.model.task import (
    AgentTask,
    CheckTask,
    FilesTask,
    HookTask,
    ItemsTask,
    JudgeTask,
    LedgerTask,
    ManifestTask,
    PrepareTask,
    QueueTask,
    Wait,
    Work,
)


def daily(*nodes: Node) -> Plan:
    """Under a cap of the day."""
    plan = plan_of(*nodes)
    return replace(plan, pipeline=replace(plan.pipeline, daily_usd=1.0))


JUDGED = Judgment(3, 1, 1)
ONCE: Semantics = "at_most_once"
PLANS = (
    plan_of(stage("plan", runs=3, delay=1, on_limit=LimitPolicy()), stage("build", runs=2)),
    plan_of(stage("refine", termination=Judgment(3)), passes=2),
    plan_of(stage("sweep", termination=Queue(3, check_before=True)), max_runtime=60),
    plan_of(block("claude codex", stage("draft", runs=2, delay=2), stage("check", termination=JUDGED))),
    plan_of(
        stage("build", runs=2, fallbacks=(ProviderChoice("codex", "gpt"),)), stage("once", semantics=ONCE)
    ),
    plan_of(nested("polish", stage("refine"), block("claude codex", stage("vote")), runs=2), stage("last")),
    daily(block("claude codex", stage("draft", runs=2, max_iteration_cost_usd=0.3, termination=JUDGED))),
)
STEPS = 40
MAX_ITEMS = 3
LUCK = {
    "mixed": ["fine", "fine", "fine", "stop", "error", "lost"],
    "good": ["fine", "fine", "fine", "fine", "stop"],
    "asking": ["fine", "ask", "ask", "stop"],
    "dying": ["lost", "lost", "lost", "fine"],
    "failing": ["error", "error", "fine"],
}
"""What comes of an agent's attempts in a run."""
HOOK_LUCK = [
    *get_args(HookOutcome),
    "continue",
    "continue",
    "continue",
    "answer",
    "failed",
    "timeout",
    "lost",
]

_kinds = st.sampled_from(
    [
        FailureKind.PROVIDER_CRASHED,
        FailureKind.PROVIDER_TIMEOUT,
        FailureKind.PROVIDER_RATE_LIMITED,
        FailureKind.PROVIDER_QUOTA,
        FailureKind.AGENT_ERROR,
    ]
)


_questions = st.lists(
    st.builds(
        AgentQuestion,
        id=st.sampled_from(["q1", "q2", "q3"]),
        question=st.sampled_from(["Which one?", "How many?", "Why?"]),
        options=st.sampled_from([(), ("a", "b")]),
        default=st.just("a"),
        blocking=st.booleans(),
    ),
    min_size=1,
    max_size=3,
    # An agent's questions are different when they are recorded.
    unique_by=(lambda question: question.id, lambda question: question.question),
).map(tuple)


class World:
    """Drives a run as the driver does, with answers drawn at random."""

    def __init__(self, draw: st.DrawFn, plan: Plan, *, wild: bool = False) -> None:
        self.draw = draw
        self.plan = plan
        self.wild = wild
        self.luck = draw(st.sampled_from(sorted(LUCK))) if wild else "mixed"
        self.decided: list[tuple[Plan, Decided]] = []
        """After each event: the plan in force, and what the engine says then."""
        self.now = NOON
        self.events: list[Event] = []
        self.record(started(plan), Cursor("0", 0, 0))

    @property
    def state(self) -> RunState:
        assert self._state is not None
        return self._state

    _state: RunState | None = None

    def record(self, fact: f.AnyFact, cursor: Cursor | None) -> None:
        refuse_illegal(self._state, fact, cursor)
        self.now += timedelta(seconds=self.draw(st.sampled_from([0, 0, 0.5, 30])))
        event = Event(len(self.events) + 1, self.now, SESSION, RUN_ID, fact, cursor)
        self.events.append(event)
        self._state = evolve(self._state, event)
        if isinstance(fact, f.PlanChanged):
            self.plan = fact.plan
        self.decided.append((self.plan, decide(self.plan, self._state)))

    def settle(self) -> tuple[Work, ...] | None:
        """Record the decided facts, unless the engine dies in between."""
        for _ in range(200):
            decision = decide(self.plan, self.state)
            if not decision.facts:
                return decision.work
            for draft in decision.facts:
                if self.rarely(30):
                    return None
                self.record(self._routed(draft.fact), draft.cursor)
        raise AssertionError("the engine doesn't stop talking")

    def rarely(self, times: int) -> bool:
        """True about once in this many times; avoids the ends of a range, which Hypothesis prefers."""
        return self.draw(st.integers(0, times)) == times // 2

    def _routed(self, fact: f.AnyFact) -> f.AnyFact:
        """As decided, or as a router may have it: to any node, in any round."""
        if not self.wild or not isinstance(fact, f.NodeCompleted) or not self.draw(st.booleans()):
            return fact
        path = self.draw(st.sampled_from([step.path for step in self.plan.steps]))
        rounds = tuple(self.draw(st.integers(1, 2)) for _ in path.split("."))
        return replace(fact, next=Destination(path, rounds))

    def step(self) -> bool:
        """One turn of the world; False when the run is over."""
        works = self.settle()
        if works is None:
            return self._recovered()
        if self.state.status in FINAL:
            return False
        if self.rarely(8) and self._people():
            return True
        if self.state.status is not RunStatus.RUNNING:
            if self.state.is_stopped_by_shutdown and self.draw(st.booleans()):
                return self._recovered()
            return (self.draw(st.booleans()) and self._people()) or self._resumed()
        assert works, "a running run has nothing to do"
        happens = self.draw(st.integers(0, 20))
        if happens == 7:
            reason = self.draw(st.sampled_from(["asked", MACHINE_SHUTDOWN]))
            self.record(f.PauseRequested(reason, now=self.draw(st.booleans())), self.state.cursor)
        elif happens == 8 and self.rarely(4):
            self.record(f.CancelRequested("asked"), self.state.cursor)
        elif happens == 9:
            return self._recovered()
        elif happens == 10 and self.wild:
            self._control()
        else:
            # Several may come in before the engine is asked again.
            for work in self.draw(
                st.lists(st.sampled_from(works), min_size=1, max_size=2, unique_by=lambda work: work.id)
            ):
                self._answer(work)
        return True

    def _recovered(self) -> bool:
        if self.state.status is not RunStatus.RUNNING and not self.state.is_stopped_by_shutdown:
            # Who opened a waiting run for an answer died: the next one finds the answer.
            return True
        by = self.draw(st.sampled_from(["recovery", "recovery", "person"]))
        by = "recovery" if self.state.is_stopped_by_shutdown else by
        self.record(f.SessionRecovered(4711, "here", by), self.state.cursor)  # type: ignore[arg-type]
        for provider, at in list(self.state.under_way()):
            attempt = at.iteration.attempt if at.iteration else None
            if attempt and attempt.status.value == "running" and self.draw(st.booleans()):
                assert at.iteration is not None
                cursor = Cursor(at.path, at.run, at.iteration.number, provider)
                self.record(f.AttemptReattached(attempt.number, 4711), cursor)
        return True

    def _resumed(self) -> bool:
        if not self.wild and not self.draw(st.booleans()):
            return False
        if self.rarely(4):
            self._recompiled()
        for request in self.state.open_requests:
            if "resume" in request.options:
                self.record(f.RequestAnswered(request.id, "resume", "person"), self.state.cursor)
        if self.wild and self.rarely(4):
            self._restart()
        if self.wild and self.rarely(4):
            stage = self.draw(st.sampled_from(self.plan.stages)).id
            self.record(f.Waived("", "not today", "person", stage), self.state.cursor)
        self.record(f.SessionResumed("person", approve=self.wild and self.rarely(8)), self.state.cursor)
        return True

    def _control(self) -> None:
        """As people send them to a running run."""
        if self.draw(st.booleans()):
            self.record(f.NoteAdded("mind the tests", "person"), self.state.cursor)
        else:
            self._restart()

    def _restart(self) -> None:
        branches = [branch for branch, _ in self.state.under_way()]
        if branches:
            asked = f.RestartRequested("once more", "person", self.draw(st.sampled_from(branches)))
            self.record(asked, self.state.cursor)

    def _people(self) -> bool:
        """Answer an open request; False if no request is open."""
        open_requests = [request for request in self.state.open_requests if not request.is_overdue]
        if not open_requests:
            return False
        for request in self.draw(st.lists(st.sampled_from(open_requests), min_size=1, max_size=3)):
            text = self.draw(st.sampled_from(["", "Shorter.", "Shorter."]))
            said = self.draw(st.sampled_from(self.answers_to(request)))
            answer = f.RequestAnswered(request.id, said, "person", text)
            if request.id in {known.id for known in self.state.open_requests}:
                self.record(answer, request.at)
            else:
                self.refused(answer, request.at)
        return True

    def answers_to(self, request: Request) -> list[str]:
        return [*request.options, *(["2"] if request.grants else [])] or ["any text"]

    def refused(self, fact: f.AnyFact, cursor: Cursor | None) -> None:
        try:
            refuse_illegal(self.state, fact, cursor)
        except IllegalMove:
            return
        raise AssertionError(f"not refused: {fact}")

    def _recompiled(self) -> None:
        """A node more at the end; in the wild also at the beginning, or one less, which may come back."""
        nodes = list(self.plan.nodes)
        taken = {node.id for node in nodes}
        extra = self.extra(next(name for n in count() if (name := f"extra-{n}") not in taken))
        change = self.draw(st.sampled_from(["last", "first", "less"])) if self.wild else "last"
        if change == "less" and len(nodes) > 1:
            gone = self.draw(st.sampled_from(nodes))
            nodes = [_without_routes_to(gone, node) for node in nodes if node is not gone]
        else:
            nodes.insert(0 if change == "first" else len(nodes), extra)
        changed = replace(self.plan, nodes=plan_of(*nodes).nodes)
        try:
            fact = plan_change(changed, self.plan, self.state)
        except IllegalMove:
            return
        self.record(fact, self.state.cursor)

    def extra(self, name: str) -> StageNode:
        return stage(name)

    def _answer(self, work: Work) -> None:
        fact = self._fact(work)
        if isinstance(fact, f.IterationCompleted) and work.cursor and work.cursor.provider:
            self.record(f.WorkerCompleted("result.json", 0), work.cursor)
        self.record(fact, work.recorded_at or (self.state.cursor if isinstance(work, Wait) else None))

    def _fact(self, work: Work) -> f.AnyFact:
        match work:
            case PrepareTask():
                item = work.item.id if work.item else ""
                return f.IterationStarted("x", "x", "claude", "opus", "0" * 64, item=item)
            case ItemsTask():
                if self.rarely(8):
                    return f.ErrorOccurred(FailureKind.ARTIFACT_UNUSABLE, "it is missing", "x", 0)
                found = elements_of({"steps": self.draw(_lists)}, "steps", MAX_ITEMS)
                elements = [one for one in found if isinstance(one, Element)]
                return planned(elements, work.known, work.feedback, work.place.run, "0" * 64)
            case Wait(timer=timer, due_at=due_at):
                self.now = max(self.now, due_at)
                return f.TimerFired(timer)
            case ManifestTask():
                return f.ManifestWritten("manifest.json")
            case LedgerTask():
                return self._of_ledger(work)
            case QueueTask():
                return f.QueueChecked(self.draw(st.integers(0, 2)))
            case JudgeTask(attempt=attempt):
                return self._judgment(attempt)
            case AgentTask(attempt=attempt, ending=ending):
                return self._outcome(attempt, ended=ending)
            case HookTask():
                return self._of_hook(work)
            case CheckTask():
                return self._of_check(work)
            case FilesTask():
                return self._of_files(work)

    def _of_ledger(self, task: LedgerTask) -> f.AnyFact:
        granted, spent = self.draw(
            st.sampled_from([(task.most_usd, 0.0), (task.most_usd, 0.5), (0.0, 0.5), (0.0, 1.0)])
        )
        answer = DailyAnswer("2026-01-15", task.cap_on("2026-01-15"), spent, 0.0, granted)
        return f.LedgerAnswered(task.id, task.run_usd, answer)

    def _of_check(self, task: CheckTask) -> f.AnyFact:
        status = self.draw(st.sampled_from(["pass", "pass", "fail", "fail", "error", "timeout", "lost"]))
        if status == "lost" or task.ending:
            return f.CheckLost(task.check.name, task.attempt)
        signatures = tuple(self.draw(st.lists(st.sampled_from("abc"), max_size=2, unique=True)))
        return f.CheckCompleted(
            task.check.name,
            task.attempt,
            status,  # type: ignore[arg-type]
            signatures=signatures if status == "fail" else (),
            tree_after=self.draw(st.sampled_from(["t1", "t2", None])),
            changed=("a.py",) if self.rarely(4) else (),
        )

    def _of_files(self, task: FilesTask) -> f.AnyFact:
        said = self.draw(st.sampled_from(["done", "done", "other", "failed"]))
        if said == "failed" and not task.ending:
            return f.FilesFailed(**task.names, message="no such file")
        if said == "done" or task.ending:
            return nothing_done(task)
        match task.action:
            case "look":
                return f.VisitTree(**task.names, tree="t1", inexact=("a.env",))
            case "freeze":
                return f.FilesFrozen(**task.names, files=(FrozenFile("a", "0"),), tree="t1")
            case "restore":
                return f.FilesRestored(**task.names, paths=("a",), replaced="t2")
            case "rollback":
                return f.RollbackRefused(**task.names, paths=("a",), reason="it was changed")

    def _of_hook(self, task: HookTask) -> f.AnyFact:
        of = (task.hook.id, task.hook.point, task.delivery, task.attempt)
        said = self.draw(st.sampled_from(HOOK_LUCK))
        match said:
            case "lost":
                return f.HookLost(*of, started=self.draw(st.booleans()))
            case _ if task.ending:
                return f.HookLost(*of)
            case "failed":
                return f.HookFailed(*of, message="no answer", retry=self.draw(st.booleans()))
            case "timeout":
                return f.HookTimedOut(*of)
        options = task.request.options if task.request else ()
        answer = self.draw(st.sampled_from([*options, "7", "nonsense"])) if said == "answer" else ""
        context = self.draw(st.sampled_from(["", "Mind the gap."]))
        return f.HookCompleted(*of, action=said, answer=answer, context=context, text="So.")  # type: ignore[arg-type]

    def _judgment(self, attempt: int) -> f.AnyFact:
        said = self.draw(st.sampled_from(["stop", "continue", "failed", "lost"]))
        if said == "lost":
            return f.JudgeLost(attempt)
        if said == "failed":
            reason = self.draw(st.sampled_from(["invoke_failed", "invalid_json"]))
            return f.JudgeCompleted("failed", f.JudgeResult(stop=False, reason=reason), attempt)
        return f.JudgeCompleted("success", f.JudgeResult(said == "stop", "because"), attempt)

    def _outcome(self, attempt: int, *, ended: bool) -> f.AnyFact:
        said = self.draw(st.sampled_from(LUCK[self.luck]))
        if ended and said != "fine":
            return f.AttemptCancelled(attempt, "ended on request")
        if said == "lost":
            return f.AttemptLost(attempt, "the engine died", started=True)
        if said == "error":
            return f.ErrorOccurred(self.draw(_kinds), "it went wrong", "x", attempt)
        decision = {"stop": Decision.STOP, "ask": Decision.ASK}.get(said, Decision.CONTINUE)
        signals = Signals(plateau_suspected=self.draw(st.booleans()))
        result = Result(signals=signals, decision=decision)
        if said == "ask":
            result = replace(result, questions=self.draw(_questions))
        elif self.draw(st.booleans()):
            result = replace(result, verdict=self.draw(st.sampled_from(["pass", "fail", "reject"])))
            result = replace(result, items=self.draw(st.sampled_from([(), ("a",), ("b", "x")])))
        return f.IterationCompleted("x", attempt, decision, "", "result.json", result, 10)


def _without_routes_to(gone: Node, node: Node) -> Node:
    if not isinstance(node, StageNode):
        return node
    return replace(node, routes=tuple(route for route in node.routes if route.to != gone.id))


@st.composite
def any_run(draw: st.DrawFn) -> tuple[Plan, list[Event]]:
    """The plan that is in force at the end, and all events."""
    world = World(draw, draw(st.sampled_from(PLANS)))
    for _ in range(draw(st.integers(1, STEPS))):
        if not world.step():
            break
    return world.plan, world.events


# -- any plan


@st.composite
def any_plan(draw: st.DrawFn) -> Plan:
    """Stages that end in every way, blocks, pipelines in pipelines; every node has a unique name."""
    names = (f"n{number}" for number in count())

    def any_stage(**changes: object) -> StageNode:
        node = stage(
            next(names),
            termination=draw(_terminations),
            delay=draw(st.sampled_from([0.0, 0.0, 2.0])),
            semantics=draw(st.sampled_from(["at_least_once", "at_least_once", "at_most_once"])),
            retry=draw(st.none() | _retry_policies),
            on_limit=draw(st.none() | st.builds(LimitPolicy, st.sampled_from(["wait", "next", "fail"]))),
            approve=draw(st.none() | _approvals),
        )
        if isinstance(node.termination, Items):
            node = replace(node, sources=InputSources(items=ArtifactSource("")))
        return replace(node, **changes)

    def routed(node: Node, others: list[str]) -> Node:
        """Checks, and routes to nodes of the same pipeline."""
        if not isinstance(node, StageNode) or draw(st.booleans()):
            return node
        targets = [Route("fail", "go", to) for to in others] + [Route("fail", "ask"), Route("fail", "end")]
        routes = (draw(st.sampled_from(targets)), Route("reject", "go", draw(st.sampled_from(others))))
        checks = draw(st.sampled_from([(), _CHECKS[:1], _CHECKS]))
        limits = draw(st.none() | st.builds(Limits, st.integers(1, 4), st.integers(1, 3), st.integers(1, 3)))
        return replace(node, routes=routes, checks=checks, limits=limits)

    def with_routes(nodes: list[Node]) -> list[Node]:
        return [routed(node, [node.id for node in nodes]) for node in nodes] if draw(st.booleans()) else nodes

    def any_node(depth: int) -> Node:
        kind = draw(st.sampled_from(["stage", "stage", "block", "nested"]))
        checkpoint = draw(st.sampled_from([None, None, "legal", "budget"]))
        if kind == "block":
            stages = with_routes([any_stage() for _ in range(draw(st.integers(1, 2)))])
            return replace(block("claude codex", *stages, id=next(names)), checkpoint=checkpoint)
        if kind == "nested" and depth:
            inside = with_routes([any_node(depth - 1) for _ in range(draw(st.integers(1, 2)))])
            found = nested(next(names), *inside, runs=draw(st.integers(1, 2)))
            return replace(found, checkpoint=checkpoint)
        fallbacks = draw(st.sampled_from([(), (), (ProviderChoice("codex", "gpt"),)]))
        return any_stage(fallbacks=fallbacks, checkpoint=checkpoint)

    nodes = with_routes([any_node(2) for _ in range(draw(st.integers(1, 3)))])
    limit = draw(st.sampled_from([None, None, 60.0, 3000.0]))
    hooks = draw(st.sampled_from([(), draw(_hooks)]))
    return plan_of(*nodes, passes=draw(st.integers(1, 2)), max_runtime=limit, hooks=hooks)


_CHECKS = (
    Check("test", "make test"),
    Check("lint", "make lint", at=("iteration",)),
    Check("up", "up", at=("start",)),
)
_every_third = Operation(
    "==", (Operation("%", (VariableTerm("iteration"), ConstantTerm(3))), ConstantTerm(0))
)
_without_value = Operation(
    "==", (Operation("%", (VariableTerm("iteration"), ConstantTerm(0))), ConstantTerm(0))
)


def _numbered_hooks(hooks: list[Hook]) -> tuple[Hook, ...]:
    return tuple(replace(hook, id=f"h{number}") for number, hook in enumerate(hooks))


_hooks = st.lists(
    st.builds(
        Hook,
        id=st.just(""),
        point=st.sampled_from(POINTS),
        action=st.sampled_from(["webhook", "script", "call", "call", "pause", "confirm"]),
        condition=st.sampled_from([None, None, None, _every_third, _without_value]),
        tries=st.integers(1, 3),
        on_timeout=st.sampled_from(["pause", "continue", "fail"]),
        on_failure=st.sampled_from(["pause", "continue", "fail"]),
        on_lost=st.sampled_from(["repeat", "pause"]),
    ),
    min_size=1,
    max_size=6,
).map(_numbered_hooks)


_retry_policies = st.builds(
    RetryPolicy,
    st.integers(1, 3),
    stage=st.integers(0, 2),
    retried=st.sampled_from(["transient", "any"]),
    exhausted=st.sampled_from(["fail", "ask"]),
)
_approvals = st.builds(
    Approval,
    timeout=st.none() | st.just(40.0),
    on_timeout=st.sampled_from(["wait", "approve", "abort"]),
    rounds=st.integers(1, 3),
)
_terminations = st.one_of(
    st.builds(Fixed, st.integers(1, 3)),
    st.builds(Judgment, st.integers(1, 3), st.integers(0, 2), st.integers(1, 2)),
    st.builds(Queue, st.integers(1, 3), st.booleans()),
    st.just(Items(MAX_ITEMS, "initial.steps")),
)
_lists = st.sampled_from(
    [
        [],
        [{"id": "a"}],
        [{"id": "b", "after": ["a"]}, {"id": "a"}],
        [{"id": "b", "after": ["a", "c"]}, {"id": "c"}, {"id": "a", "title": "changed"}],
    ]
)


class WildRun(Struct, frozen=True):
    events: list[Event]
    decided: list[tuple[Plan, Decided]]
    """After each event: the plan in force, and what the live run decided then."""
    state: RunState

    def __repr__(self) -> str:
        """Short enough for the report of a failing example: plans and whole facts are too long for it."""
        names = ", ".join(f"{event.seq} {type(event.fact).__name__}" for event in self.events)
        return f"WildRun({names})"


@st.composite
def any_wild_run(draw: st.DrawFn, steps: int = 60) -> WildRun:
    world = World(draw, draw(any_plan()), wild=True)
    for _ in range(draw(st.integers(steps // 2, steps))):
        if not world.step():
            break
    return WildRun(world.events, world.decided, world.state)
