"""Playbooks: a run of the pure engine, written down as a conversation.

    > start                     the world says: this happened
    < node_start plan           the engine decides: record this
    ? prepare plan 1            and this should be running now (nothing, if there is no such line)
    @ 5                         five seconds pass
    = completed                 the run's status

After each `>` the engine is asked until it has nothing more to record, as the driver does. Everything
that it says has to be in the script, in that order.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from tests.engine.plans import NOON, RUN_ID, SESSION, started

from agentforge.engine.decide import decide
from agentforge.engine.evolve import evolve
from agentforge.engine.legal import refuse_illegal
from agentforge.model import facts as f
from agentforge.model.event import Cursor, Event
from agentforge.model.failure import FailureKind
from agentforge.model.plan import Plan
from agentforge.model.result import Decision, Result
from agentforge.model.state import RunState
from agentforge.model.work import End, Execute, Prepare, Wait, Work

TOO_MANY = 50


class Play:
    """The conversation so far."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.now: datetime = NOON
        self.events: list[Event] = []
        self.state: RunState | None = None
        self.work: tuple[Work, ...] = ()

    def happens(self, words: str) -> list[str]:
        """Record what the world says; the engine's answer, line by line."""
        verb, *rest = words.split()
        fact = SAYINGS[verb](self, rest)
        self.record(fact, self._where(fact))
        return self.answer()

    def answer(self) -> list[str]:
        said = []
        for _ in range(TOO_MANY):
            assert self.state is not None
            decision = decide(self.plan, self.state)
            if not decision.facts:
                self.work = decision.work
                return said + [f"? {self._shown_work(work)}" for work in decision.work]
            for draft in decision.facts:
                self.record(draft.fact, draft.cursor)
                said.append(f"< {self._shown(draft.fact)}")
        raise AssertionError(f"the engine doesn't stop talking: {said}")

    def record(self, fact: f.AnyFact, cursor: Cursor | None) -> None:
        refuse_illegal(self.state, fact)
        event = Event(len(self.events) + 1, self.now, SESSION, RUN_ID, fact, cursor)
        self.events.append(event)
        self.state = evolve(self.state, event)

    def seconds_until(self, due: datetime) -> str:
        return f"{(due - self.now).total_seconds():g}s"

    def due(self, timer: str) -> datetime:
        for work in self.work:
            if isinstance(work, Wait) and work.timer == timer:
                return work.due_at
        raise AssertionError(f"nobody waits for {timer}: {self.work}")

    @property
    def attempt(self) -> int:
        assert self.state is not None
        return self.state.attempt.number if self.state.attempt else 0

    def _where(self, fact: f.AnyFact) -> Cursor | None:
        for work in self.work:
            if isinstance(work, Prepare | Execute | End) and not isinstance(fact, _ABOUT_THE_RUN):
                return Cursor(work.node_path, work.node_run, work.iteration)
        return self.state.cursor if self.state else Cursor("0", 0, 0)

    def _shown(self, fact: f.AnyFact) -> str:
        match fact:
            case f.NodeStarted():
                details = fact.name
            case f.AttemptStarted():
                limits = f" timeout={fact.timeout:g}" if fact.timeout is not None else ""
                details = f"{fact.attempt}{limits}"
            case f.RetryScheduled():
                details = f"{fact.attempt}/{fact.of} in {self.seconds_until(fact.due_at)}"
            case f.DelayStarted():
                details = f"in {self.seconds_until(fact.due_at)}"
            case f.NodeCompleted():
                details = f"{fact.name}: {fact.reason}"
            case f.SessionFailed():
                details = fact.kind.value
            case f.SessionCompleted() | f.SessionPaused() | f.SessionAborted():
                details = fact.reason
            case f.AttemptEnding():
                details = str(fact.attempt)
            case f.RequestOpened():
                details = fact.id
            case _:
                raise AssertionError(f"the engine decided {fact}")
        return f"{fact.TYPE} {details}"

    def _shown_work(self, work: Work) -> str:
        match work:
            case Prepare():
                return f"prepare {self.plan.nodes[work.node].id} {work.iteration}"
            case Execute():
                return f"execute {self.plan.nodes[work.node].id} {work.iteration} attempt {work.attempt}"
            case End():
                return f"end {self.plan.nodes[work.node].id} {work.iteration} attempt {work.attempt}"
            case Wait():
                return f"wait {work.timer} {self.seconds_until(work.due_at)}"


