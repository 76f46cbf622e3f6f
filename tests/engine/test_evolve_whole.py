"""What facts change of a state that no decision shows at once: records, counters and texts with secrets."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.engine.plans import NOON, event, plan_of, stage, started

from agentforge.engine.evolve.run import evolve
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.errors import LogCorrupt, LogTooOld
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.hook import HookPoint
from agentforge.model.request import Feedback, Note
from agentforge.model.result import AgentQuestion, Decision, Result, Usage
from agentforge.model.state import (
    STUCK,
    AttemptState,
    Between,
    BlockState,
    BranchState,
    Cluster,
    CycleCount,
    Failing,
    HookCall,
    HookProgress,
    IterationState,
    RunState,
    StageRecord,
    StageState,
    Start,
    Transition,
    Verdict,
)
from agentforge.model.status import IterationStatus, NodeStatus, TaskStatus

PLAN = plan_of(stage("plan"), stage("build"))
HERE = Cursor("0", 1, 1)
FRESH = evolve(None, event(1, started(PLAN), Cursor("0", 0, 0)))
LATER = 7.0


def after(state: RunState, fact: f.AnyFact, at: Cursor | None = HERE) -> RunState:
    return evolve(state, event(state.seq + 1, fact, at, LATER))


def at(place: StageState | BlockState | Between, **known: Any) -> RunState:
    return replace(FRESH, at=place, **known)


def asked(kind: Any = "question", reason: str = "question", **more: Any) -> f.RequestOpened:
    return f.RequestOpened("r", kind, "k", reason, "Which?", ("a", "b"), **more)


LATE = event(2, f.SessionPaused("x"), HERE, LATER).at


# -- nodes


def test_completed_node_is_recorded_with_its_verdict_and_its_round() -> None:
    place = StageState("0", 2, completed=3, asked=1, judge_failures=2)
    done = f.NodeCompleted(
        "plan", "enough", 3, next=Destination("1"), verdict="reject", overridden_by="person"
    )
    record = StageRecord("plan", "0", 3, LATE, "enough", 2, (1, 4), 2, "reject", "person", 1)
    state = after(at(place, rounds=(1, 4)), done, Cursor("0", 2, 3))
    assert (state.stages, state.at) == ((record,), Between(Destination("1")))
    of_block = after(at(BlockState("0", 1)), f.NodeCompleted("duel", "all", 0), Cursor("0", 1, 0))
    assert of_block.stages[-1].judge_failures == 0


@pytest.mark.parametrize(
    ("path", "skipped", "passed"),
    [("0", ("b", "c"), ["1", "2"]), ("1.2", ("b", "c"), ["1.3", "1.4"]), ("0.1.4", ("b",), ["0.1.5"])],
)
def test_nodes_that_a_route_passes_over_follow_its_stage(
    path: str, skipped: tuple[str, ...], passed: list[str]
) -> None:
    to = Destination("9")
    place = StageState(path, 1, transition=Transition(to, None, skipped))
    before = {"7": NOON}
    state = after(
        at(place, skipped=before), f.NodeCompleted("plan", "routed", 1, next=to), Cursor(path, 1, 1)
    )
    assert state.skipped == before | dict.fromkeys(passed, LATE)
    assert state.at == Between(to, None)


def test_run_is_at_the_block_whatever_its_branches_do() -> None:
    block = BlockState("0", 2, branches=(BranchState("claude"),))
    state = after(at(block), f.ProviderStarted("claude", ("draft",)), Cursor("0", 2, 0, "claude"))
    assert state.cursor == Cursor("0", 2, 0)
    inner = f.IterationStarted("draft", "draft", "claude", "opus", "0")
    state = after(state, inner, Cursor("0.0", 2, 1, "claude"))
    assert state.cursor == Cursor("0", 2, 0)


def test_branch_has_begun_with_its_first_fact() -> None:
    inner = f.IterationStarted("draft", "draft", "claude", "opus", "0")
    begun = BranchState("claude", NodeStatus.RUNNING, started_at=NOON)
    for branch, since in ((begun, NOON), (BranchState("claude"), LATE)):
        state = after(at(BlockState("0", 1, branches=(branch,))), inner, Cursor("0.0", 1, 1, "claude"))
        assert state.block is not None
        assert [known.started_at for known in state.block.branches] == [since]


def test_branch_that_follows_a_route_without_feedback_gets_none() -> None:
    inside = StageState("0.0", 1, transition=Transition(Destination("0.2"), None, ("x",)))
    block = BlockState("0", 1, branches=(BranchState("claude", NodeStatus.RUNNING, inside),))
    state = after(at(block), f.StageCompleted("draft", "routed", 1), Cursor("0.0", 1, 1, "claude"))
    assert state.block is not None
    (branch,) = state.block.branches
    assert (branch.reentry, branch.jump, branch.skipped) == (None, 2, ("x",))


# -- the beginning


def imported(place: StageState | BlockState | Between, *done: StageRecord) -> f.LogImported:
    session = started(PLAN)
    return f.LogImported(3, "0" * 64, "pipeline", session.run_id, PLAN, "0.1.0", NOON, place, done, format=1)


def test_imported_run_has_the_position_and_the_history_that_it_brings() -> None:
    record = StageRecord("plan", "0", 2, NOON, "enough")
    fact = replace(imported(StageState("1", 1), record), format=f.LOG_FORMAT)
    state = evolve(None, event(4, fact, Cursor("1", 1, 0), LATER))
    assert (state.started_at, state.clock_from, state.seq) == (NOON, LATE, 4)
    assert (state.at, state.stages, state.visits) == (StageState("1", 1), (record,), {"0": 1, "1": 1})
    assert state.cursor == Cursor("1", 1, 0)
    between = evolve(None, event(4, replace(fact, at=Between(Destination("1"))), HERE, LATER))
    assert between.visits == {"0": 1}


def test_run_begins_without_waivers_at_the_start() -> None:
    assert (FRESH.waivers, FRESH.at, FRESH.cursor) == ((), Start(), Cursor("0", 0, 0))


def test_log_that_cannot_be_continued_says_what_to_do() -> None:
    with pytest.raises(LogCorrupt) as corrupt:
        evolve(None, event(1, f.SessionPaused("x"), HERE))
    assert corrupt.value.hint == "run `agentforge log verify` to see which lines are damaged"
    with pytest.raises(LogTooOld) as old:
        evolve(None, event(1, replace(started(PLAN), format=0), HERE))
    assert old.value.hint == "finish the run with the version that started it, or start over with --force"


# -- counters


def cycles_after(known: list[str], source: str, to: str, provider: str | None = None) -> set[str]:
    """Of the known counters those that are left, after a route was taken from one stage to another."""
    state = at(StageState(source, 1), cycles={key: CycleCount(1, 3) for key in known})
    if provider is not None:
        state = replace(state, at=BlockState(source.rpartition(".")[0], 1))
    moved = f.StageTransitioned("x", "y", "fail", "", cycle=2, of=3, next=Destination(to))
    left = after(state, moved, Cursor(source, 1, 1, provider)).cycles
    return {key for key in left if key in known}


@pytest.mark.parametrize(
    ("source", "to", "provider", "kept", "reset"),
    [
        ("2", "1", None, ["0>0", "3>3", "2>0", "3>1", "3>2"], ["1>1", "2>2"]),
        ("2", "1.0", None, ["0.1>0.0", "3.1>3.0"], ["1.1>1.0", "1.0>1.0", "2.1.0>2.0.0"]),
        ("1.2", "1.1", None, ["0.2>0.1", "2>1", "1.0>1.0", "1.3>1.1", "1>1", "11.2>11.1"], ["1.1>1.1"]),
        ("0.1.2", "0.1.1", None, ["0.2.2>0.2.1", "0.0.1>0.0.1", "0.2>0.1"], ["0.1.1>0.1.1"]),
        ("0.2", "0.0", "claude", ["0.1@codex>0.1", "0.3@claude>0.0"], ["0.1@claude>0.1"]),
    ],
)
def test_cycle_resets_the_counters_inside_it(
    source: str, to: str, provider: str | None, kept: list[str], reset: list[str]
) -> None:
    assert cycles_after([*kept, *reset], source, to, provider) == set(kept)


@pytest.mark.parametrize(
    ("before", "path", "rounds", "kept"),
    [
        ((1,), "1.0", (1, 1), {"0", "2.0"}),
        ((1, 1), "1.0", (1, 2), {"0", "2.0"}),
        ((1, 1), "1.0", (1, 1), {"0", "1.0", "1.1.0", "1.2.0", "2.0"}),
        ((1, 1, 1), "1.1.0", (1, 1, 2), {"0", "1.0", "1.2.0", "2.0"}),
        ((1,), "0", (2,), set()),
    ],
)
def test_round_of_a_pipeline_begins_without_counters(
    before: tuple[int, ...], path: str, rounds: tuple[int, ...], kept: set[str]
) -> None:
    places = ("0", "1.0", "1.1.0", "1.2.0", "2.0")
    state = at(
        Between(Destination(path, rounds)),
        rounds=before,
        failing={place: Failing("t", (), 1, 1) for place in places},
        cycles={f"{place}>{place}": CycleCount(1, 3) for place in places},
        clusters=tuple(Cluster(place, place, 1, (place, 1)) for place in places),
    )
    begun = after(state, f.NodeStarted("x", path, rounds=rounds), Cursor(path, 1, 0))
    assert set(begun.failing) == {key.partition(">")[0] for key in begun.cycles} == kept
    assert {cluster.signature for cluster in begun.clusters} == kept


def test_answer_in_a_branch_forgets_its_failures_and_not_those_of_others() -> None:
    branch = BranchState(
        "claude", NodeStatus.RUNNING, StageState("0.1", 1, completed=1, verdict=Verdict("fail"))
    )
    failing = {key: Failing("t", (), 2, 1) for key in ("0.1@claude", "0.1@codex", "0.1")}
    state = at(BlockState("0", 1, branches=(branch,)), failing=failing)
    here = Cursor("0.1", 1, 1, "claude")
    for fact in (
        asked("escalation", "no_progress", grants="cycles"),
        f.RequestAnswered("r", "accept", "person", "good enough"),
        f.RequestResolved("r", "accepted"),
    ):
        state = after(state, fact, here)
    assert set(state.failing) == {"0.1@codex", "0.1"}
    assert state.block is not None
    now = state.block.branches[0].stage
    assert now is not None
    assert now.verdict is not None
    assert (now.verdict.accepted_by, now.verdict.accept_reason) == ("person", "good enough")


@pytest.mark.parametrize(("reason", "granted"), [("verdict", 0), ("cycle_limit", 1)])
def test_checks_that_run_again_grant_no_cycle(reason: str, granted: int) -> None:
    state = at(StageState("0", 1, completed=1, verdict=Verdict("fail", is_checked=True)))
    for fact in (
        asked("escalation", reason),
        f.RequestAnswered("r", "resume", "person"),
        f.RequestResolved("r", "reset"),
    ):
        state = after(state, fact)
    assert isinstance(state.at, StageState)
    assert state.at.granted == granted


def test_answer_about_an_attempt_that_is_running_again_changes_nothing() -> None:
    attempt = AttemptState(1, TaskStatus.RUNNING, NOON)
    running = IterationState(1, IterationStatus.STARTED, NOON, attempt=attempt)
    state = after(at(StageState("0", 1, iteration=running)), asked("escalation", "attempts_lost"))
    for fact in (f.RequestAnswered("r", "retry", "person"), f.RequestResolved("r", "continue")):
        state = after(state, fact)
    assert state.node is not None
    assert state.node.iteration == running


# -- recoveries


JUDGED = f.JudgeResult(False, "x")


@pytest.mark.parametrize(
    ("fact", "is_progress"),
    [
        (f.JudgeCompleted("success", JUDGED), True),
        (f.JudgeCompleted("failed", JUDGED), False),
        (f.CheckCompleted("test", 1, "pass"), True),
        (f.RequestAnswered("r", "a", "person"), True),
        (f.TimerFired("delay"), False),
    ],
)
def test_recoveries_are_counted_until_there_is_progress(fact: f.AnyFact, is_progress: bool) -> None:
    state = at(StageState("0", 1), recoveries=3, recoveries_excused=2)
    state = after(state, asked())
    state = after(state, fact)
    assert (state.recoveries, state.recoveries_excused) == ((0, 0) if is_progress else (3, 2))


def test_run_that_a_person_continues_made_no_progress_by_that() -> None:
    state = at(StageState("0", 1), recoveries=3, recoveries_excused=1)
    state = after(state, asked("escalation", STUCK, scope="run"))
    state = after(state, f.RequestAnswered("r", "resume", "person"))
    assert (state.recoveries, state.recoveries_excused) == (3, 1)
    state = after(state, f.RequestResolved("r", "reset"))
    assert (state.recoveries, state.recoveries_excused) == (0, 0)


# -- requests and what people say


def test_texts_of_people_keep_the_names_of_its_secrets() -> None:
    secrets = ("TOKEN",)
    question = AgentQuestion("q", "Which?")
    result = Result(decision=Decision.ASK, questions=(question,))
    state = at(StageState("0", 1, completed=1, questions=result.asked))
    answer = f.RequestAnswered("r", "a", "person", "${secret:TOKEN}", secrets=secrets)
    state = after(after(state, asked(subject="q")), answer)
    assert state.requests[0].secrets == secrets
    answered = after(state, f.RequestResolved("r", "answered"))
    assert isinstance(answered.at, StageState)
    assert [(known.answer, known.secrets) for known in answered.at.answers] == [("a", secrets)]
    rejected = after(
        replace(state, requests=(replace(state.requests[0], kind="approval"),)),
        f.RequestResolved("r", "rejected"),
    )
    assert isinstance(rejected.at, StageState)
    assert rejected.at.rejected == Feedback("${secret:TOKEN}", "person", secrets=secrets)
    note = Note("${secret:TOKEN}", "person", secrets)
    assert after(FRESH, f.NoteAdded(note.text, "person", secrets=secrets)).notes == (note,)
    resumed = after(FRESH, f.SessionResumed("person", note.text, secrets=secrets))
    assert resumed.notes == (note,)


def test_resume_without_words_has_an_empty_text() -> None:
    known = after(FRESH, f.SessionResumed("person")).resumption
    assert known is not None
    assert known.text == ""


def test_run_that_awaits_an_approval_says_so() -> None:
    assert after(FRESH, f.AwaitingApproval(("r",))).pause_reason == "awaiting_approval"


def test_control_is_remembered_and_a_call_has_none() -> None:
    state = after(FRESH, f.NoteAdded("x", "person", control="note-1"))
    assert after(state, f.NoteAdded("y", "person")).controls == ("note-1",)


def test_checkpoint_is_cleared_once() -> None:
    cleared = f.CheckpointCleared("go", "person")
    assert after(after(FRESH, cleared), cleared).cleared == ("go",)


def test_hooks_of_a_request_are_forgotten_when_it_is_answered() -> None:
    call = HookCall(1, TaskStatus.RUNNING, NOON, hook="h", delivery="d")
    points: list[tuple[HookPoint, str]] = [("request", "r"), ("request", "s"), ("stage_start", "")]
    hooks = tuple(HookProgress(point, HERE, subject, call=call) for point, subject in points)
    state = after(at(StageState("0", 1), hooks=hooks), asked())
    left = after(state, f.RequestAnswered("r", "a", "person")).hooks
    assert [(known.point, known.subject) for known in left] == points[1:]


@pytest.mark.parametrize("status", [TaskStatus.WAITING, TaskStatus.RUNNING])
def test_timer_of_a_call_that_does_not_wait_changes_nothing(status: TaskStatus) -> None:
    call = HookCall(1, status, NOON, hook="h", delivery="d")
    state = at(StageState("0", 1), hooks=(HookProgress("stage_start", HERE, call=call),))
    (known,) = after(state, f.TimerFired("hook:d")).hooks
    assert known.call is not None
    assert known.call.status is (TaskStatus.DUE if status is TaskStatus.WAITING else status)


# -- attempts


def test_failure_keeps_the_exit_status() -> None:
    broken = f.ErrorOccurred(FailureKind.PROMPT_UNREADABLE, "no such prompt", "plan", 0, exit_code=3)
    state = after(at(StageState("0", 1)), broken)
    assert isinstance(state.at, StageState)
    assert state.at.failure == Failure(FailureKind.PROMPT_UNREADABLE, "no such prompt", 3)


@pytest.mark.parametrize(
    ("one", "other", "total"),
    [
        (Usage(1, 2, 3, 0.5, "m"), Usage(10, 20, 30, 5.0, "n"), Usage(11, 22, 33, 5.5, "n")),
        (Usage(1, 2), Usage(None, None, 30, 5.0), Usage(1, 2, 30, 5.0)),
        (Usage(None, None, 3, 0.5), Usage(10, 20), Usage(10, 20, 3, 0.5)),
        (None, Usage(10), Usage(10)),
        (Usage(1), None, Usage(1)),
    ],
)
def test_usage_of_a_session_is_summed_over_its_attempts(
    one: Usage | None, other: Usage | None, total: Usage
) -> None:
    state = at(StageState("0", 1))
    for number, usage in ((1, one), (2, other)):
        resume = "abc" if number > 1 else None
        for fact in (
            f.AttemptStarted(number, 3, "claude", "opus", resume=resume),
            f.ErrorOccurred(FailureKind.AGENT_ERROR, "x", "plan", number, usage=usage, agent_session="abc"),
        ):
            state = after(state, fact)
    state = after(state, f.AttemptStarted(3, 3, "claude", "opus", resume="abc"))
    assert isinstance(state.at, StageState)
    assert state.at.iteration is not None
    assert state.at.iteration.attempt is not None
    assert state.at.iteration.attempt.before == total


def test_timers_of_others_leave_an_attempt_alone() -> None:
    state = after(at(StageState("0", 1)), f.AttemptStarted(1, 3, "claude", "opus"))
    state = after(state, f.TimerFired("other"))
    assert isinstance(state.at, StageState)
    assert state.at.iteration is not None
    assert state.at.iteration.attempt is not None
    assert state.at.iteration.attempt.status is TaskStatus.RUNNING


def test_iteration_without_a_place_is_the_next_one() -> None:
    state = after(at(StageState("0", 1, completed=2)), f.AttemptStarted(1, 3, "claude", "opus"), None)
    assert isinstance(state.at, StageState)
    assert state.at.iteration is not None
    assert state.at.iteration.number == 3
    state = after(at(StageState("0", 1)), f.AttemptStarted(1, 3, "claude", "opus"), Cursor("0", 1, 5))
    assert isinstance(state.at, StageState)
    assert state.at.iteration is not None
    assert state.at.iteration.number == 5


# -- another plan


def test_all_that_names_a_node_follows_it_into_another_plan() -> None:
    paths: dict[str, str | None] = {
        "0": "3",
        "1.0": "2.0",
        "1.1": "2.1",
        "4": "1",
        "4.0": "1.0",
        "4.1": "1.1",
        "5": None,
    }
    records = [StageRecord(name, name, 1, NOON, "x") for name in ("0", "5", "6")]
    state = at(
        StageState("0", 1),
        stages=tuple(records),
        skipped={"1": NOON, "1.1": NOON, "5": NOON, "4.0": NOON},
        visits={"0": 2, "4.1@claude": 3, "6": 1},
        cycles={"4.1@claude>4.0": CycleCount(1, 3)},
        failing={"4.1@claude": Failing("t", (), 1, 1), "6": Failing("t", (), 1, 1)},
        clusters=(Cluster("s", "4.1@claude", 1, ("0", 1)),),
    )
    state = after(state, asked("escalation", "cycle_limit"), Cursor("4.1", 1, 2, "claude"))
    state = replace(
        state, requests=(replace(state.requests[0], key="cycle_limit@4.1@claude/1/2/0"), *state.requests)
    )
    fact = f.PlanChanged(PLAN, Destination("3", (1,)), paths, skipped=("0", "7"))
    changed = after(state, fact, Cursor("6", 1, 0))
    assert [record.path for record in changed.stages] == ["3", "6"]
    assert changed.skipped == {"0": LATE, "7": LATE, "2": NOON, "2.1": NOON, "1.0": NOON}
    assert changed.visits == {"3": 2, "1.1@claude": 3, "6": 1}
    assert set(changed.cycles) == {"1.1@claude>1.0"}
    assert set(changed.failing) == {"1.1@claude", "6"}
    assert [(known.stage, known.latest) for known in changed.clusters] == [("1.1@claude", ("3", 1))]
    assert changed.requests[0].key == "cycle_limit@1.1@claude/1/2/0"
    assert changed.requests[0].at == Cursor("1.1", 1, 2, "claude")
    assert changed.cursor == Cursor("6", 1, 0)


def test_stages_of_a_block_follow_it_into_another_plan() -> None:
    records = tuple(StageRecord(name, f"1.0.{name}", 1, NOON, "x") for name in ("0", "1"))
    branch = BranchState("claude", NodeStatus.RUNNING, StageState("1.0.2", 1), records)
    state = at(BlockState("1.0", 1, branches=(branch,)))
    changed = after(state, f.PlanChanged(PLAN, Destination("2.3")), Cursor("1.0", 1, 0)).block
    assert changed is not None
    (moved,) = changed.branches
    assert (changed.path, [record.path for record in moved.stages]) == ("2.3", ["2.3.0", "2.3.1"])
    assert moved.stage is not None
    assert moved.stage.path == "2.3.2"
