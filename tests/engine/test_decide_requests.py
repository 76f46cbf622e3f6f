"""Playbooks of questions to people: who asks, what an answer continues, and what it leaves as it was."""

from datetime import timedelta

import pytest
from tests.engine.plans import NOON, block, plan_of, stage
from tests.engine.playbook import Play, play

from agentforge.engine.evolve.run import evolve
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.errors import IllegalMove
from agentforge.model.plan import Judgment, Plan, Queue, RetryPolicy
from agentforge.model.state import RunState

BEGIN = """
    > start
    < node_start plan
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
"""
LOST = """
    > lost
    < attempt_start 2
    ? execute plan 1 attempt 2
    > lost
    < attempt_start 3
    ? execute plan 1 attempt 3
    > lost
    < request_opened attempts_lost-10
    < session_paused attempts_lost
"""
WAIT = "? wait request:approval-1 60s"


def lost_beside(number: str, then: str, wait: str = "") -> str:
    """The same where more is open: the question has another number, and the run stops in another way."""
    lines = LOST.replace("-10", number).replace("session_paused attempts_lost", then).splitlines()
    return "\n".join(f"{line}\n{wait}" if "execute" in line else line for line in lines)


BLOCK = plan_of(block("claude codex", stage("draft")))
BEGIN_BLOCK = """
    > start
    < node_start duel
    < claude: parallel_provider_start
    < codex: parallel_provider_start
    ? claude: prepare draft 1
    ? codex: prepare draft 1
    > claude: prepared
    < claude: attempt_start 1
    ? claude: execute draft 1 attempt 1
    ? codex: prepare draft 1
    > codex: prepared
    < codex: attempt_start 1
    ? claude: execute draft 1 attempt 1
    ? codex: execute draft 1 attempt 1
"""
CODEX_ASKS = """
    > codex: lost
    < codex: attempt_start 2
    ? claude: execute draft 1 attempt 1
    ? codex: execute draft 1 attempt 2
    > codex: lost
    < codex: attempt_start 3
    ? claude: execute draft 1 attempt 1
    ? codex: execute draft 1 attempt 3
    > codex: lost
    < codex: request_opened attempts_lost-14
    ? claude: execute draft 1 attempt 1
"""


def state_of(conversation: Play) -> RunState:
    assert conversation.state is not None
    return conversation.state


def recovered(conversation: Play, length: int) -> Play:
    """The same run with its log truncated to `length` events, in another engine."""
    again = Play(conversation.plan)
    for event in conversation.events[:length]:
        again.events.append(event)
        again.state, again.now = evolve(again.state, event), event.at
    return again


def lengths(conversation: Play, kind: type[f.AnyFact]) -> list[int]:
    """How long the log is with each event of that kind as its last."""
    return [n for n, event in enumerate(conversation.events, 1) if isinstance(event.fact, kind)]


def count(conversation: Play, kind: type[f.AnyFact]) -> int:
    return len(lengths(conversation, kind))


# -- in branches


def test_answer_continues_a_branch_while_another_works() -> None:
    play(
        BLOCK,
        f"""{BEGIN_BLOCK}{CODEX_ASKS}
        = running
        > answer attempts_lost-14
        < codex: request_resolved attempts_lost-14 continue
        < codex: attempt_start 4
        ? claude: execute draft 1 attempt 1
        ? codex: execute draft 1 attempt 4
        = running
        """,
    )


