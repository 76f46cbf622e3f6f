"""Playbooks of artifacts: an invalid one is corrected once, in the agent's own session."""

import pytest
from tests.engine.plans import plan_of, stage
from tests.engine.playbook import play

from agentforge.engine.decide.failure import attempts_allowed
from agentforge.model.artifact import ArtifactRule
from agentforge.model.failure import FailureKind
from agentforge.model.plan import Plan, RetryPolicy

BEGIN = """
    > start
    < node_start plan
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
"""


def planner(heal: int = 1, runs: int = 1, **retry: int) -> Plan:
    return plan_of(stage(runs=runs, artifact=ArtifactRule({}, heal=heal), retry=RetryPolicy(**retry)))


HEALED = f"""{BEGIN}
    > error artifact_invalid session=abc
    < retry_scheduled 2/2 in 0s
    ? wait retry 0s
    > fired retry
    < attempt_start 2 resume=abc
    ? execute plan 1 attempt 2
"""


def test_an_invalid_artifact_is_corrected_once_in_the_session_of_its_agent() -> None:
    """At once, and even where nothing is retried."""
    play(
        planner(max_attempts=1),
        f"""{HEALED}
        > completed
        < node_complete plan: Completed 1 iterations (max: 1)
        < session_complete all_loops_complete
        """,
    )


def test_an_artifact_that_stays_invalid_fails_the_iteration() -> None:
    play(
        planner(max_attempts=9),
        f"""{HEALED}
        > error artifact_invalid session=abc
        < session_failed artifact_invalid
        = failed
        """,
    )


def test_each_iteration_may_correct_its_artifact() -> None:
    play(
        planner(max_attempts=1, runs=2),
        f"""{HEALED}
        > completed
        ? prepare plan 2
        > prepared
        < attempt_start 1
        ? execute plan 2 attempt 1
        > error artifact_invalid session=def
        < retry_scheduled 2/2 in 0s
        ? wait retry 0s
        """,
    )


def test_without_healing_the_first_invalid_artifact_is_the_last() -> None:
    play(
        planner(heal=0, max_attempts=9),
        f"""{BEGIN}
        > error artifact_invalid session=abc
        < session_failed artifact_invalid
        = failed
        """,
    )


def test_then_the_stage_is_retried_without_another_correction() -> None:
    play(
        planner(stage=1),
        f"""{HEALED}
        > error artifact_invalid session=abc
        < stage_retry 1/1 artifact_invalid in 4s
        ? wait retry 4s
        > fired retry
        < attempt_start 3 resume=abc
        ? execute plan 1 attempt 3
        > error artifact_invalid session=abc
        < session_failed artifact_invalid
        = failed
        """,
    )


def test_a_person_who_resumes_has_the_iteration_done_again() -> None:
    play(
        planner(heal=0),
        f"""{BEGIN}
        > error artifact_invalid session=abc
        < session_failed artifact_invalid
        > resume
        < attempt_start 2 resume=abc
        ? execute plan 1 attempt 2
        """,
    )


INVALID, CRASHED, TIMEOUT = (
    FailureKind.ARTIFACT_INVALID,
    FailureKind.PROVIDER_CRASHED,
    FailureKind.PROVIDER_TIMEOUT,
)


@pytest.mark.parametrize(
    ("most", "heal", "failures", "allowed"),
    [
        (1, 1, (), 1),
        (1, 1, (INVALID,), 2),
        (1, 0, (INVALID,), 1),
        (1, 1, (INVALID, INVALID), 2),
        (1, 3, (INVALID, INVALID), 3),
        # A correction counts as a try of the others, and isn't bounded by them.
        (2, 1, (CRASHED, INVALID), 3),
        (2, 1, (INVALID, CRASHED), 2),
        (3, 1, (INVALID, CRASHED), 3),
        (9, 1, (INVALID, TIMEOUT, INVALID), 3),
        (9, 2, (INVALID, TIMEOUT, INVALID), 4),
    ],
)
def test_how_many_attempts_corrections_add(
    most: int, heal: int, failures: tuple[FailureKind, ...], allowed: int
) -> None:
    assert attempts_allowed(RetryPolicy(max_attempts=most), failures, heal) == allowed
