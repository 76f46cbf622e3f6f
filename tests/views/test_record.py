"""The record of a run under a new plan, and its requests."""

from tests.views.samples import history, plan

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.facts import AnyFact
from agentforge.model.request import Feedback
from agentforge.model.result import Decision, Result
from agentforge.views.record import RunRecord, Said, record_of

START = f.SessionStarted("pipeline", "run-1", plan(), "1.0", format=f.LOG_FORMAT)
PLAN, BUILD = Cursor("0", 1, 1), Cursor("1", 1, 1)
MOVED = f.PlanChanged(plan(), None, {"0": None, "1": "0"}, {"0": "stage-plan"})
BACK = f.PlanChanged(plan(), None, {"0": "1", "stage-plan": "0"})


def record(*facts: tuple[AnyFact, Cursor | None]) -> RunRecord:
    return record_of(history((START, None), *facts))


def iteration(at: Cursor) -> list[tuple[AnyFact, Cursor | None]]:
    begun = f.IterationStarted("build", "build", "command", "opus", "0")
    return [(begun, at), (f.AttemptStarted(1, 2, "command", "opus"), at), (done("done"), at)]


def done(summary: str) -> f.IterationCompleted:
    return f.IterationCompleted("build", 1, Decision.STOP, "", "/r", Result(summary=summary), 9)


def test_what_continues_under_a_new_plan_is_at_the_new_place_of_its_node() -> None:
    begun, checked, ended = iteration(BUILD)
    now = Cursor("0", 1, 1)
    found = record(begun, checked, (f.CheckStarted("test"), BUILD), (MOVED, None), (ended[0], now))
    (visit,) = found.visits
    assert (visit.path, visit.iterations, [run.check for run in visit.checks]) == ("0", 1, ["test"])
    (work,) = found.iterations
    assert (work.path, work.status, len(work.attempts)) == ("0", "completed", 1)


def test_node_that_takes_the_path_of_a_removed_one_does_not_take_its_visits() -> None:
    found = record(*iteration(PLAN), (MOVED, None), *iteration(Cursor("0", 1, 1)))
    assert [(visit.stage, visit.path, visit.iterations) for visit in found.visits] == [
        ("plan", "0", 1),
        ("plan", "0", 1),
    ]
    assert len(found.iterations) == 2
    assert len(record(*iteration(PLAN), (f.PlanChanged(plan(), None, {"0": None}), None)).visits) == 1


def test_removed_node_that_returns_has_its_visits_again() -> None:
    verdict = f.StageVerdictReached("pass")
    found = record(*iteration(PLAN), *iteration(BUILD), (MOVED, None), (BACK, None), (verdict, PLAN))
    assert [(visit.path, visit.verdict) for visit in found.visits] == [("0", "pass"), ("1", "")]


def test_requests_are_kept_with_their_answers() -> None:
    opened = f.RequestOpened("q-1", "question", "k", "asked", "Which?", ())
    answered, closed = f.RequestAnswered("q-1", "a", "me"), f.RequestResolved("q-1", "answered")
    unknown = f.RequestAnswered("q-7", "a", "me")
    found = record((opened, BUILD), (answered, BUILD), (closed, BUILD), (unknown, None))
    assert {id: (one.question, one.answer, one.at) for id, one in found.requests.items()} == {
        "q-1": ("Which?", "a", BUILD)
    }


def test_what_was_said_is_kept_in_order() -> None:
    asked = f.RequestOpened("q-1", "question", "k", "asked", "Which?", ())
    lost = f.RequestOpened("q-2", "question", "k2", "asked", "Where?", ())
    approval = f.RequestOpened("a-1", "approval", "k3", "approval", "Good?", ("approve",))
    told = Feedback("redo", "ada")
    found = record(
        *iteration(BUILD),
        (asked, BUILD),
        (lost, None),
        (approval, BUILD),
        (f.NoteAdded("be quick", "ada"), None),
        (f.RequestAnswered("q-2", "here", "ada", "or there"), None),
        (f.RequestAnswered("q-1", "a", "ada"), BUILD),
        (f.RequestAnswered("a-1", "approve", "ada"), BUILD),
        (f.RequestAnswered("q-7", "a", "ada"), None),
        (f.NodeRestarted("build", "rejected", "", "ada", 1, feedback=told), BUILD),
        (f.NodeRestarted("build", "requested", "", "ada", 1), BUILD),
        (f.StageTransitioned("build", "plan", "fail", feedback=told), BUILD),
    )
    assert found.said == [
        Said("question", "Which?", "build"),
        Said("question", "Where?", ""),
        Said("note", "be quick", "ada"),
        Said("answer", "here\nor there", "ada"),
        Said("answer", "a", "ada"),
        Said("feedback", "redo", "ada", "build"),
        Said("feedback", "redo", "ada", "plan"),
    ]
