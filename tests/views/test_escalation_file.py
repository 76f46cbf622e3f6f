"""The files of the view `escalations`, and what a resolution means."""

from datetime import timedelta
from typing import Any

import pytest
import yaml
from tests.engine.plans import NOON, event, plan_of, stage

from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.failure import FailureKind
from agentforge.model.request import Request
from agentforge.views.files.escalation import Escalations, answer_of_resolution, cancels, escalation_id

PLAN = plan_of(stage())
AT = Cursor("0", 1, 1)


def asks(id: str = "approval-2", **changes: Any) -> f.RequestOpened:
    fields: dict[str, Any] = {
        "kind": "approval",
        "key": id,
        "reason": "approval",
        "question": "Fine?\nReally?",
    }
    return f.RequestOpened(id, **{**fields, "options": ("approve", "reject", "abort"), **changes})


def folded(*facts: f.AnyFact, cursor: Cursor | None = AT) -> dict[str, Any]:
    """The only file that is to be written."""
    view = Escalations()
    for seq, fact in enumerate(facts, 2):
        view.apply(PLAN, event(seq, fact, cursor, after=seq))
    ((name, file),) = view.unwritten.items()
    content: dict[str, Any] = yaml.safe_load(file.content)
    assert name == content["escalation_id"]
    return content


def test_open_request_has_the_fields_that_a_person_needs() -> None:
    file = folded(asks(due_at=NOON, default="abort"))
    assert file["escalation_id"].startswith("ESC-20260115120002-")
    assert (file["pipeline_id"], file["stage"], file["issue"]) == ("auth", "plan", "Fine?\nReally?")
    assert (file["status"], file["resolved_at"], file["answer"]) == ("pending", None, None)
    context = file["context"]
    assert (context["request"], context["kind"], context["reason"]) == ("approval-2", "approval", "approval")
    assert (context["options"], context["default"]) == (["approve", "reject", "abort"], "abort")


def test_answer_and_resolution_close_the_file() -> None:
    said = f.RequestAnswered("approval-2", "reject", "ada", "no")
    answered = folded(asks(), said)
    assert (answered["status"], answered["answer"], answered["answered_by"]) == ("pending", "reject", "ada")
    closed = folded(asks(), said, f.RequestResolved("approval-2", "rejected"))
    assert (closed["status"], closed["text"]) == ("resolved", "no")
    assert closed["resolved_at"].startswith((NOON + timedelta(seconds=4)).strftime("%Y-%m-%dT%H:%M:%S"))


@pytest.mark.parametrize(
    ("fact", "status"),
    [
        (f.SessionAborted("enough"), "resolved"),
        (f.SessionCompleted("all"), "resolved"),
        # These can be resumed, and then still ask.
        (f.SessionFailed(FailureKind.AGENT_ERROR, "no way", "plan"), "pending"),
        (f.SessionPaused("limit"), "pending"),
        (f.AwaitingApproval(("approval-2",)), "pending"),
        (f.PauseRequested("lunch"), "pending"),
    ],
    ids=lambda value: getattr(value, "TYPE", ""),
)
def test_only_the_final_end_of_the_run_closes_the_file(fact: f.AnyFact, status: str) -> None:
    assert folded(asks(), fact)["status"] == status


def test_an_answer_after_a_failed_run_was_resumed_is_shown() -> None:
    failed = f.SessionFailed(FailureKind.AGENT_ERROR, "no way", "plan")
    said = f.RequestAnswered("approval-2", "approve", "ada")
    file = folded(asks(), failed, f.SessionResumed("ada"), said, f.RequestResolved("approval-2", "approved"))
    assert (file["status"], file["answer"], file["answered_by"]) == ("resolved", "approve", "ada")


def test_request_without_a_place_and_facts_about_other_requests_are_harmless() -> None:
    view = Escalations()
    view.apply(PLAN, event(2, f.RequestAnswered("x-1", "y", "z")))
    view.apply(PLAN, event(3, f.RequestResolved("x-1", "continue")))
    assert view.unwritten == {}
    assert folded(asks(), cursor=None)["stage"] == ""


def test_name_depends_on_run_and_request_only() -> None:
    name = escalation_id("run", "approval-2", NOON)
    assert name == escalation_id("run", "approval-2", NOON)
    assert (
        len({name, escalation_id("other", "approval-2", NOON), escalation_id("run", "approval-3", NOON)}) == 3
    )


OPTIONS = {
    "approval": ("approve", "reject", "abort"),
    "checkpoint": ("approve", "abort"),
    "escalation": ("resume", "retry", "cancel"),
    "question": (),
    "pause": ("continue", "abort"),
}


@pytest.mark.parametrize(
    ("kind", "given", "means"),
    [
        ("escalation", {"abort": True}, ("cancel", "")),
        ("escalation", {"abort": False}, ("resume", "")),
        ("escalation", {"abort": False, "context": {"use": "tabs"}}, ("resume", "use: tabs")),
        ("escalation", {"answer": "retry", "text": " once "}, ("retry", "once")),
        ("escalation", {"answer": "sing"}, None),
        ("approval", {"abort": True, "context": "no use"}, ("abort", "no use")),
        ("approval", {"abort": False}, ("approve", "")),
        ("approval", {"context": "use tabs"}, ("reject", "use tabs")),
        ("approval", {"answer": "approve", "text": "fine"}, ("approve", "fine")),
        ("checkpoint", {"abort": False}, ("approve", "")),
        ("checkpoint", {"answer": "reject"}, None),
        ("question", {"context": "blue"}, ("blue", "")),
        ("question", {"answer": 3}, ("3", "")),
        ("question", {"abort": True}, None),
        ("pause", {"abort": False}, ("continue", "")),
        ("pause", {"abort": True}, ("abort", "")),
        ("approval", {}, None),
        ("approval", {"note": "x"}, None),
    ],
)
def test_meaning_of_a_resolution(kind: Any, given: dict[str, Any], means: tuple[str, str] | None) -> None:
    request = Request("r-1", kind, "k", "why", "?", OPTIONS[kind], NOON)
    assert answer_of_resolution(request, given) == means


@pytest.mark.parametrize(("kind", "abort"), [("question", True), ("question", False), ("escalation", True)])
def test_only_a_resolution_of_a_question_cancels_beside_the_answer(kind: Any, abort: bool) -> None:
    request = Request("r-1", kind, "k", "why", "?", OPTIONS[kind], NOON)
    assert cancels(request, {"abort": abort}) is (kind == "question" and abort)


def test_text_about_a_verdict_runs_the_stage_again() -> None:
    request = Request("r-1", "escalation", "k", "verdict", "?", ("accept", "retry", "resume", "cancel"), NOON)
    assert answer_of_resolution(request, {"text": "use tabs"}) == ("retry", "use tabs")
    assert answer_of_resolution(request, {"answer": "accept", "text": "flaky"}) == ("accept", "flaky")
    assert answer_of_resolution(request, {"answer": "accept"}) is None
