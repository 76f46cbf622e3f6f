"""Playbooks of people who decide: approvals with feedback, checkpoints, an agent's questions, restarts."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, block, nested, plan_of, stage
from tests.engine.playbook import Play, play

from agentforge.engine.decide.run import decide
from agentforge.engine.legal import refuse_note, refuse_restart
from agentforge.engine.rehearsal.rehearse import rehearse
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.changes import LeftInGit
from agentforge.model.cursor import Cursor
from agentforge.model.errors import IllegalMove
from agentforge.model.plan import Approval, Judgment, Plan, Queue, StageNode
from agentforge.model.request import Feedback, Note, Request
from agentforge.model.state import RunState, StageState
from agentforge.model.task import PrepareTask


def approved(name: str = "plan", **how: Any) -> StageNode:
    return stage(name, approve=Approval(**how))


ONE = """
    > start
    < node_start plan
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
"""
DONE = f"""{ONE}
    > completed
    < request_opened approval-6
    < awaiting_approval approval-6
    = awaiting_approval
"""
REJECTED = f"""{DONE}
    > answer approval-6 reject Shorter, please.
    < session_continued approval-6
    < request_resolved approval-6 rejected
    < node_restart plan rejected round=2
    < node_start plan
    ? prepare plan 1
"""
AGAIN = """
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
    > completed
"""


def state_of(conversation: Play) -> RunState:
    assert conversation.state is not None
    return conversation.state


def stage_of(conversation: Play, provider: str | None = None) -> StageState:
    found = state_of(conversation).stage(provider)
    assert found is not None
    return found


def requests(conversation: Play) -> list[f.RequestOpened]:
    return [event.fact for event in conversation.events if isinstance(event.fact, f.RequestOpened)]


# -- approvals


def test_approval_is_asked_before_the_last_stage_is_complete_and_does_not_run_it_again() -> None:
    conversation = play(
        plan_of(approved()),
        f"""{DONE}
        > answer approval-6 approve
        < session_continued approval-6
        < request_resolved approval-6 approved
        < node_complete plan: approved
        < session_complete all_loops_complete
        = completed
        """,
    )
    assert sum(isinstance(event.fact, f.AttemptStarted) for event in conversation.events) == 1


def test_approval_has_its_question_options_and_answerers() -> None:
    (plain,) = requests(play(plan_of(approved()), DONE))
    assert (plain.kind, plain.question) == ("approval", "Approve the result of stage 'plan'?")
    assert (plain.options, plain.answerers) == (("approve", "reject", "abort"), ("person",))
    assert (plain.due_at, plain.default) == (None, None)
    (asked,) = requests(play(plan_of(approved(message="Ship it?", by="agent")), DONE))
    assert (asked.question, asked.answerers) == ("Ship it?", ("person", "agent"))


@pytest.mark.parametrize(
    ("number", "end"),
    [
        (1, "Left for git: 0/.git, a new repository."),
        (3, "0/.git, a new repository. 1/.git, a new repository. 2/.git, a new repository."),
        (5, "2/.git, a new repository and 2 more."),
    ],
)
def test_approval_names_what_was_left_for_git(number: int, end: str) -> None:
    conversation = play(plan_of(approved()), ONE)
    left = tuple(LeftInGit(f"{n}/.git", "repository") for n in range(number))
    conversation.record(f.GitLeft(left), Cursor("0", 1, 1))
    conversation.happens("completed")
    (asked,) = requests(conversation)
    assert asked.question.startswith("Approve the result of stage 'plan'? Left for git: 0/.git")
    assert asked.question.endswith(end)


def test_approval_names_what_every_attempt_left_for_git() -> None:
    conversation = play(plan_of(approved()), ONE)
    for attempt in ("first", "second"):
        conversation.record(f.GitLeft((LeftInGit(f"{attempt}/.git", "repository"),)), Cursor("0", 1, 1))
        conversation.happens("lost" if attempt == "first" else "completed")
    (asked,) = requests(conversation)
    assert asked.question.endswith("first/.git, a new repository. second/.git, a new repository.")


def test_feedback_reaches_the_next_visit_and_no_later_one() -> None:
    conversation = play(plan_of(approved(), stage("build")), REJECTED)
    files = tuple(f"stage-00-plan/iterations/001/{name}" for name in ("output.md", "result.json"))
    (work,) = conversation.work
    assert isinstance(work, PrepareTask)
    assert work.feedback == Feedback("Shorter, please.", "person", files)
    assert work.place.folder == "stage-00-plan/run-002"
    conversation.happens("prepared")
    conversation.happens("completed")
    (second,) = state_of(conversation).open_requests
    assert second.question == "Approve the result of stage 'plan'? (round 2 of 3)"
    conversation.happens(f"answer {second.id} approve")
    (work,) = conversation.work
    assert isinstance(work, PrepareTask)
    assert (work.name, work.feedback) == ("build", None)


@pytest.mark.parametrize(
    ("answer", "why"), [("reject", "rejected by person"), ("abort", "rejected by person")]
)
def test_rejection_without_feedback_aborts_the_run(answer: str, why: str) -> None:
    play(
        plan_of(approved()),
        f"""{DONE}
        > answer approval-6 {answer}
        < session_continued approval-6
        < cancel_requested {why}
        < request_resolved approval-6 cancel
        < session_aborted {why}
        = aborted
        """,
    )


def test_rejection_with_feedback_ends_the_run_if_the_stage_takes_none() -> None:
    play(
        plan_of(approved(feedback=False)),
        f"""{DONE}
        > answer approval-6 reject Shorter, please.
        < session_continued approval-6
        < cancel_requested Shorter, please.
        < request_resolved approval-6 cancel
        < session_aborted Shorter, please.
        = aborted
        """,
    )


def test_abort_says_why() -> None:
    conversation = play(plan_of(approved()), DONE)
    conversation.happens("answer approval-6 abort out of scope")
    assert state_of(conversation).completion_reason == "out of scope"


ROUNDS = f"""{REJECTED}{AGAIN}
    < request_opened approval-16
    < awaiting_approval approval-16
    > answer approval-16 reject Still too long.
    < session_continued approval-16
    < request_resolved approval-16 rejected
    < request_opened approval_rounds-21
    < session_paused approval_rounds
    = paused
