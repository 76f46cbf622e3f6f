"""Playbooks of checks, verdicts and routes: the engine verifies the work and sends it back."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, event, nested, plan_of, stage, started
from tests.engine.playbook import Play, play

from agentforge.engine.decide.run import decide
from agentforge.engine.evolve.run import evolve
from agentforge.engine.legal import refuse_illegal
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.check import Check, FilesBefore
from agentforge.model.cursor import Cursor
from agentforge.model.errors import IllegalMove
from agentforge.model.plan import Limits, Plan, RetryPolicy, Route, StageNode
from agentforge.model.state import RunState, Waiver
from agentforge.model.task import AgentTask, CheckTask, PrepareTask


def checked(name: str = "plan", runs: int = 1, **changes: Any) -> StageNode:
    return stage(name, runs, **{"checks": (Check("test", "make test"),), **changes})


def state_of(conversation: Play) -> RunState:
    assert conversation.state is not None
    return conversation.state


def taken(state: RunState) -> dict[str, int]:
    return {key: count.taken for key, count in state.cycles.items()}


BEGIN = """
    > start
    < node_start plan
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
"""
CHECKED = f"""{BEGIN}
    > completed stop
    < check_start test 1
    ? check test 1
"""


# -- checks


def test_check_that_passes_ends_the_stage_with_its_verdict() -> None:
    conversation = play(
        plan_of(checked()),
        f"""{CHECKED}
        > check pass tree=t0
        < stage_verdict pass
        < node_complete plan: Agent requested stop at iteration 1
        < session_complete all_loops_complete
        = completed
        """,
    )
    done = next(e.fact for e in conversation.events if isinstance(e.fact, f.NodeCompleted))
    assert done.verdict == "pass"


def test_agent_that_claims_success_is_sent_back_while_it_has_iterations_left() -> None:
    conversation = play(
        plan_of(checked(runs=3)),
        f"""{BEGIN}
        > completed stop verdict=pass
        < check_start test 1
        ? check test 1
        > check fail test_a
        ? prepare plan 2
        > prepared
        < attempt_start 1
        ? execute plan 2 attempt 1
        """,
    )
    task = next(work for work in conversation.work if isinstance(work, AgentTask))
    assert task.feedback is not None
    assert task.feedback.text == "2 failed"
    assert task.feedback.by == "checks"
    assert (
        play_on(conversation, "completed stop", "check pass")[-1] == "< session_complete all_loops_complete"
    )


def play_on(conversation: Play, *lines: str) -> list[str]:
    said: list[str] = []
    for line in lines:
        said = conversation.happens(line)
    return said


def test_reaching_the_maximum_is_a_failure_if_a_check_says_so() -> None:
    play(
        plan_of(checked()),
        f"""{CHECKED}
        > check fail test_a
        < stage_verdict fail test
        < session_failed checks_failed
        = failed
        > resume
        < check_start test 2
        ? check test 2
        > check pass
        < stage_verdict pass
        < node_complete plan: Agent requested stop at iteration 1
        < session_complete all_loops_complete
        """,
    )


def test_checks_before_the_first_iteration_run_no_agent_if_they_fail() -> None:
    verify = stage("plan", checks=(Check("lint", "make lint", at=("start",)),))
    conversation = play(
        plan_of(verify),
        """
        > start
        < node_start plan
        < check_start lint 1
        ? check lint 1
        > check fail E501
        < stage_verdict fail lint
        < session_failed checks_failed
        """,
    )
    assert not any(isinstance(e.fact, f.AttemptStarted) for e in conversation.events)


def test_checks_after_each_iteration_are_feedback_for_the_next() -> None:
    conversation = play(
        plan_of(stage("plan", 2, checks=(Check("lint", "make lint", at=("iteration",)),))),
        f"""{BEGIN}
        > completed
        < check_start lint 1
        ? check lint 1
        > check fail E501
        ? prepare plan 2
        """,
    )
    task = next(work for work in conversation.work if isinstance(work, PrepareTask))
    assert task.feedback is not None


START, END = Check("build", "make", at=("start",)), Check("test", "make test")
LINT = Check("lint", "make lint")


@pytest.mark.parametrize(
    ("checks", "outcomes", "tree"),
    [
        ((START,), ["pass tree=t0"], None),
        ((START,), ["pass tree=t1"], "t1"),
        ((START,), ["pass"], None),
        ((START, END), ["pass tree=t0", "pass tree=t1"], "t1"),
        ((END, LINT), ["pass tree=t1", "pass tree=t1"], "t1"),
        ((END, LINT), ["pass tree=t1", "pass tree=t2"], None),
        ((END, LINT), ["pass tree=t1", "fail tree=t1"], "t1"),
        ((END, LINT), ["pass tree=t1", "pass"], None),
        ((END,), ["pass"], None),
    ],
    ids=[
        "edited later",
        "not edited",
        "start of unknown",
        "at both",
        "same",
        "edited in between",
        "a report",
        "unknown",
        "none",
    ],
)
def test_tree_of_a_verdict_is_what_all_its_checks_saw(
    checks: tuple[Check, ...], outcomes: list[str], tree: str | None
) -> None:
    conversation = Play(plan_of(stage("plan", checks=checks)))
    conversation.happens("start")
    left = list(outcomes)
    while conversation.work:
        said = {"prepare": "prepared", "agent": "completed stop tree=t1"}
        conversation.happens(said.get(conversation.work[0].KIND) or f"check {left.pop(0)}")
    (judged,) = (e.fact for e in conversation.events if isinstance(e.fact, f.StageVerdictReached))
    assert judged.tree == tree


def test_every_check_of_a_time_runs_also_after_one_that_fails() -> None:
    both = (Check("lint", "make lint"), Check("test", "make test"))
    play(
        plan_of(stage("plan", checks=both)),
        f"""{BEGIN}
        > completed stop
        < check_start lint 1
        ? check lint 1
        > check timeout
        < check_start test 1
        ? check test 1
        > check fail test_a
        < stage_verdict fail lint,test
        < session_failed checks_failed
        """,
    )


def test_check_that_cannot_be_started_is_not_a_failure_of_the_work() -> None:
    play(
        plan_of(checked(runs=3)),
        f"""{CHECKED}
        > check error
        < session_failed check_error
        > resume
        < check_start test 2
        ? check test 2
        """,
    )


def test_outcome_is_void_if_files_changed_and_the_check_runs_again_at_most_twice() -> None:
    conversation = play(
        plan_of(checked()),
        f"""{CHECKED}
        > check pass changed=a.py
        < check_start test 2
        ? check test 2
        > check pass changed=a.py
        < check_start test 3
        ? check test 3
        > check pass changed=a.py
        < session_failed check_error
        """,
    )
    failed = next(e.fact for e in conversation.events if isinstance(e.fact, f.SessionFailed))
    assert failed.message == "check 'test': files changed each time it ran: a.py"


RETRIED = RetryPolicy(initial_delay=1, stage=2, exhausted="ask")


def voids(*numbers: int) -> str:
    """Files change while the check runs; it runs again."""
    again = "> check pass changed=a.py\n< check_start test {0}\n? check test {0}\n"
    return "".join(again.format(number) for number in numbers)


def test_stage_whose_check_was_disturbed_is_retried_from_that_check() -> None:
    """Another run may have changed the files; a signal may have come from outside. No agent runs again."""
    play(
        plan_of(checked(retry=RETRIED)),
        f"""{CHECKED}
        {voids(2, 3)}
        > check pass changed=a.py
        < stage_retry 1/2 check_error in 1s
        ? wait retry 1s
        > fired retry
        < check_start test 4
        ? check test 4
        {voids(5, 6)}
        > check pass changed=a.py
        < stage_retry 2/2 check_error in 2s
        ? wait retry 2s
        > fired retry
        < check_start test 7
        ? check test 7
        > check error problem=terminated
        < request_opened retries_exhausted-24
        < session_paused retries_exhausted
        > answer retries_exhausted-24 retry
        < session_continued retries_exhausted-24
        < request_resolved retries_exhausted-24 continue
        < check_start test 8
        ? check test 8
        > check pass
        < stage_verdict pass
        < node_complete plan: Agent requested stop at iteration 1
        < session_complete all_loops_complete
        """,
    )


@pytest.mark.parametrize("word", ["answer retries_exhausted-8 resume", "resume"])
def test_check_that_cannot_have_a_result_asks_at_once(word: str) -> None:
    continued = "" if word == "resume" else "< session_continued retries_exhausted-8"
    play(
        plan_of(checked(retry=RETRIED)),
        f"""{CHECKED}
        > check error problem=not_started
        < request_opened retries_exhausted-8
        < session_paused retries_exhausted
        > {word}
        {continued}
        < request_resolved retries_exhausted-8 reset
        < check_start test 2
        ? check test 2
        """,
    )


def test_resume_does_not_wait_for_the_retry_of_a_check() -> None:
    play(
        plan_of(checked(retry=RETRIED)),
        f"""{CHECKED}
        > check error problem=terminated
        < stage_retry 1/2 check_error in 1s
        ? wait retry 1s
        > pause asked
        < session_paused asked
        > resume
        < check_start test 2
        ? check test 2
        > check error problem=terminated
        < stage_retry 1/2 check_error in 1s
        ? wait retry 1s
        """,
    )


def test_verdict_that_fails_the_run_is_not_asked_about() -> None:
    play(
        plan_of(checked(retry=RETRIED)),
        f"""{CHECKED}
        > check fail E1
        < stage_verdict fail test
        < session_failed checks_failed
        """,
    )


def test_lost_check_runs_again_and_three_in_a_row_ask() -> None:
    play(
        plan_of(checked()),
        f"""{CHECKED}
        > check lost
        < check_start test 2
        ? check test 2
        > check lost
        < check_start test 3
        ? check test 3
        > check lost
        < request_opened check_lost-12
        < session_paused check_lost
        > answer check_lost-12 retry
        < session_continued check_lost-12
        < request_resolved check_lost-12 continue
        < check_start test 4
        ? check test 4
        """,
    )


PAUSED = f"""{CHECKED}
    > pause asked now
    < check_ending test 1
    ? end check test 1
    > check lost
    < session_paused asked