def play(plan: Plan, script: str) -> Play:
    """Play the script; the conversation, for a closer look."""
    lines = [line.strip() for line in script.strip().splitlines() if line.strip()]
    conversation = Play(plan)
    answer: list[str] = []
    for number, line in enumerate(lines, 1):
        mark, _, words = line.partition(" ")
        place = f"line {number} of the script: {line!r}"
        if mark in "<?":
            assert answer, f"{place}: the engine says nothing more"
            assert answer[0] == line, f"{place}: the engine says {answer[0]!r}"
            answer.pop(0)
            continue
        assert not answer, f"{place}: the engine also says {answer}"
        if mark == ">":
            answer = conversation.happens(words)
        elif mark == "@":
            conversation.now += timedelta(seconds=float(words))
        else:
            assert mark == "=", f"{place}: no such mark"
            assert conversation.state is not None
            assert conversation.state.status.value == words, place
    assert not answer, f"at the end the engine also says {answer}"
    refold(conversation)
    return conversation


def refold(conversation: Play) -> None:
    """Every prefix folds to a state that the engine has an answer for, and the whole to the same state."""
    state: RunState | None = None
    for event in conversation.events:
        state = evolve(state, event)
        decide(conversation.plan, state)
    assert state == conversation.state


def _stage(play: Play) -> str:
    assert play.state is not None
    assert play.state.node is not None
    return play.plan.nodes[play.state.node.index].id


def _start(play: Play, words: list[str]) -> f.AnyFact:
    delay = [float(word.removeprefix("delay=")) for word in words if word.startswith("delay=")]
    return started(play.plan, f.Settings("mock" in words, delay[0] if delay else None))


def _complete(play: Play, words: list[str]) -> f.AnyFact:
    decision = Decision(words[0] if words else "continue")
    result = Result(summary="done", decision=decision)
    return f.IterationCompleted(_stage(play), play.attempt, decision, "", "result.json", result, 10)


def _error(play: Play, words: list[str]) -> f.AnyFact:
    return f.ErrorOccurred(FailureKind(words[0]), "it went wrong", _stage(play), play.attempt)


def _prepared(play: Play, words: list[str]) -> f.AnyFact:
    return f.IterationStarted(_stage(play), _stage(play), "claude", "opus", "0" * 64)


def _fired(play: Play, words: list[str]) -> f.AnyFact:
    play.now = max(play.now, play.due(words[0]))
    return f.TimerFired(words[0])


def _pause(play: Play, words: list[str]) -> f.AnyFact:
    grace = [float(word.removeprefix("grace=")) for word in words if word.startswith("grace=")]
    due = play.now + timedelta(seconds=grace[0]) if grace else None
    return f.PauseRequested(words[0], now="now" in words, due_at=due)


SAYINGS: dict[str, Callable[[Play, list[str]], f.AnyFact]] = {
    "start": _start,
    "prepared": _prepared,
    "unprepared": lambda play, _: f.ErrorOccurred(
        FailureKind.PROMPT_UNREADABLE, "no such prompt", _stage(play), 0
    ),
    "completed": _complete,
    "error": _error,
    "adopted": lambda play, _: f.AttemptAdopted(play.attempt, 4711),
    "lost": lambda play, _: f.AttemptLost(play.attempt, "the engine died", started=True),
    "cancelled": lambda play, _: f.AttemptCancelled(play.attempt, "ended on request"),
    "fired": _fired,
    "pause": _pause,
    "cancel": lambda play, words: f.CancelRequested(words[0]),
    "answer": lambda play, words: f.RequestAnswered(words[0], "resume", "person"),
    "resume": lambda play, words: f.SessionResumed("person", " ".join(words) or None),
    "recover": lambda play, _: f.SessionRecovered(4711, "here"),
    "taken-up-by-person": lambda play, words: f.SessionRecovered(
        4711, "here", "person", " ".join(words) or None
    ),
    "repaired": lambda play, _: f.LogRepaired(12, "events.jsonl.torn-800"),
}
_ABOUT_THE_RUN = (
    f.SessionStarted,
    f.SessionRecovered,
    f.SessionResumed,
    f.PauseRequested,
    f.CancelRequested,
    f.TimerFired,
    f.RequestAnswered,
    f.LogRepaired,
)