"""


@pytest.mark.parametrize(
    ("answer", "effect", "round"), [("retry", "continue", 3), ("2", "granted", 3), ("resume", "reset", 1)]
)
def test_rejection_in_the_last_round_escalates_and_keeps_the_feedback(
    answer: str, effect: str, round: int
) -> None:
    conversation = play(
        plan_of(approved(rounds=2)),
        f"""{ROUNDS}
        > answer approval_rounds-21 {answer}
        < session_continued approval_rounds-21
        < request_resolved approval_rounds-21 {effect}
        < node_restart plan rejected round={round}
        < node_start plan
        ? prepare plan 1
        """,
    )
    at = stage_of(conversation)
    assert at.feedback is not None
    assert (at.feedback.text, at.run) == ("Still too long.", 3)
    assert at.rounds_granted == {"retry": 1, "2": 2, "resume": 0}[answer]


def test_person_who_resumes_after_the_last_round_starts_the_rounds_over() -> None:
    play(
        plan_of(approved(rounds=2)),
        f"""{ROUNDS}
        > resume
        < request_resolved approval_rounds-21 reset
        < node_restart plan rejected round=1
        < node_start plan
        ? prepare plan 1
        """,
    )


@pytest.mark.parametrize(
    ("on_timeout", "then"),
    [
        (
            "approve",
            """
            < request_answered approval-6 approve default
            < session_continued approval-6
            < request_resolved approval-6 approved
            < node_complete plan: approved
            < session_complete all_loops_complete
            """,
        ),
        (
            "abort",
            """
            < request_answered approval-6 abort default
            < session_continued approval-6
            < cancel_requested rejected by default
            < request_resolved approval-6 cancel
            < session_aborted rejected by default
            """,
        ),
    ],
)
def test_approval_that_times_out_takes_its_default(on_timeout: Any, then: str) -> None:
    play(
        plan_of(approved(timeout=60.0, on_timeout=on_timeout)),
        f"""{DONE.replace("    = awaiting", "    ? wait request:approval-6 60s" + chr(10) + "    = awaiting")}
        > fired request:approval-6
        {then}
        """,
    )


def test_approval_that_waits_has_a_due_time_and_no_default() -> None:
    (asked,) = requests(play(plan_of(approved(timeout=60.0)), DONE))
    assert asked.due_at is not None
    assert asked.default is None


def test_open_approval_holds_the_stage_even_if_a_new_plan_allows_more_iterations() -> None:
    conversation = play(plan_of(approved()), DONE)
    more = plan_of(approved())
    more = more.with_stages(lambda node: stage(node.id, 3, approve=node.approve))
    conversation.record(plan_change(more, conversation.plan, state_of(conversation)), None)
    conversation.plan = more
    assert conversation.answer() == []
    assert conversation.happens("answer approval-6 approve")[-2:] == [
        "< node_complete plan: approved",
        "< session_complete all_loops_complete",
    ]


def test_run_that_approves_without_asking_records_who_did() -> None:
    conversation = play(plan_of(approved()), DONE)
    assert conversation.happens("resume-with-yes") == [
        "< request_answered approval-6 approve --yes",
        "< request_resolved approval-6 approved",
        "< node_complete plan: approved",
        "< session_complete all_loops_complete",
    ]


def test_approval_that_a_new_plan_no_longer_wants_is_still_answered_by_the_option() -> None:
    conversation = play(plan_of(approved()), DONE)
    plain = plan_of(stage())
    conversation.record(plan_change(plain, conversation.plan, state_of(conversation)), None)
    conversation.plan = plain
    assert conversation.happens("resume-with-yes")[:2] == [
        "< request_answered approval-6 approve --yes",
        "< request_resolved approval-6 approved",
    ]


def test_run_started_without_asking_opens_and_answers_at_once() -> None:
    conversation = play(plan_of(stage("build"), approved(), stage("last")), ONE.replace("plan", "build"))
    conversation.happens("pause lunch")
    conversation.happens("completed")
    conversation.happens("resume-with-yes")
    conversation.happens("prepared")
    assert [line for line in conversation.happens("completed") if "request" in line] == [
        "< request_opened approval-14",
        "< request_answered approval-14 approve --yes",
        "< request_resolved approval-14 approved",
    ]


# -- in branches

DUEL = plan_of(block("claude codex", approved("draft")))
BOTH_DONE = """
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
    > claude: completed
    < claude: request_opened approval-10
    ? codex: execute draft 1 attempt 1
    = running
    > codex: completed
    < codex: request_opened approval-12
    < awaiting_approval approval-10 approval-12
    = awaiting_approval
