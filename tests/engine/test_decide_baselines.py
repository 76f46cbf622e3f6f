"""Playbooks of baselines: what a check saw before the work, which later outcomes are compared with."""

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, event, plan_of, stage
from tests.engine.playbook import play

from agentforge.engine.decide.run import decide
from agentforge.engine.decide.task_kinds import in_flight
from agentforge.engine.evolve.run import evolve
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.check import Check
from agentforge.model.cursor import Cursor
from agentforge.model.errors import IllegalMove
from agentforge.model.plan import StageNode
from agentforge.model.state import Start, Waiver
from agentforge.model.task import CheckTask, Task

SCOPE = Check("only", scope=("src/**",), at=("iteration",))
SCOPED = plan_of(stage("plan", 2, checks=(SCOPE, Check("all", scope=("*",)))))
BEGIN = """
    > start
    < node_start plan
    < check_start only 1 baseline
    ? check only 1 baseline
"""


def test_files_at_the_begin_of_a_visit_are_known_to_each_of_its_scopes() -> None:
    conversation = play(
        SCOPED,
        f"""{BEGIN}
        > check pass tree=t0
        ? prepare plan 1
        > prepared
        < attempt_start 1
        ? execute plan 1 attempt 1
        > completed
        < check_start only 1
        ? check only 1 since t0
        > check fail a tree=t1
        ? prepare plan 2
        > prepared
        < attempt_start 1
        ? execute plan 2 attempt 1
        > completed
        < check_start only 1
        ? check only 1 since t0
        > check pass tree=t2
        < check_start all 1
        ? check all 1 since t0
        > check pass tree=t2
        < stage_verdict pass
        < node_complete plan: Completed 2 iterations (max: 2)
        < session_complete all_loops_complete
        = completed
        """,
    )
    verdict = next(e.fact for e in conversation.events if isinstance(e.fact, f.StageVerdictReached))
    assert verdict.tree == "t2", "the tree of the baseline is not one that the checks saw"


def test_baseline_that_is_lost_runs_again_before_any_agent() -> None:
    play(
        SCOPED,
        f"""{BEGIN}
        > check lost
        < check_start only 2 baseline
        ? check only 2 baseline
        > check lost
        < check_start only 3 baseline
        ? check only 3 baseline
        > check lost
        < request_opened check_lost-9
        < session_paused check_lost
        = paused
        """,
    )


def test_run_without_a_tree_fails_before_any_agent_and_can_be_resumed() -> None:
    play(
        SCOPED,
        f"""{BEGIN}
        > check error
        < session_failed check_error
        = failed
        > resume
        < check_start only 2 baseline
        ? check only 2 baseline
        > check pass tree=t0
        ? prepare plan 1
        """,
    )


def test_running_baseline_is_kept_by_a_new_plan() -> None:
    conversation = play(SCOPED, BEGIN)
    state = conversation.state
    assert state is not None
    other = plan_of(stage("plan", 2, checks=(replace(SCOPE, scope=("lib/**",)),)))
    with pytest.raises(IllegalMove, match="may still be running"):
        plan_change(other, SCOPED, state)
    later = plan_of(stage("plan", 3, checks=(replace(SCOPE, at=("end",)),)))
    moved = evolve(state, event(9, plan_change(later, SCOPED, state)))
    assert [task.about for task in in_flight(later, moved)] == [SCOPE.baseline]


def test_baseline_that_no_plan_has_is_ignored() -> None:
    """A damaged log may name one."""
    conversation = play(SCOPED, BEGIN)
    assert conversation.state is not None
    unknown = f.CheckStarted("only", 1, None, "only+000")
    state = evolve(conversation.state, event(9, unknown, Cursor("0", 1, 0)))
    assert not list(in_flight(SCOPED, state))
    assert decide(SCOPED, state).facts


# -- before the first agent of the run