def test_each_branch_asks_for_itself_and_each_answer_is_for_one() -> None:
    conversation = play(
        BLOCK,
        f"""{BEGIN_BLOCK}{CODEX_ASKS}
        > claude: lost
        < claude: attempt_start 2
        ? claude: execute draft 1 attempt 2
        > claude: lost
        < claude: attempt_start 3
        ? claude: execute draft 1 attempt 3
        > claude: lost
        < claude: request_opened attempts_lost-20
        < session_paused attempts_lost
        = paused
        > answer attempts_lost-20
        < session_continued attempts_lost-20
        < claude: request_resolved attempts_lost-20 continue
        < claude: attempt_start 4
        ? claude: execute draft 1 attempt 4
        = running
        > claude: completed
        < claude: stage_complete draft: Completed 1 iterations (max: 1)
        < claude: parallel_provider_complete completed
        < session_paused attempts_lost
        > answer attempts_lost-14
        < session_continued attempts_lost-14
        < codex: request_resolved attempts_lost-14 continue
        < codex: attempt_start 4
        ? codex: execute draft 1 attempt 4
        """,
    )
    opened = [e.fact for e in conversation.events if isinstance(e.fact, f.RequestOpened)]
    assert [request.scope for request in opened] == ["branch", "branch"]
    assert len({request.key for request in opened}) == 2


def test_request_for_the_whole_run_is_opened_once_and_its_answer_applies_to_all_branches() -> None:
    play(
        plan_of(block("claude codex", stage("draft", runs=2)), max_runtime=100),
        f"""{BEGIN_BLOCK.replace("attempt_start 1", "attempt_start 1 timeout=100")}
        @ 100
        > claude: completed
        < claude: request_opened runtime_limit-10
        ? codex: execute draft 1 attempt 1
        > codex: completed
        < session_paused runtime_limit
        @ 500
        > answer runtime_limit-10
        < session_continued runtime_limit-10
        < claude: request_resolved runtime_limit-10 continue
        ? claude: prepare draft 2
        ? codex: prepare draft 2
        """,
    )


def test_cancel_answered_in_a_branch_ends_the_agents_of_the_others() -> None:
    conversation = play(
        BLOCK,
        f"""{BEGIN_BLOCK}{CODEX_ASKS}
        > answer attempts_lost-14 cancel
        < codex: cancel_requested answered by person
        < codex: request_resolved attempts_lost-14 cancel
        < claude: attempt_ending 1
        ? claude: end draft 1 attempt 1
        > claude: cancelled
        < session_aborted answered by person
        = aborted
        """,
    )
    assert state_of(conversation).requests == ()


# -- crashes around an answer


def test_answer_before_a_crash_is_consumed_once_wherever_the_log_ends() -> None:
    whole = play(
        plan_of(stage()),
        f"""{BEGIN}{LOST}
        > answer attempts_lost-10
        < session_continued attempts_lost-10
        < request_resolved attempts_lost-10 continue
        < attempt_start 4
        ? execute plan 1 attempt 4
        """,
    )
    (answered,) = lengths(whole, f.RequestAnswered)
    for length in range(answered, len(whole.events) + 1):
        again = recovered(whole, length)
        if state_of(again).status.value == "running":
            again.happens("recover")
        else:
            again.answer()
        assert [work.id for work in again.work] == ["0/1/1/4/agent"], length
        for kind in (f.RequestAnswered, f.RequestResolved, f.SessionContinued):
            assert count(again, kind) == 1, (length, kind)
        assert state_of(again).requests == ()


@pytest.mark.parametrize("after_recovery", [False, True])
def test_answer_between_crash_and_recovery_or_after_it_is_consumed_once(after_recovery: bool) -> None:
    """The engine died with the question open, while another branch was running."""
    again = play(BLOCK, BEGIN_BLOCK + CODEX_ASKS)
    steps = ["recover", "answer attempts_lost-14"]
    for step in steps if after_recovery else reversed(steps):
        if step == "recover" or after_recovery:
            again.happens(step)
        else:
            # What the next engine finds in `answers/` is recorded before anything is decided.
            again.record(f.RequestAnswered("attempts_lost-14", "resume", "person"), None)
    assert [work.id for work in again.work] == ["0.0@claude/1/1/1/agent", "0.0@codex/1/1/4/agent"]
    assert (count(again, f.RequestOpened), count(again, f.RequestResolved)) == (1, 1)
    with pytest.raises(IllegalMove, match="is not expected for request"):
        again.happens("answer attempts_lost-14")


