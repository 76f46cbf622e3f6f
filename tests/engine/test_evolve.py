"""The fold of events: total on whatever a log may hold, right where lines are missing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import encode
from msgspec.structs import replace
from tests.engine.any_log import PLAN, any_fact, any_log
from tests.engine.plans import NOON, RUN_ID, block, event, plan_of, stage, started
from tests.engine.playbook import play

from agentforge.engine.decide.run import decide
from agentforge.engine.evolve.checks import checks_on_resume
from agentforge.engine.evolve.hooks import resumed
from agentforge.engine.evolve.run import evolve
from agentforge.engine.evolve.session import MAX_CONTROLS
from agentforge.engine.evolve.task import evolve_iteration
from agentforge.model import facts as f
from agentforge.model.changes import MAX_LEFT, LeftInGit
from agentforge.model.cursor import Cursor
from agentforge.model.errors import LogCorrupt
from agentforge.model.event import Event
from agentforge.model.failure import FailureKind
from agentforge.model.place import visits_key
from agentforge.model.plan import Judgment
from agentforge.model.result import Decision, Result, Usage
from agentforge.model.state import (
    MAX_REFUSED,
    BlockState,
    BranchState,
    HookCall,
    HookProgress,
    RefusedFile,
    RunState,
    StageRecord,
    StageState,
    Verdict,
)
from agentforge.model.status import NodeStatus, RunStatus, TaskStatus
from agentforge.model.task import PrepareTask

WHOLE_RUN = """
    > start
    < node_start plan
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
    > error provider_timeout
    < retry_scheduled 2/2 in 2s
    ? wait retry 2s
    > fired retry
    < attempt_start 2
    ? execute plan 1 attempt 2
    > completed
    ? prepare plan 2
    > prepared
    < attempt_start 1
    ? execute plan 2 attempt 1
    > completed stop
    < node_complete plan: Agent requested stop at iteration 2
    < node_start build
    ? prepare build 1
    > prepared
    < attempt_start 1
    ? execute build 1 attempt 1
    > completed
    < node_complete build: Completed 1 iterations (max: 1)
    < session_complete all_loops_complete
    = completed
"""
RUN = plan_of(stage("plan", runs=3), stage("build"))


WHOLE_BLOCK = """
    > start
    < node_start plan
    ? prepare plan 1
    > prepared
    < attempt_start 1
    ? execute plan 1 attempt 1
    > completed
    < node_complete plan: Completed 1 iterations (max: 1)
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
    < claude: stage_complete draft: Completed 1 iterations (max: 1)
    ? claude: prepare check 1
    ? codex: execute draft 1 attempt 1
    > codex: completed
    < codex: stage_complete draft: Completed 1 iterations (max: 1)
    ? claude: prepare check 1
    ? codex: prepare check 1
    > codex: prepared
    < codex: attempt_start 1
    ? claude: prepare check 1
    ? codex: execute check 1 attempt 1
    > codex: completed
    < codex: judge_start 1
    ? claude: prepare check 1
    ? codex: judge check 1 attempt 1
    > codex: judged stop done
    < codex: stage_complete check: Consensus reached: 1 consecutive agents agree to stop Reason: done
    < codex: parallel_provider_complete completed
    ? claude: prepare check 1
    > claude: prepared
    < claude: attempt_start 1
    ? claude: execute check 1 attempt 1
    > claude: completed
    < claude: judge_start 1
    ? claude: judge check 1 attempt 1
    > claude: judged stop done
    < claude: stage_complete check: Consensus reached: 1 consecutive agents agree to stop Reason: done
    < claude: parallel_provider_complete completed
    ? manifest duel
    > manifest
    < node_complete duel: all providers complete
    < session_complete all_loops_complete
    = completed
