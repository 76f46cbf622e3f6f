"""What a limit allows the first time, and again after every answer that grants more of it.

Each row uses a limit up, has the question answered, and uses it up again: how often that takes is what the
answer granted. `resume`: a person resumes the run, which starts all counts over.
"""

from collections.abc import Callable

import pytest
from tests.engine.plans import plan_of, stage
from tests.engine.playbook import Play

from agentforge.model.check import Check
from agentforge.model.hook import Hook
from agentforge.model.plan import Approval, Judgment, Limits, Plan, RetryPolicy, Route
from agentforge.model.request import Request
from agentforge.model.state import RunState
from agentforge.model.status import RunStatus
from agentforge.model.task import Wait

Use = Callable[[Play], object]


def says(*lines: str) -> Use:
    def use(conversation: Play) -> None:
        for words in lines:
            conversation.happens(words)

    return use


def state_of(conversation: Play) -> RunState:
    assert conversation.state is not None
    return conversation.state


def only_request(conversation: Play) -> Request:
    (request,) = state_of(conversation).open_requests
    return request


ROUTINE = {"prepare": "prepared", "agent": "completed stop", "retry": "fired retry"}
"""What else happens until a limit is used once more, by the kind of task or the timer."""


def reaches(kind: str, words: str) -> Use:
    """Whatever has to come before such a task, and its outcome; `{n}` is another number each time."""

    def use(conversation: Play) -> None:
        while (due := _due(conversation)) != kind:
            conversation.happens(ROUTINE[due])
        conversation.happens(words.replace("{n}", str(len(conversation.events))))

    return use


def _due(conversation: Play) -> str:
    (work,) = conversation.work
    return work.timer if isinstance(work, Wait) else work.KIND


def rejects(conversation: Play) -> None:
    """The result of the stage; it has been shown already if the limit of rejections was just extended."""
    if not state_of(conversation).open_requests:
        says("prepared", "completed")(conversation)
    conversation.happens(f"answer {only_request(conversation).id} reject Shorter.")


def asks(conversation: Play) -> None:
    """The agent repeats the questions that were answered, with a new one."""
    for request in state_of(conversation).open_requests:
        conversation.happens(f"answer {request.id} this")
    known = len(conversation.stage.answers)
    says("prepared", f"asks {' '.join(f'Q{n}' for n in range(known + 1))}")(conversation)
    if only_request(conversation).kind == "question":
        conversation.happens(f"answer {only_request(conversation).id} this")


def checked(**limits: int) -> Plan:
    back = (Route("fail", "go", "plan"),)
    return plan_of(stage(checks=(Check("tests", "make test"),), routes=back, limits=Limits(**limits)))


CALLS = Hook("h", "stage_start", "webhook", url="u")
RESTARTS = Hook("h", "stage_end", "webhook", url="u")
WORKING = says("start", "prepared")

ROWS: dict[str, tuple[Plan, Use, Use, list[tuple[str, int]]]] = {
    # the plan, how it begins, what uses the limit, and how often that takes: at first, and after each answer
    "approval_rounds": (
        plan_of(stage(approve=Approval(rounds=2))),
        says("start"),
        rejects,
        [("", 2), ("2", 2), ("retry", 1), ("3", 3), ("resume", 2), ("1", 1)],
    ),
    "question_rounds": (
        plan_of(stage(runs=50)),
        says("start"),
        asks,
        [("", 4), ("2", 2), ("retry", 1), ("resume", 4), ("2", 2)],
    ),
    "attempts_lost": (
        plan_of(stage()),
        WORKING,
        says("lost"),
        [("", 3), ("retry", 1), ("retry", 1), ("resume", 3), ("retry", 1)],
    ),
    "check_lost": (
        checked(),
        says("start", "prepared", "completed stop"),
        says("check lost"),
        [("", 3), ("retry", 3), ("resume", 3), ("retry", 3)],
    ),
    "hook_lost": (
        plan_of(stage(), hooks=(CALLS,)),
        says("start"),
        says("hook lost"),
        [("", 3), ("retry", 3), ("retry", 3)],
    ),
    "judge_lost": (
        plan_of(stage(runs=9, termination=Judgment(9, 1, 1))),
        says("start", "prepared", "completed"),
        says("judge-lost"),
        [("", 3), ("retry", 1), ("resume", 3)],
    ),
    "recoveries_without_progress": (
        plan_of(stage()),
        says("start"),
        says("recover"),
        [("", 3), ("retry", 3), ("retry", 3), ("resume", 3)],
    ),
    "cycle_limit": (
        checked(cycles=3),
        says("start"),
        reaches("check", "check fail f{n} tree=t{n}"),
        [("", 3), ("2", 2), ("retry", 1), ("2", 2), ("resume", 3), ("2", 2)],
    ),
    "no_progress": (
        checked(cycles=9, no_progress=2, cluster=9),
        says("start"),
        reaches("check", "check fail same tree=t"),
        [("", 2), ("retry", 2), ("resume", 2)],
    ),
    "failure_cluster": (
        checked(cycles=9, no_progress=9, cluster=3),
        says("start"),
        reaches("check", "check fail same tree=t"),
        [("", 3), ("retry", 3), ("resume", 3)],
    ),
    "failure_cluster without trees": (
        checked(cycles=9, no_progress=2, cluster=3),
        says("start"),
        reaches("check", "check fail same"),
        [("", 3), ("retry", 3), ("resume", 3)],
    ),
    "provider_crashed": (
        plan_of(stage(retry=RetryPolicy(max_attempts=2))),
        WORKING,
        reaches("agent", "error provider_crashed"),
        [("", 2), ("resume", 2), ("resume", 2)],
    ),
    "retries_exhausted": (
        plan_of(stage(retry=RetryPolicy(2, retried="any", exhausted="ask"))),
        WORKING,
        reaches("agent", "error agent_error"),
        [("", 2), ("retry", 1), ("retry", 1), ("resume", 2)],
    ),
    "hook_restarts": (
        plan_of(stage(), hooks=(RESTARTS,)),
        says("start"),
        reaches("hook", "hook restart_stage"),
        # The restart that is asked about is the first of those that are granted.
        [("", 11), ("2", 2), ("retry", 1), ("resume", 10)],
    ),
}


def uses(conversation: Play, use: Use) -> int:
    """How often until the run stops and asks, or fails."""
    for number in range(1, 40):
        use(conversation)
        if state_of(conversation).status is not RunStatus.RUNNING:
            return number
    raise AssertionError("there is no limit")


@pytest.mark.parametrize("reason", ROWS)
def test_every_answer_grants_what_it_says(reason: str) -> None:
    plan, begin, use, expected = ROWS[reason]
    conversation = Play(plan)
    begin(conversation)
    found: list[tuple[str, int, str]] = []
    for answer, _ in expected:
        if answer == "resume":
            conversation.happens("resume")
        elif answer:
            conversation.happens(f"answer {only_request(conversation).id} {answer}")
        number = uses(conversation, use)
        state = state_of(conversation)
        found.append(
            (answer, number, state.failure.kind if state.failure else only_request(conversation).reason)
        )
    assert found == [(answer, number, reason.partition(" ")[0]) for answer, number in expected]