"""


def test_check_that_was_stopped_on_request_is_not_lost() -> None:
    stopped = play(plan_of(checked()), PAUSED).stage.calls["check"]
    assert stopped.lost == 0


def test_check_in_flight_is_stopped_by_a_pause_and_runs_again() -> None:
    conversation = play(
        plan_of(checked()),
        f"""{PAUSED}
        > resume
        < check_start test 2
        ? check test 2
        """,
    )
    task = next(work for work in conversation.work if isinstance(work, CheckTask))
    assert task.about == "test"
    assert task.mark("r").startswith("r/0/1/1/2/check/test@")
    with pytest.raises(IllegalMove, match="starts while check 2 is running"):
        refuse_illegal(conversation.state, f.CheckStarted("test", 3), task.cursor)


def test_files_before_a_check_are_known_to_the_next_engine() -> None:
    conversation = play(plan_of(checked()), CHECKED)
    seen = f.CheckPrepared("test", 1, FilesBefore("abc"))
    state = evolve(state_of(conversation), event(9, seen, Cursor("0", 1, 1)))
    (task,) = decide(conversation.plan, state).work
    assert isinstance(task, CheckTask)
    assert task.before == seen.files
    unknown = evolve(state_of(play(plan_of(checked()), BEGIN)), event(9, seen, Cursor("0", 1, 1)))
    assert unknown.node is not None
    assert not unknown.node.calls


def test_waived_check_does_not_run_and_the_verdict_says_so() -> None:
    conversation = play(
        plan_of(checked()),
        f"""{BEGIN}
        > waive test
        ? execute plan 1 attempt 1
        > completed stop
        < stage_verdict pass
        < node_complete plan: Agent requested stop at iteration 1
        < session_complete all_loops_complete
        """,
    )
    judged = next(e.fact for e in conversation.events if isinstance(e.fact, f.StageVerdictReached))
    assert judged.waived == ("test",)
    assert [(w.check, w.by) for w in state_of(conversation).waivers] == [("test", "person")]


def test_checks_that_are_waived_one_after_the_other_stay_waived() -> None:
    conversation = Play(plan_of(checked(checks=(Check("lint", "make lint"), Check("test", "make test")))))
    for words in ("start", "prepared", "waive lint", "waive test", "waive lint", "completed stop"):
        conversation.happens(words)
    judged = next(e.fact for e in conversation.events if isinstance(e.fact, f.StageVerdictReached))
    assert judged.waived == ("lint", "test")
    assert [w.check for w in state_of(conversation).waivers] == ["test", "lint"]


def test_what_a_check_saw_before_a_resume_is_not_the_tree_of_the_verdict_after_it() -> None:
    both = (Check("lint", "make lint"), Check("test", "make test"))
    conversation = Play(plan_of(checked(checks=both)))
    conversation.happens("start")
    conversation.happens("prepared")
    for words in ("completed stop tree=t1", "check pass tree=t1", "check error"):
        conversation.happens(words)
    for words in ("waive lint", "resume", "check pass tree=t2"):
        conversation.happens(words)
    judged = next(e.fact for e in conversation.events if isinstance(e.fact, f.StageVerdictReached))
    assert judged.tree == "t2"


def test_check_that_was_waived_at_the_start_does_not_run() -> None:
    first = replace(started(plan_of(checked())), waivers=(Waiver("test", "it is flaky", "Ada"),))
    state = evolve(None, event(1, first, Cursor("0", 0, 0)))
    assert state.waivers == first.waivers


def test_question_about_a_verdict_names_the_waived_check() -> None:
    two = (Check("lint", "make lint"), Check("test", "make test"))
    plan = plan_of(checked(checks=two, routes=(Route("fail", "ask"),)))
    conversation = Play(plan)
    for words in ("start", "prepared", "waive lint", "completed stop", "check fail a"):
        conversation.happens(words)
    (request,) = state_of(conversation).open_requests
    assert request.question.startswith("stage 'plan' ended with 'fail' (waived: lint): check 'test'")


def test_verdict_without_a_route_fails_the_run() -> None:
    play(
        plan_of(stage("plan")),
        f"""{BEGIN}
        > completed stop verdict=reject
        < stage_verdict reject
        < session_failed rejected
        """,
    )


@pytest.mark.parametrize("word", ["reject", "blocking", "pass"])
def test_a_verdict_of_the_agent_ends_a_stage_that_has_iterations_left(word: str) -> None:
    """Only work that fails is sent back to it."""
    said = play(plan_of(stage("plan", 3, verdicts=("blocking",), routes=(Route(word, "end"),))), BEGIN)
    assert said.happens(f"completed stop verdict={word}")[0] == f"< stage_verdict {word}"


@pytest.mark.parametrize("runs", [1, 2, 3])
def test_work_that_fails_is_sent_back_as_long_as_there_are_iterations(runs: int) -> None:
    conversation = play(plan_of(stage("plan", runs)), BEGIN)
    for _ in range(runs - 1):
        assert conversation.happens("completed stop verdict=fail")[-1].startswith("? prepare plan")
        conversation.happens("prepared")
    assert conversation.happens("completed stop verdict=fail")[0] == "< stage_verdict fail"


# -- routes


def loop(limits: Limits | None = None, **changes: Any) -> Plan:
    verify = checked("verify", routes=(Route("fail", "go", "build"),), limits=limits, **changes)
    return plan_of(stage("plan"), stage("build"), verify, stage("last"))


def visit(name: str, number: int = 1) -> str:
    return f"""
    ? prepare {name} 1
    > prepared
    < attempt_start 1
    ? execute {name} 1 attempt {number}
    """


FIRST = f"""
    > start
    < node_start plan
    {visit("plan")}
    > completed stop
    < node_complete plan: Agent requested stop at iteration 1
    < node_start build
