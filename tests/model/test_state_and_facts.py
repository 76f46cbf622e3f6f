"""What the records say about themselves."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.engine.plans import NOON, block, event, plan_of, stage, started

from agentforge.engine.evolve.run import evolve
from agentforge.model import facts as f
from agentforge.model.codec import encode_fact
from agentforge.model.course import CourseStep
from agentforge.model.cursor import Cursor
from agentforge.model.facts import IterationCompleted
from agentforge.model.place import place_of
from agentforge.model.result import Decision, Result
from agentforge.model.state import MAX_NOTES_BYTES, Note, StageState, latest_notes


def completed(output: str | None, text: str | None) -> IterationCompleted:
    result = ("plan", 1, Decision.CONTINUE, "", "/runs/001/result.json", Result(), 5)
    return IterationCompleted(*result, output=output, text=text)


def kinds_of(base: type[f.Fact]) -> Iterator[type[f.Fact]]:
    for kind in base.__subclasses__():
        yield kind
        yield from kinds_of(kind)


def test_every_kind_of_fact_can_be_read_from_a_log() -> None:
    ours = {kind for kind in kinds_of(f.Fact) if kind.__module__.startswith(f.__name__)}
    assert {kind for kind in ours if hasattr(kind, "TYPE")} == set(f.FACTS.values())


def test_a_recovery_is_a_step_of_the_course_only_if_a_person_asked_for_it() -> None:
    assert f.SessionRecovered(7, "host", by="person").step() == CourseStep("resumed")
    assert f.SessionRecovered(7, "host").step() is None


def test_output_file_is_known_before_it_is_written() -> None:
    assert completed("/runs/001/output.md", None).output_file == "/runs/001/output.md"
    assert completed(None, "it said this").output_file == "/runs/001/output.md"
    assert completed(None, None).output_file is None


def test_latest_notes_that_fit_are_kept() -> None:
    long = Note("x" * (MAX_NOTES_BYTES - 3), "person")
    short = Note("äb", "person")
    assert latest_notes((long, short)) == (long, short)
    assert latest_notes((short, long, short)) == (long, short)
    assert latest_notes((Note("x" * (MAX_NOTES_BYTES + 1), "person"),)) == ()


def test_stage_of_a_branch_has_no_place_outside_its_block() -> None:
    plan = plan_of(block("claude", stage("draft")))
    state = evolve(None, event(1, started(plan), Cursor("0", 0, 0)))
    assert place_of(plan, state, "claude", StageState("0.0", 1)) is None
    assert place_of(plan, state, None, StageState("7", 1)) is None


@pytest.mark.parametrize(
    ("fact", "field"),
    [
        (f.IterationStarted("s", "s", "claude", "opus", ""), b'"attempt":1'),
        (f.NodeStarted("s"), b'"runs":1'),
        (f.NodeCompleted("s", "done", 1), b'"status":"completed"'),
        (f.ProviderCompleted("claude"), b'"status":"completed"'),
    ],
    ids=["iteration_start", "node_start", "node_complete", "parallel_provider_complete"],
)
def test_specified_fields_are_written_even_if_they_have_their_default(fact: f.AnyFact, field: bytes) -> None:
    assert field in encode_fact(fact)


def asks(id: str, due: float | None, default: str | None) -> f.RequestOpened:
    due_at = NOON + timedelta(seconds=due) if due is not None else None
    return f.RequestOpened(id, "approval", id, "x", "?", ("yes", "no"), due_at=due_at, default=default)


def test_run_that_waits_wakes_at_the_earliest_time_with_a_default() -> None:
    facts = [
        started(plan_of(stage())),
        asks("a-1", 50, None),
        asks("b-2", 90, "yes"),
        asks("c-3", 70, "no"),
        asks("d-4", None, "no"),
    ]
    state = None
    for seq, fact in enumerate(facts, 1):
        state = evolve(state, event(seq, fact, Cursor("0", 1, 1)))
    assert state is not None
    assert state.wake_at is None, "it is running"
    state = evolve(state, event(6, f.AwaitingApproval(("a-1", "b-2", "c-3", "d-4"))))
    assert state.wake_at == NOON + timedelta(seconds=70)
    assert evolve(state, event(7, f.CancelRequested("enough"))).wake_at is None
    state = evolve(state, event(7, f.RequestAnswered("c-3", "yes", "ada")))
    assert state.wake_at == NOON + timedelta(seconds=90)