"""
BLOCK = plan_of(
    stage("plan"), block("claude codex", stage("draft"), stage("check", termination=Judgment(3, 1, 1)))
)
BLOCK_LINES = 34


def fold(events: list[Event]) -> RunState:
    state: RunState | None = None
    for one in events:
        state = evolve(state, one)
    assert state is not None
    return state


@given(any_log)
def test_evolve_and_decide_are_total_on_any_log(log: list[Event]) -> None:
    state: RunState | None = None
    for one in log:
        state = evolve(state, one)
        assert state.seq == one.seq
        assert state.updated_at == one.at
        decide(PLAN, state)


@given(any_log, any_fact, st.sampled_from(RunStatus))
def test_evolve_is_total_on_any_fact_in_any_status(
    log: list[Event], fact: f.AnyFact, status: RunStatus
) -> None:
    state = replace(fold(log), status=status)
    after = evolve(state, event(state.seq + 1, fact))
    assert after.seq == state.seq + 1
    assert decide(PLAN, after) == decide(PLAN, after)


@given(any_fact)
def test_log_without_session_start_is_refused(fact: f.AnyFact) -> None:
    if isinstance(fact, f.SessionStarted | f.LogImported):
        assert evolve(None, event(1, fact)).status is RunStatus.RUNNING
    else:
        with pytest.raises(LogCorrupt, match="doesn't start with session_start"):
            evolve(None, event(1, fact))


@given(st.sets(st.integers(1, 18)))
def test_log_with_missing_lines_still_folds_and_ends_completed(lost: set[int]) -> None:
    whole = play(RUN, WHOLE_RUN).events
    left = [one for number, one in enumerate(whole) if number == 0 or number not in lost]
    state = fold(left)
    decide(RUN, state)
    assert (state.status is RunStatus.COMPLETED) == (len(whole) - 1 not in lost)


@pytest.mark.parametrize("line", range(1, 17))
def test_missing_line_repeats_at_most_the_work_it_recorded(line: int) -> None:
    """With the end of the run truncated as well, so that the engine has to continue."""
    whole = play(RUN, WHOLE_RUN).events
    state = fold([one for number, one in enumerate(whole[:-2]) if number != line])
    assert state.node is None or state.node.path == "1"
    decision = decide(RUN, state)
    for draft in decision.facts:
        assert draft.cursor is not None
        assert draft.cursor.node_path == "1"


def done_by(events: list[Event]) -> set[Cursor]:
    return {e.cursor for e in events if isinstance(e.fact, f.IterationCompleted) and e.cursor}


@pytest.mark.parametrize("line", range(1, BLOCK_LINES))
def test_missing_line_of_a_block_repeats_no_iteration(line: int) -> None:
    """Whatever else was cut off: what is known to be complete isn't begun again."""
    whole = play(BLOCK, WHOLE_BLOCK).events
    assert len(whole) == BLOCK_LINES
    for end in range(line + 1, BLOCK_LINES):
        left = [one for number, one in enumerate(whole[:end]) if number != line]
        state = fold(left)
        decision = decide(BLOCK, state)
        begun = {work.cursor for work in decision.work if isinstance(work, PrepareTask)}
        assert not begun & done_by(left), f"cut after {end} lines"
        assert decision.facts or decision.work


@given(st.sets(st.integers(1, BLOCK_LINES - 2), max_size=8), st.integers(1, BLOCK_LINES))
def test_log_of_a_block_with_missing_lines_can_always_be_continued(lost: set[int], end: int) -> None:
    whole = play(BLOCK, WHOLE_BLOCK).events
    state = fold([one for number, one in enumerate(whole[:end]) if number not in lost])
    decision = decide(BLOCK, state)
    assert (not decision.facts and not decision.work) == (state.status is RunStatus.COMPLETED)


def test_block_without_a_start_is_rebuilt_from_its_branches() -> None:
    whole = play(BLOCK, WHOLE_BLOCK).events
    lost = [one for one in whole[:11] if not isinstance(one.fact, f.NodeStarted | f.ProviderStarted)]
    state = fold(lost)
    assert state.block is not None
    assert [branch.provider for branch in state.block.branches] == ["claude"]
    answer = decide(BLOCK, state)
    assert [(draft.fact.TYPE, draft.cursor) for draft in answer.facts] == [
        ("parallel_provider_start", Cursor("1", 1, 0, "codex"))
    ]
    assert [work.id for work in answer.work] == ["1.0@claude/1/1/1/agent"]