"""
TO_CHECK = f"""
    {visit("build")}
    > completed stop
    < node_complete build: Agent requested stop at iteration 1
    < node_start verify
    {visit("verify")}
    > completed stop
    < check_start test 1
    ? check test 1
"""


def back(cycle: str, sign: str, tree: str) -> str:
    return f"""
    > check fail {sign} tree={tree}
    < stage_verdict fail test
    < stage_transition verify to build cycle {cycle}
    < node_complete verify: Agent requested stop at iteration 1
    < node_start build
    """


def test_failing_check_sends_the_run_back_with_its_failures() -> None:
    conversation = play(loop(), f"{FIRST}{TO_CHECK}{back('2/3', 'a', 't1')}{visit('build')}")
    task = next(work for work in conversation.work if isinstance(work, AgentTask))
    assert task.feedback is not None
    assert task.feedback.by == "stage verify"
    assert "2 failed" in task.feedback.text
    assert task.feedback.files == (
        "stage-02-verify/iterations/001/output.md",
        "stage-02-verify/iterations/001/result.json",
    )
    assert state_of(conversation).visits == {"0": 1, "1": 2, "2": 1}


LIMIT = f"""{FIRST}{TO_CHECK}{back("2/3", "a", "t1")}{TO_CHECK}{back("3/3", "b", "t2")}{TO_CHECK}
    > check fail c tree=t3
    < stage_verdict fail test
    < request_opened cycle_limit-47
    < session_paused cycle_limit
    = paused