def test_engine_that_died_between_question_and_pause_takes_the_answer_without_pausing() -> None:
    whole = play(plan_of(stage()), BEGIN + LOST)
    again = recovered(whole, lengths(whole, f.RequestOpened)[0])
    again.record(f.RequestAnswered("attempts_lost-10", "retry", "person"), None)
    assert again.happens("recover") == [
        "< request_resolved attempts_lost-10 continue",
        "< attempt_start 4",
        "? execute plan 1 attempt 4",
    ]


# -- at most once


ONCE = plan_of(stage("plan", runs=2, semantics="at_most_once"))


@pytest.mark.parametrize("ending", ["lost", "error provider_crashed"])
def test_succeeded_counts_the_iteration_as_done_at_the_top_level(ending: str) -> None:
    conversation = play(
        ONCE,
        f"""{BEGIN}
        > {ending}
        < request_opened at_most_once-6
        < session_paused at_most_once
        > answer at_most_once-6 succeeded
        < session_continued at_most_once-6
        < iteration_complete person confirmed that attempt 1 succeeded
        < request_resolved at_most_once-6 succeeded
        ? prepare plan 2
        """,
    )
    node = state_of(conversation).node
    assert node is not None
    assert (node.completed, node.iteration) == (1, None)


ONCE_BLOCK = plan_of(block("claude codex", stage("draft", runs=2, semantics="at_most_once")))
SUCCEEDED_BRANCH = f"""{BEGIN_BLOCK}
    > codex: lost
    < codex: request_opened at_most_once-10
    ? claude: execute draft 1 attempt 1
    > answer at_most_once-10 succeeded
    < codex: iteration_complete person confirmed that attempt 1 succeeded
    < codex: request_resolved at_most_once-10 succeeded
    ? claude: execute draft 1 attempt 1
    ? codex: prepare draft 2
"""


def test_succeeded_counts_the_iteration_as_done_in_a_branch_while_the_other_works() -> None:
    conversation = play(ONCE_BLOCK, SUCCEEDED_BRANCH)
    codex = state_of(conversation).stage("codex")
    assert codex is not None
    assert codex.completed == 1


@pytest.mark.parametrize(
    ("plan", "script"),
    [
        (
            ONCE,
            f"""{BEGIN}
            > lost
            < request_opened at_most_once-6
            < session_paused at_most_once
            > answer at_most_once-6 succeeded
            < session_continued at_most_once-6
            < iteration_complete person confirmed that attempt 1 succeeded
            < request_resolved at_most_once-6 succeeded
            ? prepare plan 2
            """,
        ),
        (ONCE_BLOCK, SUCCEEDED_BRANCH),
    ],
)
def test_succeeded_is_counted_once_although_the_log_was_cut_before_the_request_was_resolved(
    plan: Plan, script: str
) -> None:
    whole = play(plan, script)
    (completed,) = lengths(whole, f.IterationCompleted)
    (resolved,) = lengths(whole, f.RequestResolved)
    assert resolved == completed + 1
    again = recovered(whole, completed)
    said = again.happens("recover")
    assert next(line for line in said if line.startswith("<")).endswith("succeeded")
    assert (count(again, f.IterationCompleted), count(again, f.RequestResolved)) == (1, 1)
    assert [work.id for work in again.work] == [work.id for work in whole.work]


# -- what an answer leaves as it was, and a resume resets


@pytest.mark.parametrize(
    ("word", "then"),
    [
        ("answer attempts_lost-15", "< session_failed provider_crashed"),
        ("resume", "< retry_scheduled 2/2 in 2s\n? wait retry 2s"),
    ],
)
def test_failures_count_on_after_an_answer_and_no_more_after_a_resume(word: str, then: str) -> None:
    continued = "< session_continued attempts_lost-15" if word != "resume" else ""
    play(
        plan_of(stage(retry=RetryPolicy(max_attempts=2))),
        f"""{BEGIN}
        > error provider_crashed
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        > lost
        < attempt_start 3
        ? execute plan 1 attempt 3
        > lost
        < attempt_start 4
        ? execute plan 1 attempt 4
        > lost
        < request_opened attempts_lost-14
        < session_paused attempts_lost
        > {word.replace("15", "14")}
        {continued.replace("15", "14")}
        < request_resolved attempts_lost-14 {"continue" if continued else "reset"}
        < attempt_start 5
        ? execute plan 1 attempt 5
        > error provider_crashed
        {then}
        """,
    )


