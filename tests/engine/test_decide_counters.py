"""What counts against the next try, and what doesn't."""

import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, block, event, plan_of, stage, started
from tests.engine.playbook import play

from agentforge.engine.evolve.run import evolve
from agentforge.engine.legal import refuse_illegal
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.errors import IllegalMove
from agentforge.model.plan import ProviderChoice, RetryPolicy
from agentforge.model.state import IterationState, RunState, StageState
from agentforge.model.status import IterationStatus, TaskStatus

CODEX = ProviderChoice("codex", "gpt")
BEGIN = """
    > start
    < node_start plan
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
"""
TWO_TRIES = RetryPolicy(max_attempts=2)


def test_the_next_provider_has_as_many_tries_as_the_first() -> None:
    play(
        plan_of(stage(retry=TWO_TRIES, fallbacks=(CODEX,))),
        f"""{BEGIN}
        > error provider_crashed
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        > error provider_crashed
        < provider_changed claude to codex until 900s
        < attempt_start 3 codex
        ? execute plan 1 attempt 3
        > error provider_crashed
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        """,
    )


def test_a_limit_that_was_met_costs_the_work_no_try() -> None:
    play(
        plan_of(stage(retry=TWO_TRIES)),
        f"""{BEGIN}
        > error provider_rate_limited resets=60
        < limit_met claude until 60s, next in 60s
        ? wait retry 60s
        > fired retry
        < attempt_start 2
        ? execute plan 1 attempt 2
        > error provider_crashed
        < retry_scheduled 2/2 in 2s
        ? wait retry 2s
        """,
    )


def running(*recorded: f.AnyFact) -> RunState:
    state = evolve(None, event(1, started(plan_of(stage())), Cursor("0", 0, 0)))
    for seq, fact in enumerate(recorded, 2):
        state = evolve(state, event(seq, fact, Cursor("0", 1, 1)))
    return state


def test_a_judge_that_was_ended_on_request_is_not_lost() -> None:
    begun = (f.NodeStarted("plan", "0", 1), f.JudgeStarted("claude", "haiku", 1))
    ended = running(*begun, f.JudgeEnding(1, "lunch"), f.JudgeLost(1)).stage(None)
    died = running(*begun, f.JudgeLost(1)).stage(None)
    assert ended is not None
    assert died is not None
    judges = [stage.calls["judge"] for stage in (ended, died)]
    assert [(judge.status, judge.lost) for judge in judges] == [
        (TaskStatus.CANCELLED, 0),
        (TaskStatus.LOST, 1),
    ]


ASKED = f.RequestOpened("approval-1", "approval", "approval-1", "approval", "May it?", ("yes", "no"))


def test_a_request_is_answered_once_and_resolved_once_it_is_answered() -> None:
    asked = running(ASKED)
    answer, resolve = (
        f.RequestAnswered("approval-1", "yes", "ada"),
        f.RequestResolved("approval-1", "continue"),
    )
    with pytest.raises(IllegalMove):
        refuse_illegal(asked, resolve)
    answered = evolve(asked, event(3, answer, Cursor("0", 1, 1)))
    refuse_illegal(answered, resolve)
    with pytest.raises(IllegalMove):
        refuse_illegal(answered, answer)


def test_two_branches_ask_once_about_the_run() -> None:
    play(
        plan_of(block("claude codex", stage("draft"))),
        """
        > start
        < node_start duel
        < claude: parallel_provider_start
        < codex: parallel_provider_start
        ? claude: prepare draft 1
        ? codex: prepare draft 1
        > recover
        ? claude: prepare draft 1
        ? codex: prepare draft 1
        > recover
        ? claude: prepare draft 1
        ? codex: prepare draft 1
        > recover
        < claude: request_opened recoveries_without_progress-8
        < session_paused recoveries_without_progress
        = paused
        """,
    )


@pytest.mark.parametrize(("asked_at", "counts"), [(1, False), (2, True), (3, False)])
def test_an_answer_is_about_the_iteration_that_was_asked_about(asked_at: int, counts: bool) -> None:
    under_way = IterationState(2, IterationStatus.STARTED, NOON)
    state = replace(running(), at=StageState("0", 1, completed=1, iteration=under_way))
    assert (state.stage_asking(Cursor("0", 1, asked_at)) is not None) is counts
