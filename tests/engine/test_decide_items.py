"""Playbooks of stages over items: one iteration for each, in order, what fails, and what is sent back."""

from typing import Any

import pytest
from tests.engine.plans import block, event, nested, plan_of, stage, started
from tests.engine.playbook import Play, play

from agentforge.engine.evolve.run import evolve
from agentforge.model import facts as f
from agentforge.model.artifact import PlannedItem
from agentforge.model.check import Check
from agentforge.model.cursor import Cursor
from agentforge.model.plan import Items, Plan, Route, StageNode
from agentforge.model.state import RunState
from agentforge.model.task import PrepareTask

LINT = Check("lint", "make lint", at=("iteration",))
TEST = Check("test", "make test")


def over_items(name: str = "build", **changes: Any) -> StageNode:
    return stage(name, termination=Items(100, "plan.steps"), **changes)


def build(**changes: Any) -> Plan:
    return plan_of(over_items(**changes))


def state_of(conversation: Play) -> RunState:
    assert conversation.state is not None
    return conversation.state


def statuses(conversation: Play, key: str = "0") -> dict[str, str]:
    return {id: item.status for id, item in state_of(conversation).items[key].items()}


def facts_of(conversation: Play, kind: type) -> list[Any]:
    return [event.fact for event in conversation.events if isinstance(event.fact, kind)]


BEGIN = """
    > start
    < node_start build
    ? items build 0
"""


def one(number: int, *, done: str = "completed") -> str:
    """What follows when an iteration is prepared."""
    return f"""
    > prepared
    < attempt_start 1
    ? execute build {number} attempt 1
    > {done}
"""


def test_one_iteration_for_each_item_after_those_that_it_depends_on() -> None:
    conversation = play(
        build(),
        f"""{BEGIN}
        > items c<a b a d<c,b
        ? prepare build 1 b 1/4
        {one(1)}
        < item_ended b done
        ? prepare build 2 a 2/4
        {one(2)}
        < item_ended a done
        ? prepare build 3 c 3/4
        {one(3, done="completed stop")}
        < item_ended c done
        ? prepare build 4 d 4/4
        {one(4)}
        < item_ended d done
        < stage_verdict pass
        < node_complete build: Completed 4 of 4 items
        < session_complete all_loops_complete
        = completed
        """,
    )
    assert set(statuses(conversation).values()) == {"done"}
    assert [fact.item for fact in facts_of(conversation, f.IterationStarted)] == ["b", "a", "c", "d"]


def test_an_empty_list_passes_without_an_agent() -> None:
    conversation = play(
        build(checks=(TEST,)),
        f"""{BEGIN}
        > items
        < check_start test 1
        ? check test 1
        > check pass
        < stage_verdict pass
        < node_complete build: There are no items
        < session_complete all_loops_complete
        = completed
        """,
    )
    assert not facts_of(conversation, f.AttemptStarted)


def test_a_list_that_can_not_be_used_fails_the_stage_before_an_agent() -> None:
    play(
        build(),
        f"""{BEGIN}
        > items-unusable
        < session_failed artifact_unusable
        = failed
        > resume
        ? items build 0
        """,
    )


# -- items that fail


def test_an_item_that_its_agent_fails_blocks_only_those_that_depend_on_it() -> None:
    conversation = play(
        build(),
        f"""{BEGIN}
        > items a b<a c d<b,c
        ? prepare build 1 a 1/4
        {one(1, done="completed verdict=fail")}
        < item_ended a failed
        ? prepare build 2 c 3/4
        {one(2, done="completed verdict=pass")}
        < item_ended c done
        < stage_verdict fail a
        < session_failed rejected
        = failed
        """,
    )
    assert statuses(conversation) == {"a": "failed", "b": "pending", "c": "done", "d": "pending"}
    (verdict,) = facts_of(conversation, f.StageVerdictReached)
    assert verdict.reason == "failed items: a; not done, because they depend on these: b, d"


def test_a_person_who_resumes_has_the_failed_items_done_again_and_those_that_they_blocked() -> None:
    conversation = play(
        build(),
        f"""{BEGIN}
        > items a b<a c
        ? prepare build 1 a 1/3
        {one(1, done="completed verdict=fail")}
        < item_ended a failed
        ? prepare build 2 c 3/3
        {one(2)}
        < item_ended c done
        < stage_verdict fail a
        < session_failed rejected
        > resume
        < node_restart build requested round=1
        < node_start build
        ? items build 0
        > items a b<a c
        ? prepare build 1 a 1/3
        {one(1)}
        < item_ended a done
        ? prepare build 2 b 2/3
        {one(2)}
        < item_ended b done
        < stage_verdict pass
        < node_complete build: Completed 3 of 3 items
        < session_complete all_loops_complete
        """,
    )
    assert facts_of(conversation, f.ItemsPlanned)[1].reopened == ("a",)