def test_stage_whose_predecessor_lost_its_end_is_taken_from_the_cursor() -> None:
    whole = play(BLOCK, WHOLE_BLOCK).events
    state = fold([one for one in whole[:-2] if not isinstance(one.fact, f.StageCompleted)])
    assert state.block is not None
    assert [branch.status for branch in state.block.branches] == [NodeStatus.COMPLETED] * 2


def test_node_after_a_block_that_lost_its_end_and_its_own_start_is_where_the_run_is() -> None:
    plan = plan_of(block("claude", stage("draft")), stage("merge"))
    lost = [
        event(1, started(plan), Cursor("0", 0, 0)),
        event(2, f.NodeStarted("duel", "0", kind="parallel", providers=("claude",)), Cursor("0", 1, 0)),
        event(3, f.AttemptStarted(1, 2, "claude", "opus"), Cursor("1", 1, 1)),
    ]
    assert [work.id for work in decide(plan, fold(lost)).work] == ["1/1/1/1/agent"]


def test_node_whose_predecessor_lost_its_end_is_taken_from_the_cursor() -> None:
    whole = play(RUN, WHOLE_RUN).events
    lost = [one for one in whole if not isinstance(one.fact, f.NodeCompleted | f.NodeStarted)]
    state = fold(lost[: [one.fact.TYPE for one in lost].index("session_complete")])
    assert state.node is not None
    assert (state.node.path, state.node.completed) == ("1", 1)


def test_fact_without_a_cursor_belongs_to_the_current_node() -> None:
    state = fold(
        [
            event(1, started(PLAN)),
            event(2, f.NodeStarted("plan", "0", runs=3)),
            event(3, f.IterationStarted("plan", "plan", "claude", "opus", "0" * 64)),
        ]
    )
    assert state.node is not None
    assert (state.node.path, state.node.run) == ("0", 1)
    assert state.iteration is not None
    assert state.iteration.number == 1


def test_node_that_the_plan_does_not_have_fails_the_run_with_its_path() -> None:
    state = fold([event(1, started(PLAN)), event(2, f.NodeStarted("plan", "x"), Cursor("x", 1, 0))])
    (draft,) = decide(PLAN, state).facts
    assert isinstance(draft.fact, f.SessionFailed)
    assert (draft.fact.kind, draft.fact.message) == (
        FailureKind.STATE_CORRUPT,
        "the plan has no node at 'x'",
    )


@pytest.mark.parametrize(
    "fact", [f.NodeStarted("refine"), f.QueueChecked(1)], ids=["start", "its start lost"]
)
def test_nested_node_is_found_by_path_without_a_recorded_place(fact: f.AnyFact) -> None:
    plan = replace(PLAN, nodes=PLAN.nodes[:-1])  # Without the stage that delivers.
    state = evolve(fold([event(1, started(plan))]), event(2, fact, Cursor("4.0", 2, 0)))
    decision = decide(plan, state)
    assert [work.cursor for work in decision.work] == [Cursor("4.0", 2, 1)]


def test_error_before_any_node_has_no_effect() -> None:
    before = fold([event(1, started(PLAN))])
    after = evolve(before, event(2, f.ErrorOccurred(FailureKind.STATE_CORRUPT, "x", "plan", 1)))
    assert after.node is None
    assert after.status is RunStatus.RUNNING


def test_a_limit_whose_iteration_is_missing_counts_for_the_provider_only() -> None:
    met = f.LimitMet(1, "claude", 0, NOON, NOON, "limit")
    after = evolve_iteration(StageState("0", 1), event(2, met, Cursor("0", 1, 1)), met)
    assert after.iteration is None
    assert [known.choice for known in after.unavailable] == [0]


def test_a_change_of_provider_whose_iteration_is_missing_counts_for_the_provider_only() -> None:
    changed = f.ProviderChanged(1, "claude", 0, "codex", 1, "not logged in")
    after = evolve_iteration(StageState("0", 1), event(2, changed, Cursor("0", 1, 1)), changed)
    assert after.iteration is None
    assert [(known.choice, known.limited) for known in after.unavailable] == [(0, False)]