def test_attempts_lost_count_on_after_an_answer() -> None:
    play(
        plan_of(stage()),
        f"""{BEGIN}{LOST}
        > answer attempts_lost-10
        < session_continued attempts_lost-10
        < request_resolved attempts_lost-10 continue
        < attempt_start 4
        ? execute plan 1 attempt 4
        > lost
        < request_opened attempts_lost-17
        < session_paused attempts_lost
        = paused
        """,
    )


@pytest.mark.parametrize(("word", "recovered"), [("answer", 6), ("resume", 3)])
def test_recoveries_are_kept_after_an_answer_and_reset_after_a_resume(word: str, recovered: int) -> None:
    conversation = play(plan_of(stage()), "> start\n< node_start plan\n? prepare plan 1")
    for _ in range(3):
        conversation.happens("recover")
    (first,) = state_of(conversation).open_requests
    conversation.happens(f"answer {first.id}" if word == "answer" else "resume")
    for number in range(3):
        assert state_of(conversation).open_requests == (), number
        conversation.happens("recover")
    (second,) = state_of(conversation).open_requests
    assert f"recovered {recovered} times" in second.question


@pytest.mark.parametrize(("word", "timeout"), [("answer", 70), ("resume", 100)])
def test_runtime_is_kept_after_an_answer_and_reset_after_a_resume(word: str, timeout: int) -> None:
    """The time spent waiting for the answer doesn't count as runtime."""
    asked = "< request_opened attempts_lost-10\n< session_paused attempts_lost"
    continued = "< session_continued attempts_lost-10" if word == "answer" else ""
    conversation = play(
        plan_of(stage(), max_runtime=100),
        f"""
        > start
        < node_start plan
        ? prepare plan 1
        > prepared
        < attempt_start 1 timeout=100
        ? execute plan 1 attempt 1
        > lost
        < attempt_start 2 timeout=100
        ? execute plan 1 attempt 2
        @ 30
        > lost
        < attempt_start 3 timeout=70
        ? execute plan 1 attempt 3
        > lost
        {asked}
        @ 5000
        > {"answer attempts_lost-10" if word == "answer" else "resume"}
        {continued}
        < request_resolved attempts_lost-10 {"continue" if continued else "reset"}
        < attempt_start 4 timeout={timeout}
        ? execute plan 1 attempt 4
        """,
    )
    began = NOON + timedelta(seconds=5000 if word == "answer" else 5030)
    assert state_of(conversation).clock_from == began


def test_time_spent_waiting_does_not_count_as_runtime() -> None:
    conversation = play(plan_of(stage(), max_runtime=100), BEGIN.replace("start 1", "start 1 timeout=100"))
    waited = timedelta()
    for _ in range(3):
        while not state_of(conversation).open_requests:
            conversation.now += timedelta(seconds=5)
            conversation.happens("lost")
        (request,) = state_of(conversation).open_requests
        conversation.now += timedelta(hours=1)
        waited += timedelta(hours=1)
        conversation.happens(f"answer {request.id}")
        assert state_of(conversation).clock_from == NOON + waited
    assert state_of(conversation).resumed_at is None


# -- due times and defaults


ASKED = f"""{BEGIN}
    > asked question-1 due=60 default=no
    ? execute plan 1 attempt 1
    ? wait request:question-1 60s
"""


def test_default_applies_without_an_answer_in_time() -> None:
    conversation = play(
        plan_of(stage()),
        f"""{ASKED}
        > fired request:question-1
        < request_answered question-1 no default
        < request_resolved question-1 answered
        ? execute plan 1 attempt 1
        """,
    )
    assert state_of(conversation).requests == ()


