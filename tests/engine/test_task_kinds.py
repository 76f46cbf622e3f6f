"""What every kind of task has, and the life of one that has no rules of its own."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, event, plan_of, stage, started

from agentforge.engine.decide.task_kinds import KINDS
from agentforge.engine.evolve.run import _APPLY, evolve
from agentforge.engine.evolve.stage import evolve_stage, on_resume
from agentforge.engine.legal import refuse_illegal
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.errors import IllegalMove
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.layout import RunLayout
from agentforge.model.place import Place
from agentforge.model.request import Request
from agentforge.model.state import StageState
from agentforge.model.status import TaskStatus
from agentforge.model.task import StartedTask, Task

HERE = Cursor("0", 1, 0)
RUNNING = evolve(None, event(1, started(plan_of(stage())), HERE))
BROKEN = Failure(FailureKind.AGENT_ERROR, "no space")


class Cleaning(f.TaskFact, frozen=True):
    KIND = "clean"

    room: str
    attempt: int = 1

    @property
    def about(self) -> str:
        return self.room


class Began(Cleaning, f.TaskStarted, frozen=True):
    TYPE = "clean_start"


class Stopping(Cleaning, f.TaskEnding, frozen=True):
    TYPE = "clean_ending"

    reason: str = "lunch"


class Cleaned(Cleaning, f.TaskOutcome, frozen=True):
    TYPE = "clean_complete"


class Failed(Cleaning, f.TaskOutcome, frozen=True):
    TYPE = "clean_failed"

    @property
    def failure(self) -> Failure:
        return BROKEN


class Vanished(Cleaning, f.TaskLost, frozen=True):
    TYPE = "clean_lost"


class Clean(StartedTask, frozen=True, kw_only=True):
    KIND: Any = "clean"

    room: str

    @property
    def about(self) -> str:
        return self.room


def after(*facts: f.TaskFact, at: StageState | None = None) -> StageState:
    at = at or StageState("0", 1)
    for number, fact in enumerate(facts, 2):
        moved: Any = fact
        refuse_illegal(replace(RUNNING, at=at), moved, HERE)
        at = evolve_stage(at, event(number, moved, HERE), fact)
    return at


@pytest.mark.parametrize(
    ("facts", "status", "lost"),
    [
        ((), TaskStatus.RUNNING, 0),
        ((Stopping("attic"),), TaskStatus.ENDING, 0),
        ((Stopping("attic"), Vanished("attic")), TaskStatus.CANCELLED, 0),
        ((Stopping("attic"), Cleaned("attic")), TaskStatus.SUCCEEDED, 0),
        ((Vanished("attic"),), TaskStatus.LOST, 1),
        ((Vanished("attic"), Began("attic", 2), Vanished("attic", 2)), TaskStatus.LOST, 2),
        ((Vanished("attic"), Began("cellar"), Vanished("cellar")), TaskStatus.LOST, 1),
        ((Failed("attic"), Began("attic", 2)), TaskStatus.RUNNING, 0),
    ],
)
def test_a_task_without_rules_of_its_own_lives_like_every_other(
    facts: tuple[f.TaskFact, ...], status: TaskStatus, lost: int
) -> None:
    call = after(Began("attic"), *facts).calls["clean"]
    assert (call.status, call.lost) == (status, lost)


def test_its_failure_is_kept_for_the_gate_that_asked_for_it() -> None:
    assert after(Began("attic"), Failed("attic")).calls["clean"].failure == BROKEN


def test_a_resume_allows_a_retry_after_a_failure_and_counts_its_losses_again() -> None:
    for facts, excused in (((Failed("attic"),), True), ((Vanished("attic"),), False), ((), False)):
        resumed = on_resume(after(Began("attic"), *facts)).calls["clean"]
        assert (resumed.lost, resumed.excused) == (0, excused)


def test_a_person_allows_another_one_when_it_was_lost_too_often() -> None:
    lost = [fact for number in (1, 2, 3) for fact in (Began("attic", number), Vanished("attic", number))]
    given_up = after(*lost)
    assert given_up.calls["clean"].is_given_up
    asked = Request(
        "1", "escalation", "clean_lost@0/1/0/3", "clean_lost", "Again?", ("retry",), opened_at=NOON, at=HERE
    )
    state = replace(RUNNING, at=given_up, requests=(replace(asked, answer="retry"),))
    answered = evolve(state, event(9, f.RequestResolved("1", "continue"), HERE)).node
    assert answered is not None
    assert (answered.calls["clean"].lost, answered.calls["clean"].is_given_up) == (0, False)


def test_a_failure_is_named_in_the_course_and_does_not_count_as_progress() -> None:
    step = Failed("attic").step()
    assert (step.what, step.detail) == ("task_outcome", "clean attic: failed")
    assert [fact.is_progress for fact in (Cleaned("attic"), Failed("attic"), Vanished("attic"))] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("fact", [Began("attic", 2), Began("cellar")])
@pytest.mark.parametrize("before", [(), (Stopping("attic"),), (Cleaned("attic"),)])
def test_it_starts_only_when_none_of_its_kind_is_running_or_done(
    before: tuple[f.TaskFact, ...], fact: f.TaskFact
) -> None:
    with pytest.raises(IllegalMove, match="starts while"):
        after(Began("attic"), *before, fact)


def test_it_has_one_outcome() -> None:
    with pytest.raises(IllegalMove, match="invalid transition"):
        after(Began("attic"), Cleaned("attic"), Vanished("attic"))


def test_an_outcome_whose_start_a_damaged_log_lost_changes_nothing() -> None:
    assert after(Vanished("attic")) == StageState("0", 1)


def test_its_course_names_it() -> None:
    steps = [fact.step() for fact in (Began("attic", 2), Cleaned("attic"), Vanished("attic"))]
    assert [(step.what, step.attempt, step.detail) for step in steps if step] == [
        ("task", 2, "clean attic"),
        ("task_outcome", 1, "clean attic: succeeded"),
        ("task_outcome", 1, "clean attic: lost"),
    ]


def test_its_program_has_a_folder_and_a_mark() -> None:
    task = Clean(Place("0", 1, "stage-00-plan"), "plan", 3, 2, room="attic", started_at=NOON)
    assert task.folder(RunLayout("/run", "s")).root == "/run/stage-00-plan/cleans/attic-3-2"
    assert task.id == "0/1/3/2/clean/attic"
    assert task.mark("r").startswith("r/0/1/3/2/clean/attic@")


# -- the kinds that there are


def kinds_of(base: type[f.TaskFact]) -> list[str]:
    return sorted(fact.KIND for fact in f.FACTS.values() if issubclass(fact, base))


def subclasses(base: type[Task]) -> Iterator[type[Task]]:
    for kind in base.__subclasses__():
        if kind.__module__ == Task.__module__:
            yield from subclasses(kind) if kind is StartedTask else (kind,)


def test_every_fact_is_applied_by_its_subject() -> None:
    assert set(_APPLY) | {*get_args(f.FirstFact)} == set(f.FACTS.values())


def test_every_kind_has_a_row_and_every_kind_with_an_intent_all_facts_of_a_life() -> None:
    assert {kind.KIND for kind in subclasses(Task)} == set(KINDS)
    intents = sorted(kind.KIND for kind in subclasses(StartedTask))
    assert kinds_of(f.TaskStarted) == kinds_of(f.TaskEnding) == kinds_of(f.TaskLost) == intents
    for name, kind in KINDS.items():
        assert (kind.ending is None, kind.stopped is None) == (name not in intents,) * 2
