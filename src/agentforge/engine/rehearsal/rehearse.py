"""Checks whether a past run would take the same course with another pipeline."""

# The past run is followed event by event, and not simulated from its start: as long as both agree, the
# rehearsed state is the past state under the new plan, and a difference is found where it arises. An event is
#
# - external (a person or the host): copied, as no plan decides it;
# - an outcome: copied if the rehearsed run waits for the outcome of the same task at the same place;
# - a decision that is a step: never copied. The real `decide` must come to it with the new plan, or the
#   courses diverge. Another reason or provider is reported as a difference, but the course is the same;
# - any other decision (waits, retries, limits): either run may have some that the other hasn't. `_reach`
#   passes over those of the rehearsed run, `_quiet` over those of the past run.
#
# After the courses diverged, there is nothing to follow: the rehearsed run continues with what was recorded
# for the same tasks and requests, in whatever order it needs them, until something was not recorded. It never
# guesses what an agent would answer.

from collections.abc import Callable, Sequence
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.decide.run import Directive
from agentforge.engine.evolve.run import evolve
from agentforge.engine.nodes import NodeKey, NodeKeys
from agentforge.engine.rehearsal.outcomes import OUTCOMES, Answers, addressed, work_for
from agentforge.engine.rehearsal.rehearsed_run import (
    RehearsedRun,
    step_of_fact,
    step_of_work,
)
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.course import CourseStep
from agentforge.model.cursor import Cursor
from agentforge.model.errors import IllegalMove
from agentforge.model.event import Draft, Event
from agentforge.model.facts.run import RunStop
from agentforge.model.plan import Plan
from agentforge.model.state import RunState
from agentforge.model.task import Wait

MAX_QUIET_STEPS = 64
"""Consecutive waits and timers to skip; they are not part of a course."""

_ABOUT_RUN = f.RequestOpened | RunStop
"""Decisions about the run as a whole, of which no place is compared."""

Match = TypeVar("Match")


class Difference(Struct, frozen=True):
    """The point where two courses diverge."""

    past: CourseStep
    now: CourseStep | None
    """The step that this pipeline takes instead, or None if it has nothing left to do."""
    why: str = ""
    """Set if the run has no position in the pipeline at all."""


class Rehearsal(Struct, frozen=True):
    """A past run, rehearsed with another plan."""

    past: tuple[CourseStep, ...]
    now: tuple[CourseStep, ...]
    difference: Difference | None = None
    """The first difference, or None if the courses are the same."""
    unrecorded: tuple[CourseStep, ...] = ()
    """The steps at which the rehearsal stopped, because the past run recorded no outcome for them."""

    @property
    def is_same(self) -> bool:
        return self.difference is None


def rehearse(plan: Plan, events: Sequence[Event]) -> Rehearsal:
    """Replay the past run from its last plan change and compare. Pure and total."""
    start = max((n for n, event in enumerate(events) if isinstance(event.fact, f.PlanFact)), default=-1)
    if start < 0:
        return Rehearsal((), ())
    first = events[start].fact
    assert isinstance(first, f.PlanFact)
    old, state = first.plan, _folded(events[: start + 1])
    try:
        if plan != old and not isinstance(first, f.SessionStarted):
            moved = plan_change(plan, old, state)
            state = evolve(state, Event(state.seq, state.updated_at, state.session, state.run_id, moved))
    except IllegalMove as error:
        past = _Past(old, events[start + 1 :])
        return Rehearsal(past.course(), (), Difference(CourseStep("resumed"), None, error.message))
    return _Comparison(RehearsedRun(plan, state), _Past(old, events[start + 1 :])).compare()


def _folded(events: Sequence[Event]) -> RunState:
    """The state after the last event; events before the start of the run are ignored."""
    begun = max((n for n, event in enumerate(events) if isinstance(event.fact, f.FirstFact)), default=None)
    if begun is None:
        # A damaged log lacks the start. The plan change has all that is needed of it: a plan and a trace id.
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


