"""Playbooks of files that the engine looks after: trees of visits, frozen files, visits that are undone."""

import pytest
from msgspec.structs import replace
from tests.engine.plans import block, event, plan_of, stage
from tests.engine.playbook import Play, play

from agentforge.engine.decide.run import decide
from agentforge.engine.evolve.run import evolve
from agentforge.engine.rehearsal.rehearse import rehearse
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.check import Check
from agentforge.model.cursor import Cursor
from agentforge.model.frozen import FrozenFile, FrozenFiles
from agentforge.model.plan import Approval, RetryPolicy, Route
from agentforge.model.task import AgentTask, FilesTask, PrepareTask

TEST = Check("test", "make test")
RED = stage("red", freeze=("test_files",))
GREEN = stage("green", 2, checks=(TEST,))
PLAN = plan_of(RED, GREEN)

BEGIN = """
    > start
    < node_start red
    < files_start look start 1
    ? files look start 1
    > files done
    ? prepare red 1
    > prepared
    < attempt_start 1
    ? execute red 1 attempt 1
"""
FROZEN = f"""{BEGIN}
    > completed verdict=pass
    < stage_verdict pass
    < files_start freeze 1
    ? files freeze 1
    > files froze tests/test_a.py
    < node_complete red: Completed 1 iterations (max: 1)
    < node_start green
    < files_start look start 1
    ? files look start 1
    > files done
    ? prepare green 1
    > prepared
    < attempt_start 1
    ? execute green 1 attempt 1
    > completed
"""


def test_frozen_files_are_verified_before_each_check_and_at_the_end() -> None:
    conversation = play(
        PLAN,
        f"""{FROZEN}
        ? prepare green 2
        > prepared
        < attempt_start 1
        ? execute green 2 attempt 1
        > completed
        < files_start restore test 1 1
        ? files restore test 1 1
        > files done
        < check_start test 1
        ? check test 1
        > check pass changed=a tree=t1
        < files_start restore test 2 1
        ? files restore test 2 1
        > files restored tests/test_a.py
        < check_start test 2
        ? check test 2
        > check pass
        < files_start restore end 1
        ? files restore end 1
        > files done
        < stage_verdict pass
        < node_complete green: Completed 2 iterations (max: 2)
        < session_complete all_loops_complete
        """,
    )
    assert conversation.state is not None
    assert conversation.state.frozen == {
        "0": FrozenFiles("red", (FrozenFile("tests/test_a.py", "0" * 64),), "t1")
    }


AT_CHECKS = plan_of(RED, stage("green", 5, checks=(replace(TEST, at="iteration"),)))
RESTORED = """
    < files_start restore test 1 1
    ? files restore test 1 1
    > files restored tests/test_a.py
"""


def round(number: int) -> str:
    return f"""{RESTORED}
    < check_start test 1
    ? check test 1
    > check fail a
    ? prepare green {number + 1}
    > prepared
    < attempt_start 1
    ? execute green {number + 1} attempt 1
    > completed
    """


def told(conversation: Play) -> str:
    task = next(work for work in conversation.work if isinstance(work, PrepareTask))
    return task.feedback.text if task.feedback else ""


def test_the_next_iteration_is_told_what_was_restored() -> None:
    first = play(AT_CHECKS, f"{FROZEN}{round(1).partition('> prepared')[0]}")
    assert "changed, and restored: tests/test_a.py\n\n2 failed" in told(first)
    asks = plan_of(RED, stage("green", 2, checks=(replace(TEST, at="iteration"),), routes=()))
    passed = play(
        asks,
        f"""{FROZEN}{RESTORED}
        < check_start test 1
        ? check test 1
        > check pass
        ? prepare green 2
        """,
    )
    assert told(passed) == (
        "These files must stay as they are. They were changed, and restored: tests/test_a.py"
    )