"""


def test_each_branch_asks_for_itself_and_is_visited_again_for_itself() -> None:
    conversation = play(
        DUEL,
        f"""{BOTH_DONE}
        > answer approval-12 reject Shorter.
        < session_continued approval-12
        < codex: request_resolved approval-12 rejected
        < codex: node_restart draft rejected round=2
        < codex: node_start draft
        ? codex: prepare draft 1
        > codex: prepared
        < codex: attempt_start 1
        ? codex: execute draft 1 attempt 1
        > answer approval-10 approve
        < claude: request_resolved approval-10 approved
        < claude: stage_complete draft: approved
        < claude: parallel_provider_complete completed
        ? codex: execute draft 1 attempt 1
        > codex: completed
        < codex: request_opened approval-26
        < awaiting_approval approval-26
        > answer approval-26 approve
        < session_continued approval-26
        < codex: request_resolved approval-26 approved
        < codex: stage_complete draft: approved
        < codex: parallel_provider_complete completed
        ? manifest duel
        > manifest
        < node_complete duel: all providers complete
        < session_complete all_loops_complete
        """,
    )
    (again,) = [
        event.fact
        for event in conversation.events
        if isinstance(event.fact, f.NodeStarted) and event.cursor and event.cursor.provider
    ]
    assert (again.run, again.folder) == (2, "parallel-00-duel/providers/codex/stage-00-draft/run-002")


def test_question_of_a_branch_names_it() -> None:
    first, second = requests(play(DUEL, BOTH_DONE))
    assert first.question == "claude: Approve the result of stage 'draft'?"
    assert second.question == "codex: Approve the result of stage 'draft'?"


def test_visits_of_a_branch_are_numbered_on_when_the_block_is_entered_again() -> None:
    plan = plan_of(block("claude", approved("draft")), passes=2)
    conversation = Play(plan)
    for words in ("start", "claude: prepared", "claude: completed"):
        conversation.happens(words)
    for answer in ("reject Shorter.", "approve"):
        (asked,) = state_of(conversation).open_requests
        conversation.happens(f"answer {asked.id} {answer}")
        if answer != "approve":
            conversation.happens("claude: prepared")
            conversation.happens("claude: completed")
    conversation.happens("manifest")
    (work,) = conversation.work
    assert isinstance(work, PrepareTask)
    assert (work.place.path, work.place.run) == ("0.0", 3)
    assert work.place.folder == "parallel-00-duel/run-002/providers/claude/stage-00-draft"


def test_eight_branches_are_approved_in_any_order() -> None:
    names = [f"p{number}" for number in range(8)]
    conversation = Play(plan_of(block(" ".join(names), approved("draft"))))
    conversation.happens("start")
    for name in names:
        conversation.happens(f"{name}: prepared")
        conversation.happens(f"{name}: completed")
    asked = [request.id for request in state_of(conversation).open_requests]
    assert len(asked) == 8
    for id in (asked[::2] + asked[1::2])[::-1]:
        conversation.happens(f"answer {id} approve")
    conversation.happens("manifest")
    assert state_of(conversation).status == "completed"


# -- checkpoints

CHECKED = plan_of(stage("plan"), stage("build", checkpoint="legal"))


def test_checkpoint_is_asked_before_its_node_and_never_again() -> None:
    conversation = play(
        CHECKED,
        f"""{ONE}
        > completed
        < node_complete plan: Completed 1 iterations (max: 1)
        < request_opened checkpoint-7
        < awaiting_approval checkpoint-7
        = awaiting_approval
        > answer checkpoint-7 approve
        < session_continued checkpoint-7
        < checkpoint_cleared legal person
        < request_resolved checkpoint-7 cleared
        < node_start build
        ? prepare build 1
        > prepared
        < attempt_start 1
        ? execute build 1 attempt 1
        ^ 1
        > completed
        < node_complete build: Completed 1 iterations (max: 1)
        < node_start build
        ? prepare build 1
        """,
    )
    (asked,) = requests(conversation)
    assert (asked.question, asked.options) == (
        "Checkpoint 'legal': continue with 'build'?",
        ("approve", "abort"),
    )
    assert state_of(conversation).cleared == ("legal",)


def test_checkpoint_is_cleared_once_if_the_engine_dies_before_its_request_is_closed() -> None:
    conversation = play(
        plan_of(stage(checkpoint="legal")),
        """
        > start
        < request_opened checkpoint-2
        < awaiting_approval checkpoint-2
        """,
    )
    conversation.record(f.RequestAnswered("checkpoint-2", "approve", "person"), None)
    conversation.record(f.SessionContinued(("checkpoint-2",)), None)
    conversation.record(f.CheckpointCleared("legal", "person"), None)
    assert conversation.answer()[:2] == ["< request_resolved checkpoint-2 cleared", "< node_start plan"]


def test_checkpoint_that_is_refused_cancels_the_run() -> None:
    conversation = play(
        plan_of(stage(checkpoint="legal")),
        "> start\n< request_opened checkpoint-2\n< awaiting_approval checkpoint-2",
    )
    conversation.happens("answer checkpoint-2 abort")
    assert state_of(conversation).completion_reason == "answered by person"


def test_checkpoint_of_a_nested_pipeline_is_asked_before_its_first_node_only() -> None:
    inner = nested("polish", stage("refine"), stage("check", checkpoint="style"), runs=2)
    plan = plan_of(replace(inner, checkpoint="budget"))
    assert plan.checkpoints("0.0") == ("budget",)
    assert plan.checkpoints("0.1") == ("budget", "style")
    conversation = Play(plan)
    conversation.happens("start")
    asked = []
    while state_of(conversation).status != "completed":
        for request in state_of(conversation).open_requests:
            asked.append(request.subject)
            conversation.happens(f"answer {request.id} approve")
        for work in conversation.work:
            conversation.happens("prepared" if isinstance(work, PrepareTask) else "completed")
    assert asked == ["budget", "style"]


# -- questions of an agent


def test_agent_waits_for_the_answers_and_gets_them_in_the_next_iteration() -> None:
    conversation = play(
        plan_of(stage()),
        f"""{ONE}
        > asks Which? How?
        < request_opened question-6
        < request_opened question-7
        < awaiting_approval question-6 question-7
        = awaiting_approval
        > answer question-7 slowly
        < session_continued question-7
        < request_resolved question-7 answered
        < awaiting_approval question-6
        > answer question-6 this but_not_that
        < session_continued question-6
        < request_resolved question-6 answered
        ? prepare plan 2
        """,
    )
    (work,) = conversation.work
    assert isinstance(work, PrepareTask)
    said = [(answer.id, answer.question, answer.answer, answer.text) for answer in work.answers]
    assert said == [("q2", "How?", "slowly", ""), ("q1", "Which?", "this", "but_not_that")]


def test_question_fails_a_stage_that_may_not_ask() -> None:
    play(
        plan_of(stage("plan", on_escalation="fail"), stage("build")),
        f"""{ONE}
        > asks Which?
        < session_failed agent_error
        = failed
        > resume
        ? prepare plan 2
        """,
    )


def test_question_ends_a_stage_that_is_skipped_instead() -> None:
    play(
        plan_of(stage("plan", on_escalation="skip", approve=Approval()), stage("build")),
        f"""{ONE}
        > asks Which?
        < stage_verdict pass
        < node_complete plan: skipped
        < node_start build
        ? prepare build 1
        """,
    )


def test_question_that_does_not_block_takes_its_default_at_once() -> None:
    conversation = play(
        plan_of(stage()),
        f"""{ONE}
        > asks Which?=this
        < request_opened question-6
        < request_answered question-6 this default
        < request_resolved question-6 answered
        ? prepare plan 2
        = running
        """,
    )
    assert stage_of(conversation).answers[0].by == "default"


def test_default_is_taken_although_the_log_was_cut_after_the_question() -> None:
    whole = play(plan_of(stage()), ONE)
    whole.happens("asks Which?=this")
    cut = Play(whole.plan)
    for event in whole.events[:6]:
        cut.record(event.fact, event.cursor)
    assert cut.happens("recover")[0] == "< request_answered question-6 this default"


def test_question_that_was_answered_is_not_asked_again() -> None:
    conversation = play(plan_of(stage(runs=3)), ONE)
    conversation.happens("asks Which?")
    conversation.happens("answer question-6 this")
    conversation.happens("prepared")
    assert conversation.happens("asks which?") == ["? prepare plan 3"]


def test_iteration_that_asks_does_not_count_and_is_not_the_last() -> None:
    conversation = play(plan_of(stage()), ONE)
    conversation.happens("asks Which?=this")
    conversation.happens("prepared")
    assert conversation.happens("completed")[0] == "< node_complete plan: Completed 1 iterations (max: 1)"


@pytest.mark.parametrize("ending", [Judgment(1, 1, 1), Queue(1)])
def test_iteration_that_asks_is_not_judged_and_its_queue_is_not_checked(ending: Any) -> None:
    conversation = play(plan_of(stage(termination=ending)), ONE)
    assert conversation.happens("asks Which?=this")[-1] == "? prepare plan 2"
    conversation.happens("prepared")
    conversation.happens("completed")
    said = {type(event.fact) for event in conversation.events}
    work = {task.KIND for task in conversation.work if not hasattr(task, "timer")}
    assert f.JudgeStarted in said or "queue" in work


ASKED_TOO_OFTEN = "the agent of stage 'plan' has asked 4 times without finishing. Let it ask again?"


@pytest.mark.parametrize(("answer", "further"), [("retry", 1), ("2", 2), ("resume", 4)])
def test_fourth_round_of_questions_escalates(answer: str, further: int) -> None:
    conversation = play(plan_of(stage()), ONE)

    def ask(number: int) -> None:
        conversation.happens(f"asks Really_{number}?")

    def answered() -> None:
        (asked,) = state_of(conversation).open_requests
        assert asked.kind == "question"
        conversation.happens(f"answer {asked.id} yes")
        conversation.happens("prepared")

    for number in range(3):
        ask(number)
        answered()
    ask(3)
    (asked,) = state_of(conversation).open_requests
    assert (asked.reason, asked.question, asked.grants) == ("question_rounds", ASKED_TOO_OFTEN, "rounds")
    assert state_of(conversation).status == "paused"
    conversation.happens(f"answer {asked.id} {answer}")
    for number in range(4, 4 + further):
        answered()
        ask(number)
    (asked,) = state_of(conversation).open_requests
    assert asked.reason == "question_rounds"


def test_resume_grants_new_rounds_to_a_branch_whose_question_is_open() -> None:
    """The open question is not about what failed before."""
    conversation = Play(plan_of(block("claude codex", stage("draft"))))
    conversation.happens("start")
    for number in range(3):
        conversation.happens("codex: prepared")
        conversation.happens(f"codex: asks Really_{number}?")
        (asked,) = state_of(conversation).open_requests
        if number < 2:
            conversation.happens(f"answer {asked.id} yes")
    for words in ("claude: prepared", *["claude: lost"] * 3, "resume", f"answer {asked.id} yes"):
        conversation.happens(words)
    conversation.happens("codex: prepared")
    conversation.happens("codex: asks Really_3?")
    (asked,) = state_of(conversation).open_requests
    assert asked.kind == "question"


# -- restarts and notes


def test_restart_stops_the_agent_and_visits_the_stage_again() -> None:
    conversation = play(
        plan_of(stage()),
        f"""{ONE}
        > restart
        < attempt_ending 1
        ? end plan 1 attempt 1
        > cancelled
        < node_restart plan requested round=1
        < node_start plan
        ? prepare plan 1
        """,
    )
    at = stage_of(conversation)
    assert (at.run, at.restart, at.feedback) == (2, None, None)


def test_restart_withdraws_the_requests_of_the_stage() -> None:
    play(
        plan_of(approved()),
        f"""{DONE}
        > restart
        = awaiting_approval
        > resume
        < request_resolved approval-6 withdrawn
        < node_restart plan requested round=1
        < node_start plan
        ? prepare plan 1
        """,
    )


def test_restart_of_a_branch_leaves_the_others_alone() -> None:
    conversation = play(DUEL, BOTH_DONE)
    conversation.happens("restart codex")
    conversation.happens("resume")
    (work,) = conversation.work
    assert (work.cursor and work.cursor.provider, work.cursor and work.cursor.node_run) == ("codex", 2)
    assert [request.id for request in state_of(conversation).open_requests] == ["approval-10"]


def test_restart_keeps_the_feedback_of_the_visit() -> None:
    conversation = play(plan_of(approved()), REJECTED)
    conversation.happens("restart")
    at = stage_of(conversation)
    assert at.feedback is not None
    assert (at.feedback.text, at.run, at.round) == ("Shorter, please.", 3, 2)


def test_restart_that_names_no_stage_is_refused_with_the_reason() -> None:
    running = play(plan_of(stage()), ONE)
    refuse_restart(state_of(running))
    with pytest.raises(IllegalMove, match="provider 'codex' is not in a stage"):
        refuse_restart(state_of(running), "codex")
    between = play(CHECKED, ONE)
    between.happens("completed")
    with pytest.raises(IllegalMove, match="the run is not in a stage"):
        refuse_restart(state_of(between))
    with pytest.raises(IllegalMove, match="branches are restarted separately") as found:
        refuse_restart(state_of(play(DUEL, BOTH_DONE)))
    assert found.value.hint == "name one with --provider: claude, codex"
    running.happens("cancel enough")
    running.happens("cancelled")
    with pytest.raises(IllegalMove, match="is cancelled; no stage can be restarted"):
        refuse_restart(state_of(running))
    with pytest.raises(IllegalMove, match="is cancelled: it has no further iterations"):
        refuse_note(state_of(running))


def test_restart_of_a_stage_that_is_over_by_now_changes_nothing() -> None:
    conversation = play(CHECKED, ONE)
    conversation.happens("completed")
    before = decide(conversation.plan, state_of(conversation))
    conversation.record(f.RestartRequested("late", "person"), None)
    assert decide(conversation.plan, state_of(conversation)) == before


def test_note_reaches_the_next_iteration() -> None:
    conversation = play(plan_of(stage(runs=2)), ONE)
    refuse_note(state_of(conversation))
    conversation.happens("note mind the tests")
    conversation.happens("completed")
    (work,) = conversation.work
    assert isinstance(work, PrepareTask)
    assert work.notes == (Note("mind the tests", "person"),)


def test_rejected_stage_keeps_its_feedback_when_the_pipeline_is_recompiled() -> None:
    conversation = play(plan_of(approved()), DONE)
    conversation.record(f.RequestAnswered("approval-6", "reject", "person", "Shorter."), None)
    for _ in range(3):
        decided = decide(conversation.plan, state_of(conversation)).facts
        for draft in decided[:1]:
            conversation.record(draft.fact, draft.cursor)
    assert isinstance(conversation.events[-1].fact, f.NodeRestarted)
    changed: Plan = plan_of(stage("first"), approved())
    conversation.record(plan_change(changed, conversation.plan, state_of(conversation)), None)
    conversation.plan = changed
    assert conversation.answer()[0] == "< node_start plan"
    at = stage_of(conversation)
    assert at.feedback is not None
    assert (at.path, at.run, at.feedback.text) == ("1", 2, "Shorter.")


# -- whole runs


def test_approval_that_is_open_for_two_days_consumes_no_runtime() -> None:
    conversation = play(
        plan_of(approved(), stage("build"), max_runtime=100), ONE.replace("start 1", "start 1 timeout=100")
    )
    conversation.happens("completed")
    conversation.now += timedelta(days=2)
    conversation.happens("answer approval-6 approve")
    assert conversation.happens("prepared")[0] == "< attempt_start 1 timeout=100"


def test_feedback_in_a_thousand_rounds_leaves_the_state_bounded() -> None:
    conversation = Play(plan_of(approved(rounds=10_000)))
    conversation.happens("start")
    sizes = {}
    for number in range(1000):
        conversation.happens("prepared")
        conversation.happens("completed")
        (asked,) = state_of(conversation).open_requests
        conversation.happens(f"answer {asked.id} reject Round_{number:04d}.")
        sizes[number] = len(msgspec.json.encode(state_of(conversation)))
    (work,) = conversation.work
    assert isinstance(work, PrepareTask)
    assert work.feedback is not None
    assert (work.feedback.text, work.place.run) == ("Round_0999.", 1001)
    assert sizes[999] - sizes[9] <= 40


@pytest.mark.parametrize("answer", ["approve", "reject Shorter.", "abort"])
def test_approvals_are_replayed_from_the_log(answer: str) -> None:
    plan = plan_of(approved(), stage("build", checkpoint="legal"))
    conversation = play(plan, DONE)
    conversation.happens(f"answer approval-6 {answer}")
    if conversation.work:
        conversation.happens("prepared")
    rehearsal = rehearse(plan, conversation.events)
    assert rehearsal.is_same
    assert rehearsal.past == rehearsal.now


def test_questions_and_restarts_are_replayed_from_the_log() -> None:
    plan = plan_of(stage(runs=2))
    conversation = play(plan, ONE)
    for words in (
        "asks Which? How?=so",
        "answer question-6 this",
        "prepared",
        "restart",
        "cancelled",
        "prepared",
    ):
        conversation.happens(words)
    rehearsal = rehearse(plan, conversation.events)
    assert rehearsal.is_same
    assert [step.what for step in rehearsal.past].count("node_restarted") == 1


# -- answers


def request(kind: Any, *options: str, grants: str = "") -> Request:
    return Request("r-1", kind, "k", "r", "May it?", options, NOON, grants=grants)


@pytest.mark.parametrize(
    ("asked", "accepted", "refused"),
    [
        (request("approval", "approve", "reject"), ["approve", "reject"], ["", "yes", "3"]),
        (request("question", "a", "b"), ["a"], ["c", ""]),
        (request("question"), ["any text", "3"], ["", "  "]),
        (
            request("escalation", "retry", grants="rounds"),
            ["retry", "1", "1000000"],
            ["0", "-1", "1000001", "1.5", "\u0663", "9" * 400],
        ),
    ],
)
def test_request_accepts_what_it_offers(asked: Request, accepted: list[str], refused: list[str]) -> None:
    assert [answer for answer in accepted + refused if asked.accepts(answer)] == accepted


def test_answer_to_a_pause_continues_the_run() -> None:
    conversation = play(plan_of(stage()), ONE)
    conversation.happens("asked pause-1")
    assert conversation.happens("answer pause-1 yes")[0] == "< request_resolved pause-1 continue"


def test_runtime_limit_is_extended_by_the_number_of_seconds_that_was_granted() -> None:
    conversation = play(
        plan_of(stage(runs=3), max_runtime=100), ONE.replace("start 1", "start 1 timeout=100")
    )
    conversation.now += timedelta(seconds=100)
    conversation.happens("completed")
    (asked,) = state_of(conversation).open_requests
    assert asked.grants == "seconds"
    conversation.now += timedelta(seconds=5000)
    conversation.happens(f"answer {asked.id} 7")
    assert conversation.happens("prepared")[0] == "< attempt_start 1 timeout=7"
    conversation.now += timedelta(seconds=7)
    conversation.happens("completed")
    (asked,) = state_of(conversation).open_requests
    assert asked.question == "the runtime limit of 7 s is used up. Extend it by the same amount?"
    conversation.happens(f"answer {asked.id} resume")
    assert conversation.happens("prepared")[0] == "< attempt_start 1 timeout=100"


def test_answer_about_a_stage_that_is_over_changes_nothing() -> None:
    conversation = play(plan_of(stage(), stage("build")), ONE)
    asked = f.RequestOpened("r-1", "escalation", "k", "lost", "Retry?", ("retry",))
    conversation.record(asked, Cursor("0", 7, 1))
    conversation.happens("completed")
    before = state_of(conversation).at
    assert conversation.happens("answer r-1 retry")[0] == "< request_resolved r-1 continue"
    assert state_of(conversation).at == before
