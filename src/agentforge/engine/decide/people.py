"""Gates of a stage that involve people: approvals, an agent's questions, restarts and skips."""

from msgspec.structs import replace

from agentforge.engine.claims import words_of
from agentforge.engine.decide.checks import follow_verdict, verdict_feedback
from agentforge.engine.decide.requests import Question, Ruling, withdrawn
from agentforge.engine.decide.stage_at import StageAt
from agentforge.engine.decide.task_kinds import ended, in_flight_at
from agentforge.model import facts as f
from agentforge.model.event import Draft
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.plan import PASS, Approval
from agentforge.model.request import ABORT, APPROVE, REJECT, Request
from agentforge.model.result import AgentQuestion, Decision
from agentforge.model.state import StageState

MAX_QUESTION_ROUNDS = 3
"""How often a stage may ask during a visit, before a person decides whether it may continue to ask."""

MAX_NAMED = 3
"""How much of what was left for git the question names; `agentforge show` has all of it."""
APPROVED = "approved"
"""Why a stage ended whose result was approved."""
BY_OPTION = "--yes"
"""Who approved, if the run was started with that option."""


# -- approvals


def awaits_approval(here: StageAt) -> Ruling | None:
    """A result that was shown stays as it is: the stage waits for the answer, and is over when it is
    approved, even if the run was recompiled since."""
    if here.at.approved:
        return follow_verdict(here) or Ruling(done=APPROVED)
    asked = next((request for request in requests_of(here) if request.kind == "approval"), None)
    if asked is None:
        return None
    if not here.state.settings.approve:
        return Ruling()
    return Ruling((Draft(f.RequestAnswered(asked.id, APPROVE, BY_OPTION), asked.at),))


def approval(here: StageAt) -> Ruling | None:
    """The stage has ended: its result is shown, unless that isn't needed."""
    if here.node.approve is None:
        return None
    question = _approval_question(here, here.node.approve)
    if here.state.settings.approve:
        question = replace(question, answer=APPROVE, answered_by=BY_OPTION)
    return Ruling(question=question)


def _approval_question(here: StageAt, approval: Approval) -> Question:
    round = f" (round {here.at.round} of {_rounds(here)})" if here.at.round > 1 else ""
    text = approval.message or f"Approve the result of stage {here.node.id!r}?"
    defaults = {"approve": APPROVE, "abort": ABORT}
    # Who approves should look at what is left for git before running git there.
    left = here.at.git_left
    more = f" and {len(left) - MAX_NAMED} more" if len(left) > MAX_NAMED else ""
    named = ". ".join(item.text for item in left[:MAX_NAMED])
    left_in_git = f" Left for git: {named}{more}." if left else ""
    return Question(
        "approval",
        f"{here.who}{text}{round}{left_in_git}",
        (APPROVE, REJECT, ABORT),
        kind="approval",
        answerers=("person",) if approval.by == "person" else ("person", "agent"),
        timeout=approval.timeout,
        default=defaults.get(approval.on_timeout) if approval.timeout is not None else None,
    )


def rejected(here: StageAt) -> Ruling | None:
    """After a rejection, the stage is visited again with the feedback. When the rounds are used up, a person
    decides whether there is another."""
    feedback = here.at.rejected
    if feedback is None:
        return None
    if here.at.round >= _rounds(here):
        return Ruling(
            question=Question(
                "approval_rounds",
                f"{here.who}the result of stage {here.node.id!r} was rejected {here.at.round} times, by "
                f"{feedback.by} the last time. Run the stage again?",
                grants="rounds",
            )
        )
    told = replace(feedback, files=here.files)
    return here.visit_again("rejected", feedback.text, by=feedback.by, feedback=told)


def _rounds(here: StageAt) -> int:
    return (here.node.approve.rounds if here.node.approve else 1) + here.at.rounds_granted


# -- questions of the agent