class _Past:
    def __init__(self, plan: Plan, events: Sequence[Event]) -> None:
        self.keys = NodeKeys(plan)
        self.events = events

    def step(self, event: Event) -> CourseStep | None:
        return step_of_fact(event.fact, self.keys.at(event.cursor), event.cursor)

    def course(self) -> tuple[CourseStep, ...]:
        return tuple(step for event in self.events if (step := self.step(event)))

    def answers(self, start: int) -> Answers:
        """What was recorded from there on, also about requests that were open then."""
        opened = (event for event in self.events[:start] if isinstance(event.fact, f.RequestOpened))
        return Answers((self.keys.at(event.cursor), event) for event in (*opened, *self.events[start:]))


class _Comparison:
    """Compares the rehearsed run with the past one, event by event."""

    def __init__(self, run: RehearsedRun, past: _Past) -> None:
        self._run = run
        self._past = past
        self._difference: Difference | None = None
        self._requests: dict[str, str] = {}
        """Request ids of the past run to those of the rehearsed run."""

    def compare(self) -> Rehearsal:
        past = self._past
        unrecorded: tuple[CourseStep, ...] = ()
        for number, event in enumerate(past.events):
            if not self._follow(event):
                if self._difference is None and (was := past.step(event)) is not None:
                    self._difference = Difference(was, self._next_step(event.cursor))
                # With another plan a run may go in circles as long as answers last: hence a bound.
                max_steps = 10 * (len(past.events) + len(self._run.plan.steps)) + 1000
                unrecorded = self._run.advance(past.answers(number), max_steps)
                break
        return Rehearsal(past.course(), tuple(self._run.course), self._difference, unrecorded)

    def _follow(self, event: Event) -> bool:
        """Apply the event to the rehearsed run; False if that run takes another course."""
        fact = event.fact
        if fact.EXTERNAL:
            if isinstance(fact, f.RequestAnswered):
                fact = replace(fact, id=self._requests.get(fact.id, fact.id))
            self._run.record(fact, self._cursor(event) or self._run.state.cursor, event.at)
            return True
        if _is_decision(fact):
            return self._decided(event)
        if type(fact) in OUTCOMES:
            return self._outcome(event)
        return self._quiet(event)

    def _outcome(self, event: Event) -> bool:
        fact, here = event.fact, self._cursor(event)
        if here is None and event.cursor is not None and not isinstance(fact, f.TimerFired):
            # A damaged log: the event has no node even in its own plan, so it is ignored.
            return self._past.keys.at(event.cursor) is None
        found = self._reach(
            lambda decision: work_for(decision.work, fact, here) or _confirmed(decision, fact, here),
            here,
            fires=not isinstance(fact, f.TimerFired),
        )
        if found or self._run.state.stop is not None:
            self._run.record(addressed(fact, found), here, event.at)
            return True
        return isinstance(fact, f.TimerFired)

    def _decided(self, event: Event) -> bool:
        place = self._past.keys.at(event.cursor)
        if place is None and event.cursor is not None and not isinstance(event.fact, _ABOUT_RUN):
            return True
        here = self._run.keys.cursor(place, event.cursor.iteration if event.cursor else 0)
        draft = self._reach(lambda decision: self._same(decision.facts, event, place), here)
        if draft is None:
            return False
        # The same step may have another reason or another provider.
        was, fact = self._past.step(event), draft.fact
        now = step_of_fact(fact, self._run.keys.at(draft.cursor), draft.cursor)
        if self._difference is None and was is not None and now is not None and was.detail != now.detail:
            self._difference = Difference(was, now)
        if isinstance(event.fact, f.RequestOpened) and isinstance(fact, f.RequestOpened):
            fact = replace(fact, id=f"{fact.reason}-{self._run.state.seq + 1}")
            self._requests[event.fact.id] = fact.id
        self._run.record(fact, draft.cursor, event.at)
        return True

    def _quiet(self, event: Event) -> bool:
        """Waits and retries are not part of the course: apply them only if this run has them, too."""
        place = self._past.keys.at(event.cursor)
        for draft in self._run.decision().facts:
            if type(draft.fact) is type(event.fact) and self._run.keys.at(draft.cursor) == place:
                self._run.record(draft.fact, draft.cursor, event.at)
                break
        return True

    def _reach(
        self, look: Callable[[Directive], Match | None], here: Cursor | None, *, fires: bool = True
    ) -> Match | None:
        """The first match, skipping waits that the past run didn't have; or None."""
        for _ in range(MAX_QUIET_STEPS):
            decision = self._run.decision()
            if (found := look(decision)) is not None:
                return found
            if not fires or not self._skip_quiet(decision, here.provider if here else None):
                return None
        return None  # bound

    def _skip_quiet(self, decision: Directive, provider: str | None) -> bool:
        for draft in decision.facts:
            if not _is_decision(draft.fact) and _is_in(draft.cursor, provider):
                self._run.record(draft.fact, draft.cursor)
                return True
        for work in decision.work:
            if isinstance(work, Wait) and _is_in(work.cursor, provider):
                self._run.fire(work)
                return True
        return False

    def _same(self, drafts: Sequence[Draft], event: Event, place: NodeKey | None) -> Draft | None:
        alike = [draft for draft in drafts if type(draft.fact) is type(event.fact)]
        for draft in alike:
            if self._run.keys.at(draft.cursor) == place and _number(draft) == _number(event):
                return draft
        return alike[0] if alike and isinstance(event.fact, _ABOUT_RUN) else None

    def _next_step(self, cursor: Cursor | None) -> CourseStep | None:
        """The rehearsed run's next step, preferably in the past event's branch."""
        decision, places = self._run.decision(), self._run.keys
        steps = [step_of_fact(draft.fact, places.at(draft.cursor), draft.cursor) for draft in decision.facts]
        steps += [step_of_work(work, places.at(work.cursor)) for work in decision.work]
        found = [step for step in steps if step is not None]
        branch = cursor.provider if cursor else None
        return next((step for step in found if step.branch == branch), found[0] if found else None)

    def _cursor(self, event: Event) -> Cursor | None:
        """The event's cursor in the rehearsed plan."""
        place = self._past.keys.at(event.cursor)
        return self._run.keys.cursor(place, event.cursor.iteration if event.cursor else 0)


