"""The progress of stages when routes pass over some of them, or lead back."""

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, nested, plan_of, stage
from tests.engine.playbook import Play, play

from agentforge.engine.replan import plan_change
from agentforge.model.plan import Plan, Route
from agentforge.model.state import RunState
from agentforge.ports.event_log import BufferHealth, Head
from agentforge.views.files.state import StageEntry, state_file
from agentforge.views.history import History
from agentforge.views.lines.status import branch_text, stage_text
from agentforge.views.run_model import Summary
from agentforge.views.stage_progress import PIPELINE_ENDED, StageProgress, completion_text, stage_progress

SKIPS = stage("plan", verdicts=("small",), routes=(Route("small", "go", "last"),))
GOES_BACK = stage("last", routes=(Route("reject", "go", "plan"),))


def state_of(conversation: Play) -> RunState:
    assert conversation.state is not None
    return conversation.state


def progress(conversation: Play, plan: Plan | None = None) -> tuple[StageProgress, ...]:
    return stage_progress(plan or conversation.plan, state_of(conversation))


def marks(conversation: Play, plan: Plan | None = None) -> list[tuple[str, str]]:
    return [(row.id, row.mark) for row in progress(conversation, plan)]


def entries(conversation: Play) -> tuple[StageEntry, ...]:
    state, buffer = state_of(conversation), BufferHealth(0, 0, 0.0)
    file = state_file(conversation.plan, state, Summary(), History(), head=Head(0, "", 1), buffer=buffer)
    return file.stages


def work(name: str, said: str = "") -> str:
    return f"""
    ? prepare {name} 1
    > prepared
    < attempt_start 1
    ? execute {name} 1 attempt 1
    > completed stop {said}
    """


def done(name: str) -> str:
    return f"< node_complete {name}: Agent requested stop at iteration 1"


SKIPPED = f"""
    > start
    < node_start plan
    {work("plan", "verdict=small")}
    < stage_verdict small
    < stage_transition plan to last skipping build
    {done("plan")}
    < node_start last
"""
BACK = f"""{SKIPPED}{work("last", "verdict=reject")}
    < stage_verdict reject
    < stage_transition last to plan cycle 2/3
    {done("last")}
    < node_start plan
"""


def test_stage_that_a_route_passes_over_is_skipped() -> None:
    conversation = play(plan_of(SKIPS, stage("build"), GOES_BACK), f"{SKIPPED}? prepare last 1")
    assert marks(conversation) == [("plan", "done"), ("build", "skipped"), ("last", "current")]
    assert [stage_text(row) for row in progress(conversation)] == ["1/1  small", "skipped", "0/1"]
    assert [(entry.name, entry.status) for entry in entries(conversation)] == [
        ("plan", "completed"),
        ("build", "skipped"),
        ("last", "running"),
    ]


@pytest.mark.parametrize(
    ("verdict", "by", "mark", "text"),
    [
        ("pass", "", "done", "1/1"),
        ("large", "", "done", "1/1  large"),
        ("fail", "", "failed", "1/1  fail"),
        ("reject", "Ada", "warning", "1/1  reject, accepted by Ada"),
    ],
)
def test_stage_that_ended_with_a_verdict(verdict: str, by: str, mark: str, text: str) -> None:
    conversation = play(plan_of(SKIPS, stage("build"), GOES_BACK), f"{SKIPPED}? prepare last 1")
    state = state_of(conversation)
    (record,) = state.stages
    judged = replace(state, stages=(replace(record, verdict=verdict, accepted_by=by),))
    row = stage_progress(conversation.plan, judged)[0]
    assert (row.mark, stage_text(row)) == (mark, text)


def test_stage_that_ended_early_says_why() -> None:
    row = StageProgress("plan", "done", 1, 3, "max_iterations")
    assert stage_text(row) == "1/3  reached the maximum number of iterations"


def test_stages_of_the_next_pass_are_waiting() -> None:
    conversation = play(plan_of(SKIPS, stage("build"), GOES_BACK), f"{BACK}? prepare plan 1")
    assert marks(conversation) == [("plan", "current"), ("build", "waiting"), ("last", "waiting")]


@pytest.mark.parametrize(
    ("reason", "marks", "text"),
    [
        (PIPELINE_ENDED, "ddd", "all stages completed"),
        (PIPELINE_ENDED, "dds", "2 stages completed, 1 skipped"),
        (PIPELINE_ENDED, "dss", "1 stage completed, 2 skipped"),
        (PIPELINE_ENDED, "das", "1 stage completed, 1 accepted, 1 skipped"),
        (PIPELINE_ENDED, "a", "1 stage accepted"),
        (PIPELINE_ENDED, "aas", "2 stages accepted, 1 skipped"),
        (PIPELINE_ENDED, "dw", "1 stage completed, 1 not run"),
        (PIPELINE_ENDED, "", "reached the end of the pipeline"),
        ("max_iterations", "d", "reached the maximum number of iterations"),
    ],
)
def test_completed_run_says_what_became_of_its_stages(reason: str, marks: str, text: str) -> None:
    rows = {
        "d": StageProgress("x", "done", 1, 1),
        "s": StageProgress("x", "skipped", 0, 1),
        "w": StageProgress("x", "waiting", 0, 1),
        "a": StageProgress("x", "warning", 1, 1, verdict="fail", accepted_by="Ada"),
    }
    assert completion_text(reason, [rows[mark] for mark in marks]) == text