def asked_by_agent(here: StageAt) -> Ruling | None:
    """The agent's blocking questions are asked; others are recorded with their defaults."""
    if here.at.last_decision is not Decision.ASK:
        return None
    if here.at.asked > MAX_QUESTION_ROUNDS + here.at.asks_granted:
        return Ruling(
            question=Question(
                "question_rounds",
                f"{here.who}the agent of stage {here.node.id!r} has asked {here.at.asked} times"
                " without finishing. Let it ask again?",
                grants="rounds",
            )
        )
    missing = [question for question in here.at.questions if not is_answered(question, here.at)]
    blocking = next((question for question in missing if question.blocking), None)
    if blocking is not None and here.node.on_escalation != "ask":
        return _not_asked(here, f"the agent asked: {blocking.question}")
    keys = {request.key for request in here.state.requests}
    for question in missing:
        asked = _agent_question(here, question)
        if not question.blocking:
            return Ruling(question=replace(asked, answer=question.default or "", answered_by="default"))
        if asked.key not in keys:
            return Ruling(question=asked)
    return Ruling() if missing else None


def _not_asked(here: StageAt, problem: str) -> Ruling | None:
    """What follows instead. After a resume, another iteration may do without an answer."""
    if here.node.on_escalation == "fail":
        is_new = here.at.asked > here.at.asks_granted
        return Ruling(failure=Failure(FailureKind.AGENT_ERROR, problem)) if is_new else None
    return here.record(f.StageVerdictReached(PASS, problem, SKIPPED, skipped_by="on_escalation"))


def _agent_question(here: StageAt, question: AgentQuestion) -> Question:
    return Question(
        "question",
        f"{here.who}{question.question}",
        question.options,
        at=here.place.cursor(here.at.completed),
        kind="question",
        subject=question.id,
        default=question.default,
    )


def is_answered(question: AgentQuestion, at: StageState) -> bool:
    """Agents reuse ids, so the text counts."""
    text = words_of(question.question)
    return any(words_of(answer.question) == text for answer in at.answers)


# -- restarts, and stages that a person skips


SKIPPED = "skipped"
"""Why a stage ended that a person skips."""


def skipped(here: StageAt) -> Ruling | None:
    """The run continues as after `pass`, without the stage's hooks and approval: what is running is stopped,
    and what the stage asked is withdrawn. A route that was taken already is followed."""
    waiver = here.waiver
    if here.at.transition is not None:
        return None
    if here.at.is_skipped:
        return follow_verdict(here) or Ruling(done=SKIPPED)
    if waiver is None:
        return None
    if stops := _stopped(here, f"{waiver.by} skips the stage"):
        return stops
    passed = f.StageVerdictReached(PASS, waiver.reason, SKIPPED, skipped_by=waiver.by)
    return Ruling((*withdrawn(requests_of(here)), *here.record(passed).facts))


def _stopped(here: StageAt, reason: str) -> Ruling | None:
    """Stops what is running in the stage; None if nothing is."""
    if (task := in_flight_at(here)) is None:
        return None
    ends = ended(task, reason)
    return Ruling((ends,)) if ends else Ruling(work=(task,))


def restarted(here: StageAt) -> Ruling | None:
    """Stop what is running, withdraw the stage's requests, and visit the stage again."""
    restart = here.at.restart
    if restart is None:
        return None
    if stops := _stopped(here, restart.reason):
        return stops
    verdict, feedback = here.at.verdict, here.at.feedback
    if verdict is not None and verdict.word != PASS:
        feedback = verdict_feedback(here, verdict, restart.reason)
    again = here.visit_again("requested", restart.reason, by=restart.by, feedback=feedback)
    return Ruling((*withdrawn(requests_of(here)), *again.facts))


def requests_of(here: StageAt) -> list[Request]:
    """The requests that this visit of the stage opened."""
    if not here.state.requests:
        return []
    at = here.place.cursor(0)
    return [
        request
        for request in here.state.requests
        if request.at is not None
        and (request.at.node_path, request.at.node_run, request.at.provider)
        == (at.node_path, at.node_run, at.provider)
    ]