LINT = Check("lint", "ruff", parse="lines", regressions=True)
TEST = Check("test", "pytest", regressions=True, at=("start",))
GUARDED = plan_of(stage("plan", 1), stage("build", 1, checks=(TEST, LINT)))
COMPARED = """
    > start
    < node_start plan
    < check_start test 1 baseline
    ? check test 1 baseline
    > check fail unusable=why
    < check_start lint 1 baseline
    ? check lint 1 baseline
    > check fail keys=k1,k2
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
    > completed
    < node_complete plan: Completed 1 iterations (max: 1)
    < node_start build
    ? prepare build 1
"""


def test_checks_run_before_the_first_agent_and_one_without_a_baseline_is_not_used() -> None:
    conversation = play(
        GUARDED,
        f"""{COMPARED}
        > prepared
        < attempt_start 1
        ? execute build 1 attempt 1
        > completed
        < check_start lint 1
        ? check lint 1 without k1,k2
        > check pass
        < stage_verdict pass
        < node_complete build: Completed 1 iterations (max: 1)
        < session_complete all_loops_complete
        = completed
        """,
    )
    assert conversation.state is not None
    assert set(conversation.state.baselines) == {TEST.baseline, LINT.baseline}


def test_baseline_that_is_lost_runs_again_and_one_that_is_waived_does_not_run() -> None:
    conversation = play(
        GUARDED,
        """
        > start
        < node_start plan
        < check_start test 1 baseline
        ? check test 1 baseline
        > check lost
        < check_start test 2 baseline
        ? check test 2 baseline
        """,
    )
    assert conversation.state is not None
    waivers = (Waiver("lint", "", "me"), Waiver("test", "", "me"))
    waived = replace(conversation.state, waivers=waivers, at=Start())
    (entered,) = decide(GUARDED, waived).facts
    state = evolve(waived, event(20, entered.fact, entered.cursor))
    assert [work.about for work in decide(GUARDED, state).work if isinstance(work, Task)] == [""]


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ((), []),
        ((stage("last", 1, checks=(LINT,)),), ["lint"]),
        ((block("claude", stage("build", 1, checks=(TEST,))),), ["test"]),
    ],
)
def test_check_that_only_skipped_stages_have_is_not_run(
    others: tuple[StageNode, ...], expected: list[str]
) -> None:
    plan = plan_of(stage("plan", 1), stage("build", 1, checks=(TEST, LINT)), *others)
    begun = play(plan, "> start\n< node_start plan\n< check_start test 1 baseline\n? check test 1 baseline")
    assert begun.state is not None
    skips = replace(begun.state, waivers=(Waiver("", "", "me", "build"),), at=Start())
    (entered,) = decide(plan, skips).facts
    facts = decide(plan, evolve(skips, event(20, entered.fact, entered.cursor))).facts
    assert [one.fact.check for one in facts if isinstance(one.fact, f.CheckStarted)] == expected


def test_check_that_a_later_plan_adds_has_no_baseline() -> None:
    """An agent has worked: what failed before is unknown."""
    conversation = play(GUARDED, COMPARED)
    new = Check("new", "x", regressions=True, at=("start",))
    added = plan_of(stage("plan", 1), stage("build", 1, checks=(new,)))
    assert conversation.state is not None
    state = evolve(conversation.state, event(30, plan_change(added, GUARDED, conversation.state)))
    (started,) = decide(added, state).facts
    assert started.fact == f.CheckStarted("new", 1, 600.0)
    state = evolve(state, event(31, started.fact, started.cursor))
    (task,) = decide(added, state).work
    assert isinstance(task, CheckTask)
    assert (task.baseline, task.found) == (False, None)


def test_branches_of_a_first_block_wait_for_the_one_that_runs_the_checks() -> None:
    play(
        plan_of(block("claude codex", stage("ideas")), stage("build", checks=(LINT,))),
        """
        > start
        < node_start duel
        < claude: parallel_provider_start
        < codex: parallel_provider_start
        < claude: check_start lint 1 baseline
        ? claude: check lint 1 baseline
        > claude: check lost
        < claude: check_start lint 2 baseline
        ? claude: check lint 2 baseline
        > claude: check pass
        ? claude: prepare ideas 1
        ? codex: prepare ideas 1
        """,
    )
