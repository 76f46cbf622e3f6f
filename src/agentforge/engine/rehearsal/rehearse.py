"""Whether another pipeline would have taken a past run on another course.

The past run's events are followed one by one. What came from outside (outcomes, a person's word) is given
to the rehearsed run as it was; what the engine decided has to be decided again, by the real `decide` on the
new plan. Where it isn't, the courses part, and the rehearsal goes on by itself as far as there are answers.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from agentforge.engine.decide.run import Directive
from agentforge.engine.evolve.run import evolve
from agentforge.engine.node_keys import NodeKey, NodeKeys
from agentforge.engine.rehearsal.course import CourseStep, Difference, Rehearsal
from agentforge.engine.rehearsal.events import turn_of, turn_of_work
from agentforge.engine.rehearsal.outcomes import OUTCOMES, Answers, wanted
from agentforge.engine.rehearsal.rehearsed_run import RehearsedRun
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.errors import IllegalMove
from agentforge.model.event import Draft, Event
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.model.task import Wait

QUIET_AT_MOST = 64
"""Waits and timers in a row that are no part of a course."""

_BRINGS_A_PLAN = f.SessionStarted | f.LogImported | f.PlanChanged
_TAKEN_AS_IT_IS = (
    f.AttemptReattached,
    f.WorkerCompleted,
    f.PauseRequested,
    f.CancelRequested,
    f.SessionResumed,
    f.SessionRecovered,
    f.RequestAnswered,
    f.DamageAccepted,
    f.LogRepaired,
    f.TmuxSessionCleaned,
)
_DECIDED = (
    f.NodeStarted,
    f.NodeCompleted,
    f.ProviderStarted,
    f.ProviderCompleted,
    f.StageCompleted,
    f.AttemptStarted,
    f.JudgeStarted,
    f.JudgeCompleted,
    f.RequestOpened,
    f.SessionCompleted,
    f.SessionFailed,
    f.SessionPaused,
    f.AwaitingApproval,
    f.SessionAborted,
)
"""What makes a course. All else that is decided (waits, retries, limits) only leads to one of these."""
_OF_RUN = (
    f.RequestOpened,
    f.SessionCompleted,
    f.SessionFailed,
    f.SessionPaused,
    f.AwaitingApproval,
    f.SessionAborted,
)

Found = TypeVar("Found")


def rehearse(plan: Plan, events: Sequence[Event]) -> Rehearsal:
    """Follow the past run from where its last plan came into force, and compare. Pure and total."""
    start = max((n for n, event in enumerate(events) if isinstance(event.fact, _BRINGS_A_PLAN)), default=-1)
    if start < 0:
        return Rehearsal((), ())
    first = events[start].fact
    assert isinstance(first, _BRINGS_A_PLAN)
    old, state = first.plan, _folded(events[: start + 1])
    try:
        placed = state if plan == old else _placed(plan, old, state, isinstance(first, f.SessionStarted))
    except IllegalMove as error:
        past = _Past(old, events[start + 1 :])
        return Rehearsal(past.course(), (), Difference(CourseStep("resumed"), None, error.message))
    return _Comparison(RehearsedRun(plan, placed), _Past(old, events[start + 1 :])).made()


def _folded(events: Sequence[Event]) -> RunState:
    """The state as of the last of them; what is before the run's beginning doesn't count."""
    beginnings = (f.SessionStarted, f.LogImported)
    begun = max((n for n, event in enumerate(events) if isinstance(event.fact, beginnings)), default=None)
    if begun is None:
        # Its beginning is lost to damage: a plan that was changed is a beginning, too.
        last = events[-1]
        assert isinstance(last.fact, f.PlanChanged)
        started = f.SessionStarted(
            last.fact.plan.mode, last.trace_id, last.fact.plan, "", format=f.LOG_FORMAT
        )
        return evolve(evolve(None, replace(last, fact=started)), last)
    state: RunState | None = None
    for event in events[begun:]:
        state = evolve(state, event)
    assert state is not None
    return state


def _placed(plan: Plan, old: Plan, state: RunState, is_new: bool) -> RunState:
    """The state in terms of the plan that is rehearsed; raises IllegalMove where it has no place there."""
    if is_new:
        return state
    changed = plan_change(plan, old, state)
    return evolve(state, Event(state.seq, state.updated_at, state.session, state.run_id, changed))


class _Past:
    def __init__(self, plan: Plan, events: Sequence[Event]) -> None:
        self.keys = NodeKeys(plan)
        self.events = events

    def turn(self, event: Event) -> CourseStep | None:
        return turn_of(event.fact, self.keys.at(event.cursor), event.cursor)

    def course(self) -> tuple[CourseStep, ...]:
        return tuple(turn for event in self.events if (turn := self.turn(event)))

    def answers(self, start: int) -> Answers:
        return Answers((self.keys.at(event.cursor), event) for event in self.events[start:])


class _Comparison:
    """The rehearsed run beside the past one, event by event."""

    def __init__(self, run: RehearsedRun, past: _Past) -> None:
        self._run = run
        self._past = past
        self._difference: Difference | None = None
        self._requests: dict[str, str] = {}
        """What the past run's questions to people are called in this one."""

    def made(self) -> Rehearsal:
        past = self._past
        unrecorded: tuple[CourseStep, ...] = ()
        for number, event in enumerate(past.events):
            if not self._followed(event):
                self._part(event)
                most = 10 * (len(past.events) + len(self._run.plan.steps)) + 1000
                unrecorded = self._run.go_on(past.answers(number), most)
                break
        return Rehearsal(past.course(), tuple(self._run.course), self._difference, unrecorded)

    def _followed(self, event: Event) -> bool:
        """Take the event into the rehearsed run; False where that run doesn't go this way."""
        fact = event.fact
        if isinstance(fact, _TAKEN_AS_IT_IS):
            here = self._cursor(event) or self._run.state.cursor
            self._run.record(self._run.renamed(fact, self._requests), here, event.at)
            return True
        if isinstance(fact, _DECIDED) and not _is_heard(fact):
            return self._decided(event)
        if type(fact) in OUTCOMES:
            return self._outcome(event)
        return self._quiet(event)

    def _outcome(self, event: Event) -> bool:
        fact, here = event.fact, self._cursor(event)
        if here is None and event.cursor is not None and not isinstance(fact, f.TimerFired):
            # Damage left it without a place even in its own plan: it is nobody's outcome.
            return self._past.keys.at(event.cursor) is None
        found = self._reach(
            lambda decision: wanted(decision.work, fact, here) or _confirmed(decision, fact, here),
            here,
            fires=_can_wait(fact),
        )
        if found or self._run.state.stop is not None:
            self._run.record(fact, here, event.at)
            return True
        return isinstance(fact, f.TimerFired)

    def _decided(self, event: Event) -> bool:
        place = self._past.keys.at(event.cursor)
        if place is None and not isinstance(event.fact, _OF_RUN):
            return True
        here = self._run.keys.cursor(place, event.cursor.iteration if event.cursor else 0)
        draft = self._reach(lambda decision: self._same(decision.facts, event, place), here)
        if draft is None:
            return False
        self._compare(event, draft)
        if isinstance(event.fact, f.RequestOpened) and isinstance(draft.fact, f.RequestOpened):
            self._requests[event.fact.id] = draft.fact.id
        self._run.record(draft.fact, draft.cursor, event.at)
        return True

    def _quiet(self, event: Event) -> bool:
        """Waits and the like are no part of the course: taken where this run has them, too."""
        place = self._past.keys.at(event.cursor)
        for draft in self._run.decision().facts:
            if type(draft.fact) is type(event.fact) and self._run.keys.at(draft.cursor) == place:
                self._run.record(draft.fact, draft.cursor, event.at)
                break
        return True

    def _reach(
        self, look: Callable[[Directive], Found | None], here: Cursor | None, *, fires: bool = True
    ) -> Found | None:
        """What is looked for, behind any number of waits that the past run didn't have."""
        for _ in range(QUIET_AT_MOST):
            decision = self._run.decision()
            if (found := look(decision)) is not None:
                return found
            if not fires or not self._pass_quietly(decision, here.provider if here else None):
                return None
        return None  # bound

    def _pass_quietly(self, decision: Directive, provider: str | None) -> bool:
        for draft in decision.facts:
            if not isinstance(draft.fact, _DECIDED) and _is_in(draft.cursor, provider):
                self._run.record(draft.fact, draft.cursor)
                return True
        for work in decision.work:
            if isinstance(work, Wait) and _is_in(work.cursor, provider):
                self._run.fire(work)
                return True
        return False

    def _same(self, drafts: Sequence[Draft], event: Event, place: NodeKey | None) -> Draft | None:
        for draft in drafts:
            if type(draft.fact) is not type(event.fact):
                continue
            if isinstance(event.fact, _OF_RUN) or (
                self._run.keys.at(draft.cursor) == place and _number(draft) == _number(event)
            ):
                return draft
        return None

    def _compare(self, event: Event, draft: Draft) -> None:
        """The same turn may still be taken for another reason, or ask somebody else."""
        was = self._past.turn(event)
        now = turn_of(draft.fact, self._run.keys.at(draft.cursor), draft.cursor)
        if self._difference is None and was is not None and now is not None and was.detail != now.detail:
            self._difference = Difference(was, now)

    def _part(self, event: Event) -> None:
        was = self._past.turn(event)
        if self._difference is None and was is not None:
            self._difference = Difference(was, self._next_turn(event.cursor))

    def _next_turn(self, cursor: Cursor | None) -> CourseStep | None:
        """What the rehearsed run does now, in the past event's branch if it is there."""
        decision, places = self._run.decision(), self._run.keys
        turns = [turn_of(draft.fact, places.at(draft.cursor), draft.cursor) for draft in decision.facts]
        turns += [turn_of_work(work, places.at(work.cursor)) for work in decision.work]
        found = [turn for turn in turns if turn is not None]
        branch = cursor.provider if cursor else None
        return next((turn for turn in found if turn.branch == branch), found[0] if found else None)

    def _cursor(self, event: Event) -> Cursor | None:
        """The event's place in the plan that is rehearsed."""
        place = self._past.keys.at(event.cursor)
        return self._run.keys.cursor(place, event.cursor.iteration if event.cursor else 0)


def _is_heard(fact: f.AnyFact) -> bool:
    """Whether a judge was heard or failed; one that is passed over is the engine's own decision."""
    return isinstance(fact, f.JudgeCompleted) and fact.status != "skipped"


def _confirmed(decision: Directive, fact: f.AnyFact, here: Cursor | None) -> Draft | None:
    """The same iteration, where it counts as complete because a person answered so."""
    if not isinstance(fact, f.IterationCompleted):
        return None
    found = (draft for draft in decision.facts if isinstance(draft.fact, f.IterationCompleted))
    return next((draft for draft in found if draft.cursor == here), None)


def _can_wait(fact: f.AnyFact) -> bool:
    return not isinstance(fact, f.TimerFired)


def _is_in(cursor: Cursor | None, provider: str | None) -> bool:
    return provider is None or (cursor is not None and cursor.provider == provider)


def _number(said: Draft | Event) -> tuple[int, int]:
    """The iteration and the attempt, where the fact is about one."""
    if not isinstance(said.fact, f.AttemptStarted | f.JudgeStarted | f.JudgeCompleted) or not said.cursor:
        return 0, 0
    return said.cursor.iteration, said.fact.attempt
