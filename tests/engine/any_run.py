"""Hypothesis: whole runs, as the driver would have recorded them, in a world that answers anything."""

from datetime import timedelta

from hypothesis import strategies as st
from msgspec.structs import replace
from tests.engine.plans import NOON, RUN_ID, SESSION, block, nested, plan_of, stage, started

from agentforge.engine.decide import decide
from agentforge.engine.evolve import evolve
from agentforge.engine.legal import refuse_illegal
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.errors import IllegalMove
from agentforge.model.event import Cursor, Event
from agentforge.model.failure import FailureKind
from agentforge.model.plan import Judgment, LimitPolicy, Plan, ProviderChoice, Queue, Semantics
from agentforge.model.result import Decision, Result, Signals
from agentforge.model.state import RunState
from agentforge.model.status import FINAL, RunStatus
from agentforge.model.task import (
    AgentTask,
    JudgeTask,
    ManifestTask,
    PrepareTask,
    QueueTask,
    Wait,
    Work,
)

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
)
STEPS = 40

_kinds = st.sampled_from(
    [
        FailureKind.PROVIDER_CRASHED,
        FailureKind.PROVIDER_TIMEOUT,
        FailureKind.PROVIDER_RATE_LIMITED,
        FailureKind.PROVIDER_QUOTA,
        FailureKind.AGENT_ERROR,
    ]
)


class _World:
    """Drives a run as the driver does, with answers drawn at random."""

    def __init__(self, draw: st.DrawFn, plan: Plan) -> None:
        self.draw = draw
        self.plan = plan
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

    def settle(self) -> tuple[Work, ...] | None:
        """Record what is decided; nothing if the engine dies in the middle of it."""
        for _ in range(200):
            decision = decide(self.plan, self.state)
            if not decision.facts:
                return decision.work
            for draft in decision.facts:
                if self.draw(st.integers(0, 30)) == 30:
                    return None
                self.record(draft.fact, draft.cursor)
        raise AssertionError("the engine doesn't stop talking")

    def step(self) -> bool:
        """One turn of the world; False when the run is over."""
        works = self.settle()
        if works is None:
            return self._taken_up()
        if self.state.status in FINAL:
            return False
        if self.state.status is not RunStatus.RUNNING:
            return self._resumed()
        happens = self.draw(st.integers(0, 20))
        if happens == 0:
            self.record(f.PauseRequested("asked", now=self.draw(st.booleans())), self.state.cursor)
        elif happens == 1 and self.draw(st.booleans()):
            self.record(f.CancelRequested("asked"), self.state.cursor)
        elif happens == 2:
            return self._taken_up()
        else:
            # Several may come in before the engine is asked again.
            for work in self.draw(
                st.lists(st.sampled_from(works), min_size=1, max_size=2, unique_by=lambda work: work.id)
            ):
                self._answer(work)
        return True

    def _taken_up(self) -> bool:
        by = self.draw(st.sampled_from(["recovery", "recovery", "person"]))
        self.record(f.SessionRecovered(4711, "here", by), self.state.cursor)  # type: ignore[arg-type]
        for provider, at in list(self.state.under_way()):
            attempt = at.iteration.attempt if at.iteration else None
            if attempt and attempt.status.value == "running" and self.draw(st.booleans()):
                assert at.iteration is not None
                cursor = Cursor(at.path, at.run, at.iteration.number, provider)
                self.record(f.AttemptReattached(attempt.number, 4711), cursor)
        return True

    def _resumed(self) -> bool:
        if not self.draw(st.booleans()):
            return False
        if self.draw(st.integers(0, 3)) == 3:
            self._recompiled()
        for request in self.state.open_requests:
            self.record(f.RequestAnswered(request.id, "resume", "person"), self.state.cursor)
        self.record(f.SessionResumed("person"), self.state.cursor)
        return True

    def _recompiled(self) -> None:
        number = len(self.plan.nodes)
        extra = replace(stage(f"extra-{number}"), path=str(number))
        changed = replace(self.plan, nodes=(*self.plan.nodes, extra))
        try:
            fact = plan_change(changed, self.plan, self.state)
        except IllegalMove:
            return
        self.record(fact, self.state.cursor)
        self.plan = changed

    def _answer(self, work: Work) -> None:
        fact = self._fact(work)
        if isinstance(fact, f.IterationCompleted) and work.cursor and work.cursor.provider:
            self.record(f.WorkerCompleted("result.json", 0), work.cursor)
        self.record(fact, work.cursor or self.state.cursor)

    def _fact(self, work: Work) -> f.AnyFact:
        match work:
            case PrepareTask():
                return f.IterationStarted("x", "x", "claude", "opus", "0" * 64)
            case Wait(timer=timer, due_at=due_at):
                self.now = max(self.now, due_at)
                return f.TimerFired(timer)
            case ManifestTask():
                return f.ManifestWritten("manifest.json")
            case QueueTask():
                return f.QueueChecked(self.draw(st.integers(0, 2)))
            case JudgeTask(attempt=attempt):
                return self._judgment(attempt)
            case AgentTask(attempt=attempt, ending=ending):
                return self._outcome(attempt, ended=ending)

    def _judgment(self, attempt: int) -> f.AnyFact:
        said = self.draw(st.sampled_from(["stop", "continue", "failed", "lost"]))
        if said == "lost":
            return f.JudgeLost(attempt)
        if said == "failed":
            reason = self.draw(st.sampled_from(["invoke_failed", "invalid_json"]))
            return f.JudgeCompleted("failed", f.JudgeResult(stop=False, reason=reason), attempt)
        return f.JudgeCompleted("success", f.JudgeResult(said == "stop", "because"), attempt)

    def _outcome(self, attempt: int, *, ended: bool) -> f.AnyFact:
        said = self.draw(st.sampled_from(["fine", "fine", "fine", "stop", "error", "lost"]))
        if ended and said != "fine":
            return f.AttemptCancelled(attempt, "ended on request")
        if said == "lost":
            return f.AttemptLost(attempt, "the engine died", started=True)
        if said == "error":
            return f.ErrorOccurred(self.draw(_kinds), "it went wrong", "x", attempt)
        decision = Decision.STOP if said == "stop" else Decision.CONTINUE
        result = Result(signals=Signals(plateau_suspected=self.draw(st.booleans())), decision=decision)
        return f.IterationCompleted("x", attempt, decision, "", "result.json", result, 10)


@st.composite
def any_run(draw: st.DrawFn) -> tuple[Plan, list[Event]]:
    """The plan that is in force at the end, and all events."""
    world = _World(draw, draw(st.sampled_from(PLANS)))
    for _ in range(draw(st.integers(1, STEPS))):
        if not world.step():
            break
    return world.plan, world.events