def test_answer_in_time_makes_the_timer_moot() -> None:
    conversation = play(
        plan_of(stage()),
        f"""{ASKED}
        @ 59
        > answer question-1 yes
        < request_resolved question-1 answered
        ? execute plan 1 attempt 1
        """,
    )
    # It fired at the same moment, and its event comes behind the answer.
    conversation.record(f.TimerFired("request:question-1"), None)
    assert conversation.answer() == ["? execute plan 1 attempt 1"]
    assert count(conversation, f.RequestAnswered) == 1


def test_timer_before_the_answer_in_the_log_decides_for_the_default() -> None:
    conversation = play(plan_of(stage()), ASKED)
    conversation.now += timedelta(seconds=60)
    conversation.record(f.TimerFired("request:question-1"), None)
    with pytest.raises(IllegalMove, match="takes its default answer"):
        conversation.record(f.RequestAnswered("question-1", "yes", "person"), None)
    assert conversation.answer()[0] == "< request_answered question-1 no default"


def test_answer_before_the_timer_in_the_log_counts() -> None:
    conversation = play(plan_of(stage()), ASKED)
    conversation.now += timedelta(seconds=60)
    conversation.record(f.RequestAnswered("question-1", "yes", "person"), None)
    conversation.record(f.TimerFired("request:question-1"), None)
    assert conversation.answer()[0] == "< request_resolved question-1 answered"
    assert count(conversation, f.RequestAnswered) == 1


def test_due_time_without_a_default_is_not_awaited() -> None:
    play(plan_of(stage()), f"{BEGIN}\n> asked question-1 due=60\n? execute plan 1 attempt 1")


def test_default_of_a_run_that_waits_continues_it() -> None:
    play(
        plan_of(stage()),
        f"""{BEGIN}
        > asked approval-1 due=60 default=cancel
        ? execute plan 1 attempt 1
        ? wait request:approval-1 60s
        {lost_beside("-11", "awaiting_approval approval-1 attempts_lost-11", WAIT)}
        ? wait request:approval-1 60s
        = awaiting_approval
        > fired request:approval-1
        < request_answered approval-1 cancel default
        < session_continued approval-1
        < cancel_requested rejected by default
        < request_resolved approval-1 cancel
        < request_resolved attempts_lost-11 withdrawn
        < session_aborted rejected by default
        = aborted
        """,
    )


# -- approvals


def test_run_awaits_approval_without_runnable_work_until_an_answer() -> None:
    conversation = play(
        plan_of(stage()),
        f"""{BEGIN}
        > asked approval-1
        ? execute plan 1 attempt 1
        = running
        {lost_beside("-11", "awaiting_approval approval-1 attempts_lost-11")}
        = awaiting_approval
        > answer attempts_lost-11
        < session_continued attempts_lost-11
        < request_resolved attempts_lost-11 continue
        < attempt_start 4
        ? execute plan 1 attempt 4
        = running
        """,
    )
    assert [request.id for request in state_of(conversation).open_requests] == ["approval-1"]


def test_run_awaits_approval_again_while_the_other_request_is_open() -> None:
    play(
        plan_of(stage()),
        f"""{BEGIN}
        > asked approval-1
        ? execute plan 1 attempt 1
        > asked approval-2
        ? execute plan 1 attempt 1
        {lost_beside("-12", "awaiting_approval approval-1 approval-2 attempts_lost-12")}
        > answer approval-1 approve
        < session_continued approval-1
        < request_resolved approval-1 approved
        < awaiting_approval approval-2 attempts_lost-12
        = awaiting_approval
        > cancel enough
        < request_resolved approval-2 withdrawn
        < request_resolved attempts_lost-12 withdrawn
        < session_aborted enough
        = aborted
        """,
    )


# -- people who pause