def test_a_verdict_names_only_some_of_many_items() -> None:
    names = [f"s{number}" for number in range(22)]
    script = f"{BEGIN}\n> items {' '.join(names)}\n"
    for number, name in enumerate(names, 1):
        script += f"? prepare build {number} {name} {number}/22\n"
        script += one(number, done="completed verdict=fail") + f"< item_ended {name} failed\n"
    script += f"< stage_verdict fail {','.join(names)}\n< session_failed rejected\n= failed"
    (verdict,) = facts_of(play(build(), script), f.StageVerdictReached)
    assert verdict.reason.endswith("s18, s19 and 2 more")
    assert verdict.items == tuple(names)


def test_an_item_whose_checks_fail_gets_a_second_iteration_with_the_failures() -> None:
    conversation = play(
        build(checks=(LINT,)),
        f"""{BEGIN}
        > items a b
        ? prepare build 1 a 1/2
        {one(1)}
        < check_start lint 1
        ? check lint 1
        > check fail
        ? prepare build 2 a 1/2
        """,
    )
    (task,) = conversation.work
    assert isinstance(task, PrepareTask)
    assert task.feedback is not None
    assert task.feedback.by == "checks"
    assert "2 failed" in task.feedback.text


SECOND = f"""{BEGIN}
    > items a b<a c
    ? prepare build 1 a 1/3
    {one(1)}
    < check_start lint 1
    ? check lint 1
    > check fail
    ? prepare build 2 a 1/3
    {one(2)}
    < check_start lint 1
    ? check lint 1
"""


def test_an_item_whose_checks_fail_twice_in_a_row_has_failed() -> None:
    conversation = play(
        build(checks=(LINT,)),
        f"""{SECOND}
        > check fail
        < item_ended a failed
        ? prepare build 3 c 3/3
        """,
    )
    (ended,) = facts_of(conversation, f.ItemEnded)
    assert ended.reason == "check 'lint': it says fail"
    (task,) = conversation.work
    assert isinstance(task, PrepareTask)
    # The failures of another item.
    assert task.feedback is None
    conversation = play(
        build(checks=(LINT,)),
        f"""{SECOND}
        > check fail
        < item_ended a failed
        ? prepare build 3 c 3/3
        {one(3)}
        < check_start lint 1
        ? check lint 1
        > check pass
        < item_ended c done
        < stage_verdict fail a
        < session_failed rejected
        = failed
        """,
    )


def test_an_item_that_is_repaired_is_done() -> None:
    play(
        build(checks=(LINT,)),
        f"""{SECOND}
        > check pass
        < item_ended a done
        ? prepare build 3 b 2/3
        """,
    )


def test_a_check_outranks_the_verdict_of_an_item() -> None:
    """Also the one that is bad: the agent gets a second iteration."""
    play(
        build(checks=(LINT,)),
        f"""{BEGIN}
        > items a
        ? prepare build 1 a 1/1
        {one(1, done="completed verdict=fail")}
        < check_start lint 1
        ? check lint 1
        > check fail
        ? prepare build 2 a 1/1
        """,
    )


def test_checks_at_the_end_run_once_after_the_last_item() -> None:
    conversation = play(
        build(checks=(LINT, TEST)),
        f"""{BEGIN}
        > items a b
        ? prepare build 1 a 1/2
        {one(1)}
        < check_start lint 1
        ? check lint 1
        > check pass
        < item_ended a done
        ? prepare build 2 b 2/2
        {one(2)}
        < check_start lint 1
        ? check lint 1
        > check pass
        < item_ended b done
        < check_start test 1
        ? check test 1
        > check fail test_a
        < stage_verdict fail test
        < session_failed checks_failed
        = failed
        """,
    )
    assert statuses(conversation) == {"a": "done", "b": "done"}


def test_checks_at_the_end_and_failed_items_are_named_together() -> None:
    conversation = play(
        build(checks=(TEST,)),
        f"""{BEGIN}
        > items a
        ? prepare build 1 a 1/1
        {one(1, done="completed verdict=fail")}
        < item_ended a failed
        < check_start test 1
        ? check test 1
        > check fail
        < stage_verdict fail test,a
        < session_failed rejected
        = failed
        """,
    )
    (verdict,) = facts_of(conversation, f.StageVerdictReached)
    assert verdict.reason == "check 'test': it says fail; failed items: a"


