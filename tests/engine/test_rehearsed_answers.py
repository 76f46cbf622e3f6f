"""Runs with approvals and questions, rehearsed and enacted: people's answers come from the record."""

from typing import Any

import pytest
from tests.engine.plans import NOON, block, plan_of, stage
from tests.engine.playbook import FACTS_BY_VERB, Play
from tests.engine.test_enact import DONE, work

from agentforge.engine.nodes import NodeKey
from agentforge.engine.rehearsal.outcomes import Answers, attempt_of
from agentforge.engine.rehearsal.rehearse import rehearse
from agentforge.engine.rehearsal.rehearsed_run import enact, reply_of
from agentforge.model import facts as f
from agentforge.model.cassette import Exchange, ExchangeOutcome, RecordedAnswer
from agentforge.model.course import CourseStep
from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.plan import Approval, Plan
from agentforge.model.request import Request
from agentforge.model.result import AgentQuestion, Decision, Result

APPROVED = plan_of(stage("draft", approve=Approval()), stage("review", approve=Approval()))
WHICH = AgentQuestion("db", "Which database?", ("sqlite", "postgres"))


class People(Play):
    """A run whose agents ask, and whose people answer."""

    def _shown(self, fact: f.AnyFact) -> str:
        return fact.TYPE

    def does(self, *lines: str) -> "People":
        for line in lines:
            self.happens(line)
        return self

    def works(self, who: str = "") -> "People":
        return self.does(f"{who}prepared", f"{who}completed")

    def asks(self, *questions: AgentQuestion) -> "People":
        self.happens("prepared")
        assert self.state is not None
        result = Result(decision=Decision.ASK, questions=questions)
        fact = f.IterationCompleted("draft", self.attempt, Decision.ASK, "", "result.json", result, 10)
        self.record(fact, self._where(fact))
        self.answer()
        return self

    def complete_both(self) -> None:
        """Two outcomes before the engine decides again."""
        for name in ("codex", "claude"):
            self.provider = name
            fact = FACTS_BY_VERB["completed"](self, [])
            self.record(fact, self._where(fact))
        self.answer()

    def says(self, answer: str, text: str = "", *, branch: str | None = None) -> "People":
        """Answer the oldest open request, or that of a branch."""
        assert self.state is not None
        request = next(r for r in self.state.open_requests if (r.at and r.at.provider) == branch)
        self.record(f.RequestAnswered(request.id, answer, "alice", text), request.at)
        self.answer()
        return self


def course(steps: tuple[CourseStep, ...], *kinds: str) -> list[str]:
    return [f"{step.stage} {step.visit} {step.what}".strip() for step in steps if step.what in kinds]


def is_followed(plan: Plan, events: list[Event]) -> bool:
    rehearsal = rehearse(plan, events)
    assert rehearsal.unrecorded == ()
    return rehearsal.is_same and rehearsal.past == rehearsal.now


def reviewed() -> People:
    """The draft asks once, is rejected once, and both stages are approved."""
    run = People(APPROVED).does("start").asks(WHICH).says("sqlite").works()
    run.says("reject", "Add a title.").works().says("approve").works().says("approve")
    assert run.events[-1].fact == f.SessionCompleted("all_loops_complete")
    return run


def test_run_with_feedback_and_questions_has_the_same_course() -> None:
    events = reviewed().events
    assert is_followed(APPROVED, events)
    past = rehearse(APPROVED, events).past
    entered = course(past, "node_entered", "node_restarted")
    assert entered == [
        "draft 1 node_entered",
        "draft 1 node_restarted",
        "draft 2 node_entered",
        "review 1 node_entered",
    ]


def test_every_part_of_such_a_run_has_the_same_course() -> None:
    events = reviewed().events
    for number in range(1, len(events)):
        assert rehearse(APPROVED, events[:number]).is_same, events[number - 1].fact


def test_run_that_parts_takes_the_recorded_answers() -> None:
    """In the other order, the stages ask for the same approvals at other times."""
    swapped = plan_of(*reversed(APPROVED.nodes))
    rehearsal = rehearse(swapped, reviewed().events)
    assert not rehearsal.is_same
    assert rehearsal.unrecorded == ()
    assert course(rehearsal.now, "node_entered") == [
        "review 1 node_entered",
        "draft 1 node_entered",
        "draft 2 node_entered",
    ]
    assert rehearsal.now[-1].what == "run_completed"


def test_answer_to_a_request_that_was_open_when_the_runs_parted_is_taken() -> None:
    plan, longer = (plan_of(block("claude codex", stage("x", runs, approve=Approval()))) for runs in (2, 3))
    run = People(plan).does("start", "claude: prepared", "claude: completed stop").works("codex: ")
    run.works("codex: ").says("approve", branch="claude").says("approve", branch="codex")
    rehearsal = rehearse(longer, run.events)
    assert [(step.branch, step.iteration) for step in rehearsal.unrecorded] == [("codex", 3)]
    assert [step.branch for step in rehearsal.now if step.what == "stage_over"] == ["claude"]


def test_approval_that_is_new_waits_without_an_answer() -> None:
    plain = plan_of(stage("draft"), stage("review"))
    events = People(plain).does("start").works().works().events
    rehearsal = rehearse(APPROVED, events)
    assert rehearsal.difference is not None
    assert rehearsal.difference.now == CourseStep("person_asked", "draft", iteration=1, detail="approval")
    assert rehearsal.now[-1].detail == "waiting for an answer"


