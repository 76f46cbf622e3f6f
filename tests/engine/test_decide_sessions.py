"""Playbooks of agents' own sessions, and of stages whose work must not be done twice."""

import pytest
from tests.engine.plans import block, plan_of, stage
from tests.engine.playbook import Play, play

from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.failure import FailureKind
from agentforge.model.plan import Plan, ProviderChoice, RetryPolicy, Semantics

BEGIN = """
    > start
    < node_start plan
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
"""
AT = Cursor("0", 1, 1)
CODEX = ProviderChoice("codex", "gpt")


def test_retry_resumes_the_agent_session() -> None:
    play(
        plan_of(stage()),
        f"""{BEGIN}
        > error provider_crashed session=abc
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 2 resume=abc
        ? execute plan 1 attempt 2
        """,
    )


def test_attempt_after_a_lost_one_resumes_its_session() -> None:
    play(
        plan_of(stage()),
        f"""{BEGIN}
        > recover
        ? execute plan 1 attempt 1
        > lost session=abc
        < attempt_start 2 resume=abc
        ? execute plan 1 attempt 2
        """,
    )


def test_session_of_an_attempt_stopped_by_a_pause_is_resumed() -> None:
    play(
        plan_of(stage()),
        f"""{BEGIN}
        > pause lunch now
        < attempt_ending 1
        ? end plan 1 attempt 1
        > cancelled abc
        < session_paused lunch
        > resume
        < attempt_start 2 resume=abc
        ? execute plan 1 attempt 2
        """,
    )


def test_session_is_resumed_five_times_and_then_a_new_one_starts() -> None:
    script = BEGIN
    for number in range(2, 9):
        expected = "" if number == 7 else " resume=abc"
        script += f"""
        > error provider_crashed session=abc
        < session_failed provider_crashed
        > resume
        < attempt_start {number}{expected}
        ? execute plan 1 attempt {number}
        """
    play(plan_of(stage(retry=RetryPolicy(max_attempts=1))), script)


def test_session_that_the_agent_no_longer_reports_is_not_resumed() -> None:
    play(
        plan_of(stage(retry=RetryPolicy(max_attempts=3))),
        f"""{BEGIN}
        > error provider_overloaded session=abc
        < retry_scheduled 2/3 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 2 resume=abc
        ? execute plan 1 attempt 2
        > error provider_overloaded
        < retry_scheduled 3/3 in 4s
        ? wait retry 4s
        > fired retry
        < attempt_start 3
        ? execute plan 1 attempt 3
        """,
    )


@pytest.mark.parametrize("ending", ["> lost", "> pause lunch now"])
def test_session_of_an_agent_killed_before_any_output_is_kept(ending: str) -> None:
    if "pause" in ending:
        ending += """
        < attempt_ending 2
        ? end plan 1 attempt 2
        > cancelled
        < session_paused lunch
        > resume"""
    play(
        plan_of(stage(retry=RetryPolicy(max_attempts=3))),
        f"""{BEGIN}
        > error provider_overloaded session=abc
        < retry_scheduled 2/3 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 2 resume=abc
        ? execute plan 1 attempt 2
        {ending}
        < attempt_start 3 resume=abc
        ? execute plan 1 attempt 3
        """,
    )


def test_session_belongs_to_its_provider() -> None:
    play(
        plan_of(stage(fallbacks=(CODEX,))),
        f"""{BEGIN}
        > error provider_quota resets=600 session=abc
        < provider_changed claude to codex until 600s
        < attempt_start 2 codex
        ? execute plan 1 attempt 2
        """,
    )


def test_next_iteration_starts_a_new_session() -> None:
    play(
        plan_of(stage(runs=2)),
        f"""{BEGIN}
        > error provider_crashed session=abc
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 2 resume=abc
        ? execute plan 1 attempt 2
        > completed
        ? prepare plan 2
        > prepared
        < attempt_start 1
        ? execute plan 2 attempt 1
        """,
    )