"""


def test_should_enforce_limit() -> None:
    """The numbers are pass numbers: with limit 3, the third rejection escalates."""
    conversation = play(loop(), LIMIT)
    asked = state_of(conversation).requests[0]
    assert asked.options == ("retry", "accept", "resume", "cancel")
    assert asked.grants == "cycles"
    assert "did not pass in cycle 3 of 3" in asked.question


@pytest.mark.parametrize(("answer", "effect"), [("retry", "continue"), ("1", "granted")])
def test_answer_grants_further_passes(answer: str, effect: str) -> None:
    play(
        loop(),
        f"""{LIMIT}
        > answer cycle_limit-47 {answer}
        < session_continued cycle_limit-47
        < request_resolved cycle_limit-47 {effect}
        < stage_transition verify to build cycle 4/4
        < node_complete verify: Agent requested stop at iteration 1
        < node_start build
        {TO_CHECK}
        > check fail d tree=t4
        < stage_verdict fail test
        < request_opened cycle_limit-66
        < session_paused cycle_limit
        """,
    )


def test_granted_pass_is_gone_when_an_outer_cycle_resets_the_inner_one() -> None:
    routes = (Route("fail", "go", "build"), Route("reject", "go", "plan"))
    verify = stage("verify", routes=routes, limits=Limits(2))
    conversation = Play(plan_of(stage("plan"), stage("build"), verify))
    conversation.happens("start")
    state = concludes(conversation, "pass", "pass", "fail", "pass", "fail")
    assert state.open_requests[0].reason == "cycle_limit"
    assert taken(answered(conversation, "1")) == {"2>1": 2}
    assert taken(concludes(conversation, "pass", "reject")) == {"2>0": 1}
    state = concludes(conversation, "pass", "pass", "fail", "pass", "fail")
    assert "did not pass in cycle 2 of 2" in state.open_requests[0].question
    assert state.visits == {"0": 2, "1": 5, "2": 5}


def answered(conversation: Play, answer: str) -> RunState:
    (request,) = state_of(conversation).open_requests
    conversation.happens(f"answer {request.id} {answer}")
    return state_of(conversation)


def test_resume_resets_the_cycles() -> None:
    play(
        loop(),
        f"""{LIMIT}
        > answer cycle_limit-47 resume
        < session_continued cycle_limit-47
        < request_resolved cycle_limit-47 reset
        < check_start test 2
        ? check test 2
        > check fail d
        < stage_verdict fail test
        < stage_transition verify to build cycle 2/3
        < node_complete verify: Agent requested stop at iteration 1
        < node_start build
        ? prepare build 1
        """,
    )


def test_result_can_be_accepted_despite_its_verdict() -> None:
    conversation = play(
        loop(),
        f"""{LIMIT}
        > answer cycle_limit-47 accept
        < session_continued cycle_limit-47
        < request_resolved cycle_limit-47 accepted
        < node_complete verify: Agent requested stop at iteration 1
        < node_start last
        ? prepare last 1
        """,
    )
    done = [e.fact for e in conversation.events if isinstance(e.fact, f.NodeCompleted)][-1]
    assert (done.verdict, done.overridden_by) == ("fail", "person")


def test_failure_that_keeps_coming_back_escalates_within_the_budget() -> None:
    conversation = play(
        loop(Limits(cycles=10)),
        f"""{FIRST}{TO_CHECK}{back("2/10", "same a", "t1")}{TO_CHECK}{back("3/10", "same b", "t2")}{TO_CHECK}
        > check fail same c tree=t3
        < stage_verdict fail test
        < request_opened failure_cluster-47
        < session_paused failure_cluster
        """,
    )
    assert "the same failure ended 3 visits: test: same" in state_of(conversation).requests[0].question


def test_failure_of_another_stage_is_not_a_reason_to_ask() -> None:
    """Only what this visit failed with counts: a reviewer may send the work back although another stage had
    the same failure three times, with a limit of its own."""
    verify = checked("verify", routes=(Route("fail", "go", "verify"),), limits=Limits(9, 9, 9))
    conversation = Play(plan_of(verify, stage("review", routes=(Route("reject", "go", "verify"),))))
    play_on(conversation, "start")
    for tree, outcome in enumerate(["fail x", "fail x", "fail x", "pass"]):
        play_on(conversation, "prepared", "completed stop", f"check {outcome} tree=t{tree}")
    concludes(conversation, "reject")
    assert [known.visits for known in state_of(conversation).clusters] == [3]
    assert state_of(conversation).open_requests == ()
    assert state_of(conversation).visits == {"0": 5, "1": 1}


def test_same_failures_on_the_same_files_escalate_early() -> None:
    conversation = play(
        loop(),
        f"""{FIRST}{TO_CHECK}{back("2/3", "a", "t1")}{TO_CHECK}
        > check fail a tree=t1
        < stage_verdict fail test
        < request_opened no_progress-33
        < session_paused no_progress
        """,
    )
    assert (
        "failed 2 times in a row with the same failures and no changed files: test: a"
        in state_of(conversation).requests[0].question
    )


def test_forward_route_skips_the_nodes_between() -> None:
    plan = plan_of(
        stage("plan", routes=(Route("pass", "go", "last"),)), stage("build"), stage("check"), stage("last")
    )
    play(
        plan,
        f"""{BEGIN}
        > completed stop
        < stage_verdict pass
        < stage_transition plan to last skipping build,check
        < node_complete plan: Agent requested stop at iteration 1
        < node_start last
        ? prepare last 1
        """,
    )


@pytest.mark.parametrize("action", ["end", "fail"])
def test_routes_that_end_the_run(action: Any) -> None:
    plan = plan_of(stage("plan", routes=(Route("reject", action),)), stage("build"))
    follows = {
        "end": """
        < stage_transition plan to end skipping build
        < node_complete plan: Agent requested stop at iteration 1
        < session_complete all_loops_complete
        """,
        "fail": "< session_failed rejected",
    }
    play(plan, f"{BEGIN}\n> completed stop verdict=reject\n< stage_verdict reject\n{follows[action]}")


ASKED = f"""{BEGIN}
    > completed stop verdict=blocking
    < stage_verdict blocking
    < request_opened verdict-7
    < session_paused verdict