def _is_decision(fact: f.AnyFact) -> bool:
    """Whether the engine decided it from the plan and it is part of a course. All other decisions (waits,
    retries, limits) only lead to one of these."""
    if isinstance(fact, f.JudgeCompleted):
        # A judge's answer or failure is an outcome; not to ask a judge that keeps failing is a decision.
        return fact.status == "skipped"
    return not fact.EXTERNAL and type(fact) not in OUTCOMES and fact.step() is not None


def _confirmed(decision: Directive, fact: f.AnyFact, here: Cursor | None) -> Draft | None:
    """The same iteration, if a person confirmed it as complete."""
    if not isinstance(fact, f.IterationCompleted):
        return None
    found = (draft for draft in decision.facts if isinstance(draft.fact, f.IterationCompleted))
    return next((draft for draft in found if draft.cursor == here), None)


def _is_in(cursor: Cursor | None, provider: str | None) -> bool:
    return provider is None or (cursor is not None and cursor.provider == provider)


def _number(item: Draft | Event) -> tuple[int, int] | tuple[str, str]:
    """The iteration and attempt, or zeros if the fact has none. Of a request: why it is asked. Of a hook or a
    check: its name and its attempt."""
    if isinstance(item.fact, f.RequestOpened):
        return item.fact.reason, item.fact.subject
    if not isinstance(item.fact, f.TaskFact):
        return 0, 0
    if item.fact.label:
        return item.fact.label, str(item.fact.attempt)
    return item.cursor.iteration if item.cursor else 0, item.fact.attempt