def test_an_item_without_a_result_fails_the_stage_and_a_resume_continues_with_it() -> None:
    conversation = play(
        build(),
        f"""{BEGIN}
        > items a b
        ? prepare build 1 a 1/2
        {one(1)}
        < item_ended a done
        ? prepare build 2 b 2/2
        {one(2, done="error agent_error")}
        < session_failed agent_error
        = failed
        > resume
        < attempt_start 2
        ? execute build 2 attempt 2
        > completed
        < item_ended b done
        < stage_verdict pass
        < node_complete build: Completed 2 of 2 items
        < session_complete all_loops_complete
        = completed
        """,
    )
    assert len(facts_of(conversation, f.ItemsPlanned)) == 1


def test_an_engine_that_dies_between_the_plan_and_the_first_item_plans_once() -> None:
    play(
        build(),
        f"""{BEGIN}
        > recover
        ? items build 0
        > items a
        ? prepare build 1 a 1/1
        > recover
        ? prepare build 1 a 1/1
        """,
    )


@pytest.mark.parametrize("then", ["pass", "fail"])
def test_an_iteration_that_asks_is_followed_by_another_one_for_the_same_item(then: str) -> None:
    """One that asks hasn't tried the item: its checks may fail once more."""
    after = "< item_ended a done\n? prepare build 3 b 2/2" if then == "pass" else "? prepare build 3 a 1/2"
    play(
        build(checks=(LINT,)),
        f"""{BEGIN}
        > items a b
        ? prepare build 1 a 1/2
        {one(1, done="asks why")}
        < check_start lint 1
        ? check lint 1
        > check fail
        < request_opened question-9
        < awaiting_approval question-9
        > answer question-9 because
        < session_continued question-9
        < request_resolved question-9 answered
        ? prepare build 2 a 1/2
        {one(2)}
        < check_start lint 1
        ? check lint 1
        > check {then}
        {after}
        """,
    )


def test_an_iteration_that_asks_does_not_end_its_item() -> None:
    play(
        build(),
        f"""{BEGIN}
        > items a b
        ? prepare build 1 a 1/2
        {one(1, done="asks why")}
        < request_opened question-7
        < awaiting_approval question-7
        > answer question-7 because
        < session_continued question-7
        < request_resolved question-7 answered
        ? prepare build 2 a 1/2
        """,
    )


def test_branches_have_items_of_their_own() -> None:
    conversation = play(
        plan_of(block("claude codex", over_items())),
        """
        > start
        < node_start duel
        < claude: parallel_provider_start
        < codex: parallel_provider_start
        ? claude: items build 0
        ? codex: items build 0
        > claude: items a
        ? claude: prepare build 1 a 1/1
        ? codex: items build 0
        > codex: items b c
        ? claude: prepare build 1 a 1/1
        ? codex: prepare build 1 b 1/2
        """,
    )
    assert [*state_of(conversation).items] == ["0.0@claude", "0.0@codex"]


# -- another visit


VERIFIED = plan_of(
    over_items(),
    stage("verify", routes=(Route("fail", "go", "build"),)),
)


def visited(back: str) -> str:
    """Two items are done, and sent back."""
    return f"""{BEGIN}
    > items a b<a
    ? prepare build 1 a 1/2
    {one(1)}
    < item_ended a done
    ? prepare build 2 b 2/2
    {one(2)}
    < item_ended b done
    < stage_verdict pass
    < node_complete build: Completed 2 of 2 items
    < node_start verify
    ? prepare verify 1
    > prepared
    < attempt_start 1
    ? execute verify 1 attempt 1
    > {back}
"""


def sent_back(back: str, items: str, then: str) -> Play:
    named = back.partition("items=")[2]
    return play(
        VERIFIED,
        f"""{visited(back)}
        < stage_verdict fail {named}
        < stage_transition verify to build cycle 2/3
        < node_complete verify: Completed 1 iterations (max: 1)
        < node_start build
        ? items build 0
        > items {items}
        {then}
        """,
    )


def test_a_route_back_reopens_just_the_items_that_it_names() -> None:
    conversation = sent_back(
        "completed verdict=fail items=a",
        "a b<a",
        f"""
        ? prepare build 1 a 1/2
        {one(1)}
        < item_ended a done
        < stage_verdict pass
        < node_complete build: Completed 2 of 2 items
        < node_start verify
        ? prepare verify 1
        """,
    )
    assert facts_of(conversation, f.ItemsPlanned)[1].reopened == ("a",)