"""


def test_route_that_asks_can_be_accepted() -> None:
    plan = plan_of(stage("plan", verdicts=("blocking",), routes=(Route("blocking", "ask"),)), stage("build"))
    play(
        plan,
        f"""{ASKED}
        > answer verdict-7 accept
        < session_continued verdict-7
        < request_resolved verdict-7 accepted
        < node_complete plan: Agent requested stop at iteration 1
        < node_start build
        ? prepare build 1
        """,
    )


def test_route_that_asks_can_run_the_stage_again() -> None:
    plan = plan_of(stage("plan", verdicts=("blocking",), routes=(Route("blocking", "ask"),)), stage("build"))
    play(
        plan,
        f"""{ASKED}
        > answer verdict-7 retry
        < session_continued verdict-7
        < request_resolved verdict-7 continue
        < node_restart plan requested round=1
        < node_start plan
        ? prepare plan 1
        """,
    )


FAILS_AND_ASKS = f"""{CHECKED}
    > check fail a
    < stage_verdict fail test
    < request_opened verdict-9
    < session_paused verdict
"""


def test_route_that_asks_about_failing_checks_can_run_them_again() -> None:
    play(
        plan_of(checked(routes=(Route("fail", "ask"),)), stage("build")),
        f"""{FAILS_AND_ASKS}
        > answer verdict-9 resume
        < session_continued verdict-9
        < request_resolved verdict-9 reset
        < check_start test 2
        ? check test 2
        > check pass
        < stage_verdict pass
        < node_complete plan: Agent requested stop at iteration 1
        < node_start build
        ? prepare build 1
        """,
    )


def test_stage_whose_only_failing_check_is_waived_passes_without_an_iteration() -> None:
    play(
        plan_of(checked(routes=(Route("fail", "ask"),)), stage("build")),
        f"""{FAILS_AND_ASKS}
        > waive test
        > answer verdict-9 resume
        < session_continued verdict-9
        < request_resolved verdict-9 reset
        < stage_verdict pass
        < node_complete plan: Agent requested stop at iteration 1
        < node_start build
        ? prepare build 1
        """,
    )


def concludes(conversation: Play, *verdicts: str) -> RunState:
    """One visit after another, each with its verdict."""
    for verdict in verdicts:
        conversation.happens("prepared")
        conversation.happens(f"completed stop verdict={verdict}")
    return state_of(conversation)


def test_outer_cycle_resets_exactly_the_counters_inside_it() -> None:
    inner = stage("verify", routes=(Route("fail", "go", "build"),))
    outer = stage("review", routes=(Route("reject", "go", "plan"),))
    last = stage("last", routes=(Route("fail", "go", "review"),))
    conversation = Play(plan_of(stage("plan"), stage("build"), inner, outer, last))
    conversation.happens("start")
    state = concludes(conversation, "pass", "pass", "fail", "pass", "pass", "pass", "fail")
    assert taken(state) == {"2>1": 1, "4>3": 1}
    state = concludes(conversation, "reject")
    assert taken(state) == {"4>3": 1, "3>0": 1}


def test_routes_of_a_nested_pipeline_stay_in_it() -> None:
    verify = stage("verify", routes=(Route("reject", "go", "draft"),))
    plan = plan_of(stage("plan"), nested("polish", stage("draft"), verify))
    conversation = Play(plan)
    conversation.happens("start")
    state = concludes(conversation, "pass", "pass", "reject")
    assert state.node is not None
    assert state.node.path == "1.0"
    assert taken(state) == {"1.1>1.0": 1}


def test_cycle_of_a_nested_pipeline_keeps_the_counters_of_others() -> None:
    again = (Route("reject", "go", "draft"),)
    plan = plan_of(nested("one", stage("draft", routes=again)), nested("two", stage("draft", routes=again)))
    conversation = Play(plan)
    conversation.happens("start")
    state = concludes(conversation, "reject", "pass", "reject")
    assert taken(state) == {"0.0>0.0": 1, "1.0>1.0": 1}


def test_route_inside_a_block_stays_in_its_branch() -> None:
    verify = stage("verify", routes=(Route("reject", "go", "draft"),))
    conversation = play(
        plan_of(block("claude", stage("draft"), verify, stage("last"))),
        """
        > start
        < node_start duel
        < claude: parallel_provider_start
        ? claude: prepare draft 1
        > claude: prepared
        < claude: attempt_start 1
        ? claude: execute draft 1 attempt 1
        > claude: completed stop
        < claude: stage_complete draft: Agent requested stop at iteration 1
        ? claude: prepare verify 1
        > claude: prepared
        < claude: attempt_start 1
        ? claude: execute verify 1 attempt 1
        > claude: completed stop verdict=reject
        < claude: stage_verdict reject
        < claude: stage_transition verify to draft cycle 2/3
        < claude: stage_complete verify: Agent requested stop at iteration 1
        < claude: node_start draft
        ? claude: prepare draft 1
        > claude: prepared
        < claude: attempt_start 1
        ? claude: execute draft 1 attempt 1
        > claude: completed stop
        < claude: stage_complete draft: Agent requested stop at iteration 1
        < claude: node_start verify
        ? claude: prepare verify 1
        > claude: prepared
        < claude: attempt_start 1
        ? claude: execute verify 1 attempt 1
        > claude: completed stop verdict=pass
        < claude: stage_verdict pass
        < claude: stage_complete verify: Agent requested stop at iteration 1
        ? claude: prepare last 1
        """,
    )
    assert taken(state_of(conversation)) == {"0.1@claude>0.0": 1}


def test_route_that_ends_a_branch_passes_over_its_other_stages() -> None:
    first = stage("draft", routes=(Route("reject", "end"),))
    play(
        plan_of(block("claude", first, stage("last"))),
        """
        > start
        < node_start duel
        < claude: parallel_provider_start
        ? claude: prepare draft 1
        > claude: prepared
        < claude: attempt_start 1
        ? claude: execute draft 1 attempt 1
        > claude: completed stop verdict=reject
        < claude: stage_verdict reject
        < claude: stage_transition draft to end skipping last
        < claude: stage_complete draft: Agent requested stop at iteration 1
        < claude: parallel_provider_complete completed
        ? manifest duel
        """,
    )


def test_recompiled_plan_keeps_the_counters_of_moved_stages() -> None:
    plan = loop()
    conversation = play(plan, f"{FIRST}{TO_CHECK}{back('2/3', 'a', 't1')}{visit('build')}")
    moved = plan_of(stage("new"), *plan.nodes)
    conversation.record(plan_change(moved, plan, state_of(conversation)), state_of(conversation).cursor)
    assert taken(state_of(conversation)) == {"3>2": 1}
    assert list(state_of(conversation).failing) == ["3"]


def test_recompiled_plan_keeps_the_cycles_that_were_granted() -> None:
    plan = loop()
    conversation = play(plan, LIMIT)
    play_on(conversation, "answer cycle_limit-47 2")
    moved = plan_of(stage("new"), *plan.nodes)
    conversation.record(plan_change(moved, plan, state_of(conversation)), state_of(conversation).cursor)
    assert taken(state_of(conversation)) == {"3>2": 3}


@pytest.mark.parametrize("checks", [(), (Check("test", "make other"),), (Check("lint", "make lint"),)])
def test_plan_in_which_a_running_check_changed_is_refused(checks: tuple[Check, ...]) -> None:
    """The run died while the check was running, and the pipeline was changed before it was resumed."""
    plan = plan_of(checked())
    conversation = play(plan, CHECKED)
    with pytest.raises(IllegalMove, match="check 'test' of node 'plan' may still be running"):
        plan_change(plan_of(stage("plan", checks=checks)), plan, state_of(conversation))
    same = plan_of(checked(), stage("more"))
    conversation.record(plan_change(same, plan, state_of(conversation)), state_of(conversation).cursor)
    assert conversation.answer() == ["? check test 1"]


def test_running_check_of_a_damaged_log_that_no_plan_has_is_not_awaited() -> None:
    state = state_of(play(plan_of(checked()), CHECKED))
    assert decide(plan_of(checked(checks=())), state).work == ()


def test_cycle_in_a_branch_keeps_the_counters_of_the_others() -> None:
    verify = stage("verify", routes=(Route("reject", "go", "draft"),))
    conversation = Play(plan_of(block("claude codex", stage("draft"), verify)))
    conversation.happens("start")
    for who in ("claude", "codex"):
        play_on(conversation, f"{who}: prepared", f"{who}: completed stop")
        play_on(conversation, f"{who}: prepared", f"{who}: completed stop verdict=reject")
    assert taken(state_of(conversation)) == {"0.1@claude>0.0": 1, "0.1@codex>0.0": 1}