@pytest.mark.parametrize(
    ("fact", "at"),
    [
        (f.StageCompleted("draft", "enough", 1), None),
        (f.TimerFired("stop"), None),
        (f.HookCompleted("h", "session_end", "d1"), None),
        (f.EffectDone("d1", "webhook"), None),
        (f.CheckLost("tests"), Cursor("0", 1, 1)),
    ],
    ids=["stage of a block", "stop", "hook", "effect", "check"],
)
def test_an_end_whose_beginning_is_missing_has_no_effect(fact: f.AnyFact, at: Cursor | None) -> None:
    before = fold([event(1, started(PLAN)), event(2, f.NodeStarted("plan", "0", runs=3), Cursor("0", 1, 0))])
    after = evolve(before, event(3, fact, at))
    assert replace(after, seq=before.seq, cursor=before.cursor) == before


def test_the_end_of_a_left_tmux_session_changes_nothing() -> None:
    before = fold([event(1, started(PLAN)), event(2, f.NodeStarted("plan", "0", runs=3), Cursor("0", 1, 0))])
    after = evolve(before, event(3, f.TmuxSessionCleaned("agentforge-auth")))
    assert replace(after, seq=before.seq) == before


def test_block_that_the_plan_does_not_have_fails_the_run_with_its_path() -> None:
    state = replace(fold([event(1, started(PLAN))]), at=BlockState("x", 1))
    (draft,) = decide(PLAN, state).facts
    assert isinstance(draft.fact, f.SessionFailed)
    assert draft.fact.message == "the plan has no node at 'x'"


def test_first_event_must_start_the_session() -> None:
    with pytest.raises(LogCorrupt, match="doesn't start with session_start"):
        evolve(None, event(1, f.TimerFired("retry")))


def test_imported_stage_counts_as_visited_once() -> None:
    imported = f.LogImported(
        3, "0" * 64, "pipeline", RUN_ID, PLAN, "1.0", NOON, StageState("0", 1), format=f.LOG_FORMAT
    )
    assert evolve(None, event(4, imported)).visits == {"0": 1}


def test_imported_block_counts_the_stages_that_its_branches_completed() -> None:
    record = StageRecord("draft", "0.0", 1, NOON, "enough")
    at = BlockState("0", 1, branches=(BranchState("claude", stages=(record,)), BranchState("codex")))
    imported = f.LogImported(3, "0" * 64, "pipeline", RUN_ID, PLAN, "1.0", NOON, at, format=f.LOG_FORMAT)
    state = evolve(None, event(4, imported))
    assert state.visits == {"0": 1, visits_key("0.0", "claude"): 1}
    assert state.block == at


@pytest.mark.parametrize("verdict", [Verdict("pass"), Verdict("fail", accepted_by="ada")])
def test_a_settled_verdict_stays_when_the_run_is_resumed(verdict: Verdict) -> None:
    at = StageState("0", 1, verdict=verdict)
    assert checks_on_resume(at) == at


@pytest.mark.parametrize(
    "call",
    [None, HookCall(hook="h", delivery="d", number=1, status=TaskStatus.SUCCEEDED, started_at=NOON)],
    ids=["not called", "answered"],
)
def test_a_hook_without_a_failed_call_stays_when_the_run_is_resumed(call: HookCall | None) -> None:
    hooks = (HookProgress("session_start", None, call=call),)
    state = replace(fold([event(1, started(PLAN))]), hooks=hooks)
    assert resumed(state).hooks == hooks


def test_damage_that_a_person_accepted_is_remembered() -> None:
    state = fold([event(1, started(PLAN)), event(2, f.DamageAccepted((3, 9)))])
    assert evolve(state, event(3, f.DamageAccepted((12,)))).accepted_damage == (3, 9, 12)


def test_controls_taken_in_are_remembered_but_not_without_end() -> None:
    state = fold([event(1, started(PLAN))])
    for number in range(100):
        state = evolve(state, event(number + 2, f.PauseRequested("x", control=f"c{number}")))
    assert state.controls == tuple(f"c{number}" for number in range(100 - MAX_CONTROLS, 100))