def test_earlier_usage_is_known_to_the_attempt_that_resumes_the_session() -> None:
    conversation = play(
        plan_of(stage(retry=RetryPolicy(max_attempts=3))),
        f"""{BEGIN}
        > error provider_overloaded session=abc tokens=10
        < retry_scheduled 2/3 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 2 resume=abc
        ? execute plan 1 attempt 2
        > error provider_overloaded session=abc tokens=5
        < retry_scheduled 3/3 in 4s
        ? wait retry 4s
        > fired retry
        < attempt_start 3 resume=abc
        ? execute plan 1 attempt 3
        """,
    )
    attempt = conversation.stage.iteration.attempt if conversation.stage.iteration else None
    assert attempt is not None
    assert attempt.before is not None
    assert attempt.before.input_tokens == 15


ONCE = plan_of(stage(semantics="at_most_once", retry=RetryPolicy(max_attempts=5), fallbacks=(CODEX,)))


@pytest.mark.parametrize(
    "ending", ["error provider_crashed", "error provider_quota resets=60", "error iteration_timeout", "lost"]
)
def test_at_most_once_asks_a_person_before_a_retry(ending: str) -> None:
    play(
        ONCE,
        f"""{BEGIN}
        > {ending}
        < request_opened at_most_once-6
        < session_paused at_most_once
        = paused
        > resume
        < request_resolved at_most_once-6 reset
        < attempt_start 2
        ? execute plan 1 attempt 2
        """,
    )


def test_at_most_once_retries_an_attempt_that_never_started() -> None:
    play(
        ONCE,
        f"""{BEGIN}
        > lost unstarted
        < attempt_start 2
        ? execute plan 1 attempt 2
        > error provider_missing unstarted
        < provider_changed claude to codex until asked
        < attempt_start 3 codex
        ? execute plan 1 attempt 3
        """,
    )


def test_at_most_once_asks_about_a_program_that_ran_even_if_its_provider_was_removed() -> None:
    play(
        ONCE,
        f"""{BEGIN}
        > error provider_missing
        < request_opened at_most_once-6
        < session_paused at_most_once
        = paused
        """,
    )


@pytest.mark.parametrize(
    ("pause", "ending"),
    [
        ("pause lunch", "error provider_crashed"),
        ("pause lunch", "lost"),
        ("pause lunch now", "error provider_crashed"),
        ("pause lunch now", "cancelled"),
    ],
)
def test_at_most_once_asks_after_a_pause_about_the_failed_attempt(pause: str, ending: str) -> None:
    waiting = "< attempt_ending 1\n? end plan 1 attempt 1" if "now" in pause else "? execute plan 1 attempt 1"
    seq = 9 if "now" in pause else 8
    play(
        ONCE,
        f"""{BEGIN}
        > {pause}
        {waiting}
        > {ending}
        < session_paused lunch
        > resume
        < request_opened at_most_once-{seq + 1}
        < session_paused at_most_once
        > resume
        < request_resolved at_most_once-{seq + 1} reset
        < attempt_start 2
        ? execute plan 1 attempt 2
        """,
    )


def test_at_most_once_asks_about_an_attempt_being_stopped_during_a_resume() -> None:
    play(
        ONCE,
        f"""{BEGIN}
        > pause lunch now
        < attempt_ending 1
        ? end plan 1 attempt 1
        > taken-up-by-person
        ? end plan 1 attempt 1
        > cancelled
        < request_opened at_most_once-9
        < session_paused at_most_once
        """,
    )


def test_at_most_once_asks_although_the_engine_died_before_the_question() -> None:
    conversation = Play(ONCE)
    for words in ("start", "prepared"):
        conversation.happens(words)
    conversation.record(f.ErrorOccurred(FailureKind.PROVIDER_CRASHED, "oops", "plan", 1), AT)
    assert conversation.happens("taken-up-by-person") == [
        "< request_opened at_most_once-7",
        "< session_paused at_most_once",
    ]