@pytest.mark.parametrize("together", [False, True])
def test_each_branch_gets_its_own_answer(together: bool) -> None:
    plan = plan_of(block("claude codex", stage("draft", approve=Approval())))
    run = People(plan).does("start")
    if together:
        run.does("claude: prepared", "codex: prepared").complete_both()
    else:
        run.works("claude: ").works("codex: ")
    run.says("reject", "Shorter.", branch="codex").says("approve", branch="claude").works("codex: ")
    run.says("approve", branch="codex")
    run.does("manifest")
    assert is_followed(plan, run.events)
    restarted = [event.cursor for event in run.events if isinstance(event.fact, f.NodeRestarted)]
    assert [at and at.provider for at in restarted] == ["codex"]
    other = plan_of(block("codex claude", stage("draft", approve=Approval())))
    again = [step for step in rehearse(other, run.events).now if step.what == "node_restarted"]
    assert [step.branch for step in again] == ["codex"], "whichever branch is first"


# -- cassettes


def given(reason: str, answer: str, stage: str = "draft", iteration: int = 1, **more: Any) -> Exchange:
    about = {key: more.pop(key) for key in ("subject", "text") if key in more}
    fields = {"node": f"stage-{stage}", **more}
    recorded = RecordedAnswer(reason, answer, by="alice", **about)
    return Exchange(stage, iteration, kind="answer", answer=recorded, **fields)


ASKED = ExchangeOutcome(
    "iteration_complete",
    {
        **DONE,
        "decision": "ask",
        "result": {"questions": [{"id": "db", "question": "Which database?", "options": ["sqlite"]}]},
    },
)
TAPE = (
    work("draft", outcome=ASKED),
    given("question", "sqlite", subject="db"),
    work("draft", 2),
    given("approval", "reject", iteration=2, text="Add a title."),
    work("draft", node="stage-draft/run-002"),
    given("approval", "approve", node="stage-draft/run-002"),
    work("review"),
    given("approval", "approve", "review"),
)


def test_cassette_is_enacted_with_the_recorded_answers() -> None:
    events = enact(APPROVED, TAPE)
    assert is_followed(APPROVED, events)
    assert events[-1].fact == f.SessionCompleted("all_loops_complete")
    (restarted,) = (event.fact for event in events if isinstance(event.fact, f.NodeRestarted))
    assert (restarted.feedback and restarted.feedback.text) == "Add a title."
    answers = [event.fact for event in events if isinstance(event.fact, f.RequestAnswered)]
    assert [(fact.answer, fact.by) for fact in answers] == [
        ("sqlite", "alice"),
        ("reject", "alice"),
        ("approve", "alice"),
        ("approve", "alice"),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        (),
        (given("question", "oracle", subject="db"),),
        (given("question", "sqlite", subject="other"),),
        (given("question", "sqlite", subject="db", iteration=2),),
    ],
    ids=["none", "not offered", "another question", "another iteration"],
)
def test_request_without_a_fitting_answer_stays_open(wrong: tuple[Exchange, ...]) -> None:
    events = enact(APPROVED, (TAPE[0], *wrong, *TAPE[2:]))
    assert isinstance(events[-1].fact, f.AwaitingApproval)


def test_recorded_answer_comes_before_the_timeout() -> None:
    plan = plan_of(stage("draft", approve=Approval(timeout=60, on_timeout="abort")))
    assert enact(plan, (work("draft"), given("approval", "approve")))[-1].fact == f.SessionCompleted(
        "all_loops_complete"
    )
    assert isinstance(enact(plan, (work("draft"),))[-1].fact, f.SessionAborted)


def test_answers_about_attempts_are_told_apart() -> None:
    plan = plan_of(stage("draft", semantics="at_most_once"))
    crashed = ExchangeOutcome("error", {"type": "provider_crashed", "message": "no", "stage": "x"})
    events = enact(
        plan,
        (
            work("draft", outcome=crashed),
            given("at_most_once", "retry", attempt=1),
            work("draft", attempt=2, outcome=crashed),
            given("at_most_once", "succeeded", attempt=2),
        ),
    )
    answers = [event.fact.answer for event in events if isinstance(event.fact, f.RequestAnswered)]
    assert answers == ["retry", "succeeded"]
    assert events[-1].fact == f.SessionCompleted("all_loops_complete")


def test_recorded_answers_to_the_same_request_are_used_in_order() -> None:
    at = Cursor("1", 1, 1)
    request = Request("r", "approval", "approval@1/1/1/0", "approval", "?", ("approve",), NOON, at=at)
    answers = Answers()
    for who in ("alice", "bob"):
        answers.add_reply(*reply_of(TAPE[-1], RecordedAnswer("approval", "approve", by=who)))
    for who in ("alice", "bob"):
        assert answers.reply(request, NodeKey("stage-review")) == (f.RequestAnswered("r", "approve", who),)
    assert answers.reply(request, NodeKey("stage-review")) == ()
    assert answers.reply(request, None) == ()


def test_key_of_a_damaged_log_has_no_attempt() -> None:
    for key in ("runtime_limit", "a@b", "a@0/1/1/x", "a@0/1/1/" + "9" * 5000):
        assert attempt_of(f.RequestOpened("r", "escalation", key, "a", "?", ("resume",))) == 0