def test_stage_that_is_visited_in_a_later_pass_is_not_skipped_any_more() -> None:
    conversation = play(
        plan_of(SKIPS, stage("build"), GOES_BACK),
        f"""{BACK}{work("plan")}
        < stage_verdict pass
        {done("plan")}
        < node_start build
        {work("build")}
        {done("build")}
        < node_start last
        ? prepare last 1
        """,
    )
    assert marks(conversation) == [("plan", "done"), ("build", "done"), ("last", "current")]
    assert not state_of(conversation).skipped


def test_stage_that_is_skipped_in_a_later_pass_is_skipped() -> None:
    conversation = play(
        plan_of(SKIPS, stage("build"), GOES_BACK),
        f"""
        > start
        < node_start plan
        {work("plan")}
        < stage_verdict pass
        {done("plan")}
        < node_start build
        {work("build")}
        {done("build")}
        < node_start last
        {work("last", "verdict=reject")}
        < stage_verdict reject
        < stage_transition last to plan cycle 2/3
        {done("last")}
        < node_start plan
        {work("plan", "verdict=small")}
        < stage_verdict small
        < stage_transition plan to last skipping build
        {done("plan")}
        < node_start last
        ? prepare last 1
        """,
    )
    assert marks(conversation) == [("plan", "done"), ("build", "skipped"), ("last", "current")]
    assert [entry.name for entry in entries(conversation)] == ["plan", "build", "last"]


def test_nested_pipeline_is_skipped_with_all_its_stages() -> None:
    plan = plan_of(SKIPS, nested("inner", stage("one"), stage("two")), GOES_BACK)
    script = SKIPPED.replace("skipping build", "skipping inner")
    conversation = play(plan, f"{script}? prepare last 1")
    assert marks(conversation)[1:3] == [("one", "skipped"), ("two", "skipped")]
    script = BACK.replace("skipping build", "skipping inner")
    again = play(
        plan,
        f"""{script}{work("plan")}
        < stage_verdict pass
        {done("plan")}
        < node_start one
        ? prepare one 1
        """,
    )
    assert marks(again)[1:3] == [("one", "current"), ("two", "waiting")]


def test_route_to_the_end_skips_the_later_stages_of_its_pipeline() -> None:
    ends = stage("plan", verdicts=("small",), routes=(Route("small", "end"),))
    conversation = play(
        plan_of(nested("inner", ends, stage("build")), stage("last", routes=(Route("pass", "end"),))),
        f"""
        > start
        < node_start plan
        {work("plan", "verdict=small")}
        < stage_verdict small
        < stage_transition plan to end skipping build
        {done("plan")}
        < node_start last
        {work("last")}
        < stage_verdict pass
        < stage_transition last to end
        {done("last")}
        < session_complete all_loops_complete
        = completed
        """,
    )
    assert marks(conversation) == [("plan", "done"), ("build", "skipped"), ("last", "done")]
    assert [entry.status for entry in entries(conversation)] == ["completed", "completed", "skipped"]


def test_skipped_nodes_follow_their_ids_into_a_new_plan() -> None:
    old = plan_of(SKIPS, nested("inner", stage("one")), stage("gone"), stage("build"), GOES_BACK)
    conversation = play(
        old, f"{SKIPPED.replace('skipping build', 'skipping inner,gone,build')}? prepare last 1"
    )
    new = plan_of(stage("new"), SKIPS, nested("inner", stage("one")), stage("build"), GOES_BACK)
    conversation.record(plan_change(new, old, state_of(conversation)), state_of(conversation).cursor)
    assert [row for row in marks(conversation, new) if row[1] == "skipped"] == [
        ("new", "skipped"),
        ("one", "skipped"),
        ("build", "skipped"),
    ]


BRANCH = """
    > start
    < node_start duel
    < claude: parallel_provider_start
    ? claude: prepare plan 1
    > claude: prepared
    < claude: attempt_start 1
    ? claude: execute plan 1 attempt 1
    > claude: completed stop verdict=small
    < claude: stage_verdict small
    < claude: stage_transition plan to last skipping build
    < claude: stage_complete plan: Agent requested stop at iteration 1
    ? claude: prepare last 1
    > claude: prepared
    < claude: attempt_start 1
    ? claude: execute last 1 attempt 1
"""


def test_branch_names_the_stages_that_it_skipped() -> None:
    plan = plan_of(block("claude", SKIPS, stage("build"), GOES_BACK))
    conversation = play(
        plan,
        f"""{BRANCH}
        > claude: completed stop
        < claude: stage_verdict pass
        < claude: stage_complete last: Agent requested stop at iteration 1
        < claude: parallel_provider_complete completed
        ? manifest duel
        """,
    )
    (branch,) = progress(conversation)[0].branches
    assert branch.skipped == ("build",)
    assert branch_text(branch) == "2/3  done, skipped build"


def test_branch_that_goes_back_has_not_skipped_what_it_comes_to_again() -> None:
    plan = plan_of(block("claude", SKIPS, stage("build"), GOES_BACK))
    conversation = play(
        plan,
        f"""{BRANCH}
        > claude: completed stop verdict=reject
        < claude: stage_verdict reject
        < claude: stage_transition last to plan cycle 2/3
        < claude: stage_complete last: Agent requested stop at iteration 1
        < claude: node_start plan
        ? claude: prepare plan 1
        > claude: prepared
        < claude: attempt_start 1
        ? claude: execute plan 1 attempt 1
        > claude: completed stop
        < claude: stage_verdict pass
        < claude: stage_complete plan: Agent requested stop at iteration 1
        ? claude: prepare build 1
        """,
    )
    (branch,) = progress(conversation)[0].branches
    assert (branch.stage, branch.skipped) == ("build", ())