def test_run_that_a_person_paused_is_not_continued_by_an_answer() -> None:
    conversation = play(
        BLOCK,
        f"""{BEGIN_BLOCK}{CODEX_ASKS}
        > pause asked
        ? claude: execute draft 1 attempt 1
        > claude: completed
        < session_paused asked
        > answer attempts_lost-14
        = paused
        > resume
        < codex: request_resolved attempts_lost-14 continue
        < claude: stage_complete draft: Completed 1 iterations (max: 1)
        < codex: attempt_start 4
        < claude: parallel_provider_complete completed
        ? codex: execute draft 1 attempt 4
        = running
        """,
    )
    assert count(conversation, f.RequestAnswered) == 1


def test_cancel_answer_to_a_paused_run_takes_effect_on_resume() -> None:
    play(
        BLOCK,
        f"""{BEGIN_BLOCK}{CODEX_ASKS}
        > pause asked
        ? claude: execute draft 1 attempt 1
        > claude: completed
        < session_paused asked
        > answer attempts_lost-14 cancel
        = paused
        > resume
        < codex: cancel_requested answered by person
        < codex: request_resolved attempts_lost-14 cancel
        < session_aborted answered by person
        = aborted
        """,
    )


# -- failing tasks of every kind


KINDS: dict[str, tuple[Plan, str]] = {
    "agent": (plan_of(stage()), BEGIN),
    "judge": (
        plan_of(stage("plan", termination=Judgment(3, 1, 1))),
        f"{BEGIN}\n> completed\n< judge_start 1\n? judge plan 1 attempt 1",
    ),
}


@pytest.mark.parametrize(("kind", "lost"), [("agent", "lost"), ("judge", "judge-lost")])
def test_task_that_is_lost_three_times_in_a_row_asks_a_person(kind: str, lost: str) -> None:
    plan, script = KINDS[kind]
    conversation = play(plan, script)
    for _ in range(3):
        assert state_of(conversation).open_requests == ()
        said = conversation.happens(lost)
    (request,) = state_of(conversation).open_requests
    assert request.reason == {"agent": "attempts_lost", "judge": "judge_lost"}[kind]
    assert said[-1] == f"< session_paused {request.reason}"
    conversation.happens(f"answer {request.id}")
    assert [work.id for work in conversation.work] == [f"0/1/1/4/{kind}"]


DONE_BLOCK = f"""{BEGIN_BLOCK}
    > claude: completed
    < claude: stage_complete draft: Completed 1 iterations (max: 1)
    < claude: parallel_provider_complete completed
    ? codex: execute draft 1 attempt 1
    > codex: completed
    < codex: stage_complete draft: Completed 1 iterations (max: 1)
    < codex: parallel_provider_complete completed
    ? manifest duel
"""


@pytest.mark.parametrize(
    ("plan", "script", "outcome"),
    [
        (plan_of(stage()), "> start\n< node_start plan\n? prepare plan 1", "prepared"),
        (
            plan_of(stage("plan", termination=Queue(3, check_before=True))),
            "> start\n< node_start plan\n? check queue plan 0",
            "left-in-queue 1",
        ),
        (BLOCK, DONE_BLOCK, "manifest"),
    ],
)
def test_task_that_kills_its_engine_three_times_asks_a_person(plan: Plan, script: str, outcome: str) -> None:
    """Those that leave no trace while they run are known by the recoveries without progress."""
    conversation = play(plan, script)
    waiting = [work.id for work in conversation.work]
    for _ in range(2):
        conversation.happens("recover")
        assert [work.id for work in conversation.work] == waiting
    assert conversation.happens("recover")[-1] == "< session_paused recoveries_without_progress"
    (request,) = state_of(conversation).open_requests
    conversation.happens(f"answer {request.id}")
    assert [work.id for work in conversation.work] == waiting
    assert conversation.happens(outcome), "and it can be done"


# -- the runtime limit in a block