def test_refused_files_are_remembered_but_not_without_end() -> None:
    state = fold([event(1, started(PLAN))])
    for number in range(MAX_REFUSED + 3):
        state = evolve(state, event(number + 2, f.FileRefused(f"control/{number}", "empty", f"{number}.x")))
    assert len(state.refused) == MAX_REFUSED
    assert state.refused[0] == RefusedFile("control/3", "empty", "3.x")


def test_what_was_left_for_git_belongs_to_its_visit_and_is_named_once() -> None:
    state = replace(fold([event(1, started(PLAN))]), at=StageState("0", 2))
    items = tuple(LeftInGit(f"{number}/.git", "repository") for number in range(MAX_LEFT + 1))
    left = f.GitLeft(items[:2])
    for elsewhere in (None, Cursor("0", 1, 1), Cursor("1", 2, 1), Cursor("0", 2, 1, "codex")):
        assert evolve(state, event(2, left, elsewhere)).at == state.at
    here = Cursor("0", 2, 1)
    state = evolve(evolve(state, event(2, left, here)), event(3, left, here))
    assert state.node is not None
    assert state.node.git_left == items[:2]
    full = evolve(state, event(4, f.GitLeft(items), here))
    assert full.node is not None
    assert full.node.git_left == items[1:]


def test_state_of_a_block_holds_no_collection_that_grows_by_iteration() -> None:
    sizes = set()
    state = fold(play(BLOCK, "\n".join(WHOLE_BLOCK.splitlines()[:14])).events)
    for number in range(1, 200):
        for provider in ("claude", "codex"):
            here = Cursor("1.0", 1, number, provider)
            for fact in (
                f.IterationStarted("draft", "draft", provider, "opus", "0" * 64),
                f.AttemptStarted(1, 2, provider, "opus"),
                f.IterationCompleted("draft", 1, Decision.CONTINUE, "", "result.json", Result(), 1),
                f.JudgeStarted("claude", "haiku"),
                f.JudgeCompleted("success", f.JudgeResult(stop=False, reason="more")),
            ):
                state = evolve(state, event(1000, fact, here))
        if number >= 100:
            sizes.add(len(encode(state)))
    assert len(sizes) == 1


def test_state_holds_no_collection_that_grows_by_iteration() -> None:
    sizes = set()
    state = fold(play(plan_of(stage(runs=10_000)), "> start\n< node_start plan\n? prepare plan 1").events)
    for number in range(1, 200):
        here = Cursor("0", 1, number)
        for fact in (
            f.IterationStarted("plan", "plan", "claude", "opus", "0" * 64),
            f.AttemptStarted(1, 2, "claude", "opus"),
            f.IterationCompleted("plan", 1, Decision.CONTINUE, "", "result.json", Result(), 1),
        ):
            state = evolve(state, event(1000, fact, here))
        if number >= 100:
            sizes.add(len(encode(state)))
    assert len(sizes) == 1


def test_usage_is_summed_over_successes_failures_and_the_judge_and_unknown_numbers_are_left_out() -> None:
    def completed(usage: Usage | None = None) -> f.AnyFact:
        return f.IterationCompleted("plan", 1, Decision.CONTINUE, "", "/r", Result(), 1, usage=usage)

    failed = f.ErrorOccurred(
        FailureKind.RESULT_MISSING, "x", "plan", 1, usage=Usage(input_tokens=100, cost_usd=0.5)
    )
    judged = f.JudgeCompleted("success", f.JudgeResult(False, ""), usage=Usage(1, 2, cost_usd=0.25))
    facts = [completed(Usage(10, 20, cost_usd=0.25)), failed, completed(), judged]
    for branch in (None, "claude"):
        here = Cursor("0.0" if branch else "0", 1, 1, branch)
        spent = fold(
            [event(1, started(PLAN)), *(event(n, fact, here) for n, fact in enumerate(facts, 2))]
        ).spending
        assert (spent.input_tokens, spent.output_tokens, spent.cost_usd) == (111, 22, 1.0)