def test_what_was_said_about_the_visit_before_is_told_too() -> None:
    routed = plan_of(RED, stage("green", 2, checks=(TEST,), routes=(Route("fail", "go", "green"),)))
    back = play(
        routed,
        f"""{FROZEN}
        ? prepare green 2
        > prepared
        < attempt_start 1
        ? execute green 2 attempt 1
        > completed
        < files_start restore test 1 1
        ? files restore test 1 1
        > files restored tests/test_a.py
        < check_start test 1
        ? check test 1
        > check fail a
        < files_start restore end 1
        ? files restore end 1
        > files done
        < stage_verdict fail test
        < stage_transition green to green cycle 2/3
        < node_complete green: Completed 2 iterations (max: 2)
        < node_start green
        < files_start look start 1
        ? files look start 1
        > files done
        ? prepare green 1
        > prepared
        < attempt_start 1
        ? execute green 1 attempt 1
        """,
    )
    task = back.work[0]
    assert isinstance(task, AgentTask)
    assert task.feedback is not None
    assert "restored: tests/test_a.py\n\ncheck 'test': it says fail\n\n2 failed" in task.feedback.text


def test_the_third_time_a_person_is_asked() -> None:
    script = f"""{FROZEN}{round(1)}{round(2)}{RESTORED}
        < request_opened frozen_files-34
        < session_paused frozen_files
        = paused
    """
    asked = play(AT_CHECKS, script)
    assert asked.state is not None
    assert "changed 3 times" in asked.state.requests[0].question
    for answer in ("retry", "resume"):
        asked = play(AT_CHECKS, script)
        said = asked.happens(f"answer frozen_files-34 {answer}")
        assert said[-1] == "? check test 1"
        assert asked.state is not None
        assert asked.state.restorations == 0
    resumed = play(AT_CHECKS, script)
    assert resumed.happens("resume")[-1] == "? files restore test 2 1", "as the check runs again"
    assert resumed.state is not None
    assert resumed.state.restorations == 0


def test_what_cant_be_frozen_fails_the_stage_and_is_retried_after_a_resume() -> None:
    play(
        PLAN,
        f"""{BEGIN}
        > completed verdict=pass
        < stage_verdict pass
        < files_start freeze 1
        ? files freeze 1
        > files failed
        < session_failed files_unusable
        = failed
        > resume
        < files_start freeze 2
        ? files freeze 2
        > files froze a.py
        < node_complete red: Completed 1 iterations (max: 1)
        < node_start green
        < files_start look start 1
        ? files look start 1
        """,
    )


def test_a_person_may_allow_another_try() -> None:
    asking = plan_of(replace(RED, retry=RetryPolicy(exhausted="ask")))
    play(
        asking,
        f"""{BEGIN}
        > completed verdict=pass
        < stage_verdict pass
        < files_start freeze 1
        ? files freeze 1
        > files failed
        < request_opened retries_exhausted-11
        < session_paused retries_exhausted
        > answer retries_exhausted-11
        < session_continued retries_exhausted-11
        < request_resolved retries_exhausted-11 continue
        < files_start freeze 2
        ? files freeze 2
        """,
    )


def test_a_task_that_is_stopped_is_done_after_the_pause() -> None:
    play(
        PLAN,
        """
        > start
        < node_start red
        < files_start look start 1
        ? files look start 1
        > pause now now
        < files_ending look start 1
        ? end files look start 1
        > files done
        < session_paused now
        > resume
        < files_start look start 2
        ? files look start 2
        """,
    )


@pytest.mark.parametrize(
    ("node", "seen", "says"),
    [
        (stage("undo", rollback=True), "inexact .env", "`rollback` of stage 'undo' is not possible"),
        (stage("undo", rollback=True), "unknown", "too many files"),
        (RED, "unknown", "`freeze` of stage 'red' is not possible: too many files"),
    ],
)
def test_what_no_tree_has_is_refused_before_the_first_agent(node: object, seen: str, says: str) -> None:
    plan = plan_of(stage("first"), node)  # type: ignore[arg-type]
    failed = play(
        plan,
        f"""
        > start
        < node_start first
        < files_start look start 1
        ? files look start 1
        > files {seen}
        < session_failed files_unusable
        > resume
        < files_start look start 1
        ? files look start 1
        > files done
        ? prepare first 1
        > prepared
        < attempt_start 1
        ? execute first 1 attempt 1
        > completed
        < node_complete first: Completed 1 iterations (max: 1)
        < node_start {node.id}
        < files_start look start 1
        ? files look start 1
        > files {seen}
        < session_failed files_unusable
        """,  # type: ignore[attr-defined]
    )
    assert failed.state is not None
    assert failed.state.failure is not None
    assert says in failed.state.failure.message