def test_runtime_granted_after_all_branches_ran_out_of_it_is_granted_to_each() -> None:
    """Both agents were ended by the limit at their last attempt; only one branch asks."""
    draft = stage("draft", retry=RetryPolicy(max_attempts=1))
    play(
        plan_of(block("claude codex", draft), max_runtime=100),
        f"""{BEGIN_BLOCK.replace("attempt_start 1", "attempt_start 1 timeout=100")}
        @ 100
        > claude: error iteration_timeout
        < claude: request_opened runtime_limit-10
        ? codex: execute draft 1 attempt 1
        > codex: error iteration_timeout
        < session_paused runtime_limit
        > answer runtime_limit-10
        < session_continued runtime_limit-10
        < claude: request_resolved runtime_limit-10 continue
        < claude: attempt_start 2 timeout=100
        < codex: attempt_start 2 timeout=100
        ? claude: execute draft 1 attempt 2
        ? codex: execute draft 1 attempt 2
        """,
    )


def test_runtime_extension_of_a_block_does_not_retry_at_most_once_work() -> None:
    draft = stage("draft", runs=2, semantics="at_most_once")
    play(
        plan_of(block("claude codex", draft), max_runtime=100),
        f"""{BEGIN_BLOCK.replace("attempt_start 1", "attempt_start 1 timeout=100")}
        @ 100
        > claude: completed
        < claude: request_opened runtime_limit-10
        ? codex: execute draft 1 attempt 1
        > codex: error iteration_timeout
        < codex: request_opened at_most_once-12
        < session_paused at_most_once
        > answer runtime_limit-10
        < session_continued runtime_limit-10
        < claude: request_resolved runtime_limit-10 continue
        ? claude: prepare draft 2
        > answer at_most_once-12 succeeded
        < codex: iteration_complete person confirmed that attempt 1 succeeded
        < codex: request_resolved at_most_once-12 succeeded
        ? claude: prepare draft 2
        ? codex: prepare draft 2
        """,
    )


# -- continuing with another plan


@pytest.mark.parametrize("branch", [None, "codex"])
@pytest.mark.parametrize(("answer", "number"), [("resume", 2), ("succeeded", 0)])
def test_question_follows_its_node_when_that_moves(branch: str | None, answer: str, number: int) -> None:
    """It isn't asked again, and the answer is for the node that was asked about."""
    draft = stage("plan", runs=2, semantics="at_most_once")
    nodes = (block("claude codex", draft),) if branch else (draft,)
    script = BEGIN_BLOCK.replace("draft", "plan") if branch else BEGIN
    conversation = play(plan_of(*nodes), script)
    conversation.happens("codex: lost" if branch else "lost")
    if branch:
        conversation.happens("claude: lost")
    before = len(state_of(conversation).open_requests)
    moved = plan_of(stage("first"), *nodes)
    conversation.record(plan_change(moved, conversation.plan, state_of(conversation)), None)
    conversation.answer()
    assert len(state_of(conversation).open_requests) == before
    (request,) = (r for r in state_of(conversation).open_requests if r.at and r.at.provider == branch)
    conversation.happens(f"answer {request.id} {answer}")
    assert len(state_of(conversation).open_requests) == before - 1
    work = conversation.work[0]
    assert work.id == task_id("1.0@codex" if branch else "1", answer, number)


def task_id(path: str, answer: str, number: int) -> str:
    return f"{path}/1/1/{number}/agent" if answer == "resume" else f"{path}/1/2/0/prepare"


# -- the end


def test_obsolete_request_is_closed_by_the_end_of_the_run() -> None:
    conversation = play(BLOCK, BEGIN_BLOCK)
    for _ in range(3):
        conversation.happens("recover")
    assert conversation.happens("codex: lost") == [
        "< codex: request_opened recoveries_without_progress-13",
        "? claude: execute draft 1 attempt 1",
    ]
    conversation.happens("claude: completed")
    assert [work.id for work in conversation.work] == ["0.0@codex/1/1/2/agent"], "that was progress"
    conversation.happens("codex: completed")
    conversation.happens("manifest")
    assert state_of(conversation).status.value == "completed"
    assert state_of(conversation).requests == ()