def test_a_route_back_without_names_adds_one_repair_item() -> None:
    conversation = sent_back("completed verdict=fail", "a b<a", "? prepare build 1 repair-2 3/3")
    (task,) = conversation.work
    assert isinstance(task, PrepareTask)
    assert task.item is not None
    assert task.item.repair is not None
    assert "the agent says so" in task.item.repair.text


def test_a_repair_that_failed_is_followed_by_one_about_the_same() -> None:
    conversation = sent_back(
        "completed verdict=fail",
        "a b<a",
        f"""
        ? prepare build 1 repair-2 3/3
        {one(1, done="completed verdict=fail")}
        < item_ended repair-2 failed
        < stage_verdict fail repair-2
        < session_failed rejected
        = failed
        > resume
        < node_restart build requested round=1
        < node_start build
        ? items build 0
        > items a b<a
        ? prepare build 1 repair-3 3/3
        """,
    )
    (task,) = conversation.work
    assert isinstance(task, PrepareTask)
    assert task.feedback is not None
    assert task.feedback.text == "the agent says so\n\nfailed items: repair-2"


def test_items_that_changed_are_done_again_and_dropped_ones_are_not() -> None:
    conversation = sent_back(
        "completed verdict=fail items=b",
        "c a:2 b",
        f"""
        ? prepare build 1 c 1/3
        {one(1)}
        < item_ended c done
        ? prepare build 2 a 2/3
        {one(2)}
        < item_ended a done
        ? prepare build 3 b 3/3
        """,
    )
    again = facts_of(conversation, f.ItemsPlanned)[1]
    assert (again.added, again.changed, again.dropped) == (("c",), ("a", "b"), ())


def test_an_item_that_is_sent_back_and_changed_needs_no_repair() -> None:
    conversation = sent_back("completed verdict=fail items=a", "a:2", "? prepare build 1 a 1/1")
    again = facts_of(conversation, f.ItemsPlanned)[1]
    assert (again.changed, again.dropped, again.repair) == (("a",), ("b",), "")


def test_a_stage_that_is_started_over_does_all_items_again() -> None:
    play(
        VERIFIED,
        f"""{BEGIN}
        > items a b
        ? prepare build 1 a 1/2
        {one(1)}
        < item_ended a done
        ? prepare build 2 b 2/2
        > restart
        < node_restart build requested round=1
        < node_start build
        ? items build 0
        > items a b
        ? prepare build 1 a 1/2
        """,
    )


def test_items_of_a_damaged_log() -> None:
    """One that lacks where it was, or the plan of the items."""
    state = evolve(None, event(1, started(build()), Cursor("0", 0, 0)))
    assert evolve(state, event(2, f.ItemsPlanned((PlannedItem("a", "1"),)))).items == {}
    assert evolve(state, event(2, f.ItemEnded("a", "done"), Cursor("0", 1, 1))).items == {"0": {}}


def test_the_state_has_only_the_items_of_the_latest_list() -> None:
    """However often, and with whatever, a stage is visited."""
    state = evolve(None, event(1, started(build()), Cursor("0", 0, 0)))
    for visit in range(1, 30):
        items = tuple(PlannedItem(f"s{visit}-{number}", "1") for number in range(3))
        state = evolve(state, event(2 * visit, f.ItemsPlanned(items), Cursor("0", visit, 0)))
        ended = f.ItemEnded(f"s{visit}-0", "done")
        state = evolve(state, event(2 * visit + 1, ended, Cursor("0", visit, 1)))
        assert [item.status for item in state.items["0"].values()] == ["done", "pending", "pending"]
    assert [*state.items] == ["0"]


def test_a_route_back_to_a_nested_pipeline_keeps_what_is_done_there() -> None:
    verify = stage("verify", routes=(Route("fail", "go", "inner"),))
    play(
        plan_of(nested("inner", over_items()), verify),
        f"""{BEGIN}
        > items a b
        ? prepare build 1 a 1/2
        {one(1)}
        < item_ended a done
        ? prepare build 2 b 2/2
        {one(2)}
        < item_ended b done
        < stage_verdict pass
        < node_complete build: Completed 2 of 2 items
        < node_start verify
        ? prepare verify 1
        > prepared
        < attempt_start 1
        ? execute verify 1 attempt 1
        > completed verdict=fail items=b
        < stage_verdict fail b
        < stage_transition verify to inner cycle 2/3
        < node_complete verify: Completed 1 iterations (max: 1)
        < node_start build
        ? items build 0
        > items a b
        ? prepare build 1 b 2/2
        """,
    )