@pytest.mark.parametrize(("semantics", "asks"), [("at_least_once", False), ("at_most_once", True)])
@pytest.mark.parametrize("branches", [(), ("claude",)])
def test_recompiling_applies_changed_semantics(
    semantics: Semantics, asks: bool, branches: tuple[str, ...]
) -> None:
    def planned(semantics: Semantics) -> Plan:
        node = stage(semantics=semantics)
        return plan_of(block(" ".join(branches), node) if branches else node)

    conversation = Play(planned("at_most_once"))
    who = f"{branches[0]}: " if branches else ""
    for words in ("start", f"{who}prepared", "pause lunch", f"{who}error provider_crashed"):
        conversation.happens(words)
    assert conversation.state is not None
    changed = plan_change(planned(semantics), conversation.plan, conversation.state)
    conversation.record(changed, conversation.state.cursor)
    first, *_ = conversation.happens("resume")
    assert (
        first.startswith(f"< {who}request_opened at_most_once")
        if asks
        else first == f"< {who}attempt_start 2"
    )


def test_recompiling_applies_changed_semantics_to_a_running_agent() -> None:
    conversation = Play(plan_of(stage(semantics="at_most_once")))
    for words in ("start", "prepared"):
        conversation.happens(words)
    assert conversation.state is not None
    new = plan_of(stage(retry=RetryPolicy(max_attempts=1)))
    conversation.record(plan_change(new, conversation.plan, conversation.state), AT)
    assert conversation.happens("taken-up-by-person") == ["? execute plan 1 attempt 1"]
    assert conversation.happens("error provider_crashed") == ["< session_failed provider_crashed"]
    assert conversation.happens("resume")[0] == "< attempt_start 2"


def test_at_most_once_asks_about_every_branch_of_a_block() -> None:
    publish = stage("publish", semantics="at_most_once")
    conversation = play(
        plan_of(block("claude codex", publish)),
        """
        > start
        < node_start duel
        < claude: parallel_provider_start
        < codex: parallel_provider_start
        ? claude: prepare publish 1
        ? codex: prepare publish 1
        > claude: prepared
        < claude: attempt_start 1
        ? claude: execute publish 1 attempt 1
        ? codex: prepare publish 1
        > codex: prepared
        < codex: attempt_start 1
        ? claude: execute publish 1 attempt 1
        ? codex: execute publish 1 attempt 1
        > claude: lost
        < claude: request_opened at_most_once-10
        ? codex: execute publish 1 attempt 1
        > codex: error provider_crashed
        < codex: request_opened at_most_once-12
        < session_paused at_most_once
        = paused
        > answer at_most_once-12 succeeded
        < session_continued at_most_once-12
        < codex: iteration_complete person confirmed that attempt 1 succeeded
        < codex: request_resolved at_most_once-12 succeeded
        < codex: stage_complete publish: Completed 1 iterations (max: 1)
        < codex: parallel_provider_complete completed
        < session_paused at_most_once
        > answer at_most_once-10
        < session_continued at_most_once-10
        < claude: request_resolved at_most_once-10 continue
        < claude: attempt_start 2
        ? claude: execute publish 1 attempt 2
        """,
    )
    asked = [e.fact for e in conversation.events if isinstance(e.fact, f.RequestOpened)]
    assert ["claude: attempt 1" in asked[0].question, "codex: attempt 1" in asked[1].question] == [True, True]
    assert {request.scope for request in asked} == {"branch"}


def test_session_with_a_new_id_each_time_is_also_resumed_five_times() -> None:
    script = BEGIN
    for number in range(2, 8):
        expected = "" if number == 7 else f" resume=s{number}"
        script += f"""
        > error provider_crashed session=s{number}
        < session_failed provider_crashed
        > resume
        < attempt_start {number}{expected}
        ? execute plan 1 attempt {number}
        """
    play(plan_of(stage(retry=RetryPolicy(max_attempts=1))), script)