def test_a_stage_without_such_a_key_needs_no_exact_tree() -> None:
    play(
        PLAN,
        """
        > start
        < node_start red
        < files_start look start 1
        ? files look start 1
        > files inexact .env
        ? prepare red 1
        """,
    )
    play(
        plan_of(stage("plain")),
        """
        > start
        < node_start plain
        ? prepare plain 1
        """,
    )


UNDONE = plan_of(stage("undo", rollback=True, routes=(Route("fail", "ask"),)))
FAILED = """
    > start
    < node_start undo
    < files_start look start 1
    ? files look start 1
    > files done
    ? prepare undo 1
    > prepared
    < attempt_start 1
    ? execute undo 1 attempt 1
    > completed verdict=fail
    < stage_verdict fail
    < files_start rollback 1
    ? files rollback 1
"""


def test_a_visit_that_fails_is_undone_before_anything_follows() -> None:
    play(
        UNDONE,
        f"""{FAILED}
        > files done
        < request_opened verdict-11
        < session_paused verdict
        """,
    )


def test_a_visit_that_passes_stays() -> None:
    play(
        UNDONE,
        FAILED.replace("verdict=fail", "verdict=pass").partition("< stage_verdict")[0]
        + """
        < stage_verdict pass
        < node_complete undo: Completed 1 iterations (max: 1)
        < session_complete all_loops_complete
        """,
    )


REFUSED = f"""{FAILED}
    > files refused a.py
    < request_opened rollback-11
    < session_paused rollback
"""


def test_work_of_others_is_not_undone_without_a_person() -> None:
    asked = play(UNDONE, REFUSED)
    assert asked.state is not None
    text = asked.state.requests[0].question
    assert "what stage 'undo' changed is not undone: something else changed files: a.py." in text
    again = play(
        UNDONE,
        f"""{REFUSED}
        > answer rollback-11
        < session_continued rollback-11
        < request_resolved rollback-11 continue
        < files_start rollback 1
        ? files rollback 1
        > files done
        < request_opened verdict-18
        < session_paused verdict
        """,
    )
    assert again.stage.rolled_back
    left = play(
        UNDONE,
        f"""{REFUSED}
        > answer rollback-11 accept it is mine
        < session_continued rollback-11
        < request_resolved rollback-11 accepted
        < request_opened verdict-16
        < session_paused verdict
        """,
    )
    assert left.stage.refused == ()


def test_a_result_that_a_person_accepts_is_frozen_and_stays() -> None:
    plan = plan_of(stage("both", rollback=True, freeze=("tests",), routes=(Route("fail", "ask"),)))
    play(
        plan,
        f"""{FAILED.replace("undo", "both")}
        > files done
        < request_opened verdict-11
        < session_paused verdict
        > answer verdict-11 accept it is fine
        < session_continued verdict-11
        < request_resolved verdict-11 accepted
        < files_start freeze 1
        ? files freeze 1
        > files froze a.py
        < node_complete both: Completed 1 iterations (max: 1)
        < session_complete all_loops_complete
        """,
    )


def test_a_result_is_frozen_when_it_is_approved() -> None:
    play(
        plan_of(replace(RED, approve=Approval())),
        f"""{BEGIN}
        > completed verdict=pass
        < stage_verdict pass
        < request_opened approval-9
        < awaiting_approval approval-9
        > answer approval-9 approve
        < session_continued approval-9
        < request_resolved approval-9 approved
        < files_start freeze 1
        ? files freeze 1
        """,
    )


