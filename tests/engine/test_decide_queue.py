"""Playbooks of queue stages: worked off until nothing is left, looked at before anything is spent."""

from tests.engine.plans import plan_of, stage
from tests.engine.playbook import play

from agentforge.model.plan import Queue


def begin(number: int) -> str:
    return f"""
        > prepared
        < attempt_start 1
        ? execute plan {number} attempt 1
    """


START = """
    > start
    < node_start plan
    ? prepare plan 1
"""
CHECKED = plan_of(stage(termination=Queue(9, check_before=True)))
WORKED_OFF = plan_of(stage(termination=Queue(9)))
DONE = """
    < node_complete plan: All beads complete
    < session_complete all_loops_complete
    = completed
"""


def test_stage_continues_until_the_queue_is_empty() -> None:
    play(
        WORKED_OFF,
        f"""{START}{begin(1)}
        > completed
        ? check queue plan 1
        > left-in-queue 2
        ? prepare plan 2
        {begin(2)}
        > completed
        ? check queue plan 2
        > left-in-queue 0
        {DONE}
        """,
    )


def test_check_before_looks_at_the_queue_before_the_first_iteration() -> None:
    play(
        CHECKED,
        """
        > start
        < node_start plan
        ? check queue plan 0
        > left-in-queue 1
        ? prepare plan 1
        """,
    )


def test_queue_that_is_empty_from_the_start_costs_no_iteration() -> None:
    play(CHECKED, f"> start\n< node_start plan\n? check queue plan 0\n> left-in-queue 0\n{DONE}")


def test_unreadable_queue_fails_the_run_and_a_resume_checks_again() -> None:
    play(
        WORKED_OFF,
        f"""{START}{begin(1)}
        > completed
        ? check queue plan 1
        > queue-unreadable
        < session_failed queue_unreadable
        = failed
        > resume
        ? check queue plan 1
        > left-in-queue 0
        {DONE}
        """,
    )


def test_queue_that_cannot_be_read_before_the_first_iteration_fails_the_run() -> None:
    play(
        CHECKED,
        """
        > start
        < node_start plan
        ? check queue plan 0
        > queue-unreadable
        < session_failed queue_unreadable
        > resume
        ? check queue plan 0
        """,
    )


def test_agent_stop_ends_a_queue_stage_with_tasks_left() -> None:
    play(
        WORKED_OFF,
        f"""{START}{begin(1)}
        > completed stop
        ? check queue plan 1
        > left-in-queue 5
        < node_complete plan: Agent requested stop at iteration 1
        < session_complete all_loops_complete
        """,
    )


def test_queue_stage_ends_at_max_although_tasks_are_left() -> None:
    play(
        plan_of(stage(termination=Queue(1))),
        f"""{START}{begin(1)}
        > completed
        ? check queue plan 1
        > left-in-queue 5
        < node_complete plan: max_iterations
        < session_complete all_loops_complete
        """,
    )


def test_recovery_checks_the_queue_again_if_the_result_was_not_recorded() -> None:
    play(
        WORKED_OFF,
        f"""{START}{begin(1)}
        > completed
        ? check queue plan 1
        > recover
        ? check queue plan 1
        > left-in-queue 1
        ? prepare plan 2
        > recover
        ? prepare plan 2
        """,
    )


def test_pause_does_not_wait_for_the_queue() -> None:
    play(
        WORKED_OFF,
        f"""{START}{begin(1)}
        > completed
        ? check queue plan 1
        > pause lunch
        < session_paused lunch
        > resume
        ? check queue plan 1
        """,
    )