def test_a_stage_that_is_visited_again_may_change_what_it_froze() -> None:
    back = plan_of(RED, stage("green", routes=(Route("reject", "go", "red"),)))
    conversation = play(
        back,
        FROZEN.removesuffix("> completed\n")
        + """
        > completed verdict=reject
        < files_start restore end 1
        ? files restore end 1
        > files done
        < stage_verdict reject
        < stage_transition green to red cycle 2/3
        < node_complete green: Completed 1 iterations (max: 1)
        < node_start red
        < files_start look start 1
        ? files look start 1
        """,
    )
    assert conversation.state is not None
    assert conversation.state.frozen == {}


def test_frozen_files_move_with_their_stage_and_stay_without_it() -> None:
    conversation = play(PLAN, FROZEN.partition("> prepared\n    < attempt_start 1\n    ? execute green")[0])
    state = conversation.state
    assert state is not None
    moved = plan_change(plan_of(stage("new"), RED, GREEN), PLAN, state)
    assert set(evolve(state, event(99, moved, state.cursor)).frozen) == {"1"}
    gone = plan_change(plan_of(GREEN), PLAN, state)
    assert len(evolve(state, event(99, gone, state.cursor)).frozen) == 1


def test_a_later_engine_knows_what_was_going_to_be_replaced() -> None:
    conversation = play(PLAN, f"{FROZEN}? prepare green 2")
    for script in ("prepared", "completed"):
        conversation.happens(script)
    task = conversation.work[0]
    assert isinstance(task, FilesTask)
    state = conversation.state
    for tree, path in (("t5", "a"), ("t6", "b")):
        assert state is not None
        prepared = f.FilesPrepared(**task.names, tree=tree, paths=(path,))
        state = evolve(state, event(50, prepared, task.cursor))
    assert state is not None
    again = decide(PLAN, state).work[0]
    assert isinstance(again, FilesTask)
    assert (again.prepared, again.paths) == ("t5", ("a", "b"))


def test_facts_of_a_damaged_log_are_folded() -> None:
    state = play(PLAN, BEGIN).state
    assert state is not None
    for fact in (
        f.FilesPrepared("restore", tree="t1", paths=("a",)),
        f.FilesFrozen("freeze", files=()),
        f.FilesFrozen("freeze", files=(FrozenFile("a", "0"),)),
    ):
        for at in (Cursor("0", 1, 1), None):
            assert decide(PLAN, evolve(state, event(50, fact, at))).work


def test_branches_look_before_their_agents() -> None:
    first = """
        > start
        < node_start duel
        < claude: parallel_provider_start
        < codex: parallel_provider_start
        < claude: files_start look start 1
        < codex: files_start look start 1
        ? claude: files look start 1
        ? codex: files look start 1
        > claude: files done
        ? claude: prepare draft 1
        ? codex: files look start 1
        > codex: files inexact .env
        ? claude: prepare draft 1
        ? codex: prepare draft 1
    """
    conversation = play(plan_of(block("claude codex", stage("draft")), RED), first)
    assert conversation.state is not None
    assert conversation.state.status.value == "running"


def test_a_rehearsal_looks_at_no_files() -> None:
    end = """
        > completed verdict=pass
        < stage_verdict pass
        < files_start freeze 1
        ? files freeze 1
        > files done
        < node_complete red: Completed 1 iterations (max: 1)
        < session_complete all_loops_complete
    """
    past = play(plan_of(RED), f"{BEGIN}{end}")
    plain = play(plan_of(stage("red", routes=(Route("pass", "end"),))), _without_files(f"{BEGIN}{end}"))
    assert rehearse(plan_of(RED), past.events).is_same
    assert past.state is not None
    assert past.state.frozen == {}
    other = rehearse(plan_of(RED), plain.events)
    assert other.now[-1].what == "run_completed"


def _without_files(script: str) -> str:
    lines = [line for line in script.splitlines() if "files" not in line]
    return "\n".join(lines).replace("< node_complete", "< stage_transition red to end\n< node_complete")
