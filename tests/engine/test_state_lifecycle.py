"""What each field of the state is after a resume, another visit, the next iteration, a grant.

The tables are exhaustive: a new field needs its row, with a value that differs from its default.
"""

from collections.abc import Mapping
from datetime import timedelta
from types import EllipsisType
from typing import Any, TypeVar

import pytest
from msgspec import Struct
from msgspec.structs import fields, replace
from tests.engine.plans import NOON, RUN_ID, SESSION, block, plan_of, stage

from agentforge.engine.evolve.run import evolve
from agentforge.model import facts as f
from agentforge.model.artifact import PlannedItem
from agentforge.model.changes import LeftInGit
from agentforge.model.check import Baseline
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.delivery import DeliveredWork, DeliveryBase, DeliveryState, PreparedDelivery
from agentforge.model.event import Event
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.frozen import FilesSeen, FrozenFile, FrozenFiles
from agentforge.model.request import AnsweredQuestion, Feedback, Request, UserRequest
from agentforge.model.result import AgentQuestion, Decision, Result, Usage
from agentforge.model.spending import DailyAnswer
from agentforge.model.state import (
    MACHINE_SHUTDOWN,
    MAX_CLUSTERS,
    OUTDATED,
    AgentSession,
    AttemptState,
    BlockState,
    BranchState,
    CheckRecord,
    Cluster,
    CycleCount,
    Failing,
    HookCall,
    HookProgress,
    IterationState,
    LatestResume,
    LedgerReply,
    Note,
    Reentry,
    RefusedFile,
    Restart,
    RunSettings,
    RunState,
    Spending,
    StageRecord,
    StageState,
    Stop,
    TaskState,
    Transition,
    Unavailable,
    Verdict,
    Waiver,
)
from agentforge.model.status import IterationStatus, NodeStatus, RunStatus, TaskStatus

LATER = NOON + timedelta(hours=3)
_S = TypeVar("_S", bound=Struct)

Row = tuple[Any, ...]
"""The value before, and after each of the events in the columns; `...`: the same."""
NEW: Any = object()
"""The value of a new visit."""


def before(kind: type[_S], table: Mapping[str, Row]) -> _S:
    return kind(**{name: row[0] for name, row in table.items()})


def default_of(kind: type[Struct], name: str) -> object:
    field = next(each for each in fields(kind) if each.name == name)
    return field.default_factory() if callable(field.default_factory) else field.default


def after(kind: type[_S], table: Mapping[str, Row], column: int) -> _S:
    def value(name: str, row: Row) -> object:
        want = row[column]
        if isinstance(want, EllipsisType):
            return row[0]
        return default_of(kind, name) if want is NEW else want

    return kind(**{name: value(name, row) for name, row in table.items()})


def differing(found: Struct | None, wanted: Struct) -> dict[str, tuple[object, object]]:
    assert type(found) is type(wanted)
    pairs = {name: (getattr(found, name), getattr(wanted, name)) for name in wanted.__struct_fields__}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def happens(state: RunState, cursor: Cursor | None, *recorded: f.AnyFact) -> RunState:
    for fact in recorded:
        state = evolve(state, Event(state.seq + 1, LATER, SESSION, RUN_ID, fact, cursor))
    return state


# -- a stage: a node of the run, or in a branch

FAILED = Failure(FailureKind.PROVIDER_CRASHED, "it crashed")
SAID, LONGER = Feedback("shorter", "ada"), Feedback("longer", "bob")
ANSWERS = (AnsweredQuestion("q1", "Which?", "this", "ada"),)
JUDGE = TaskState(2, TaskStatus.LOST, NOON, lost=2)
CHECK = TaskState(3, TaskStatus.LOST, NOON, 2, FAILED, NOON, about="tests", timeout=9.0)
CALLS = {"judge": JUDGE, "check": CHECK}
CHECKED = CheckRecord("lint", 3, "fail", "E1", signatures=("E1",), tree="t1", voids=1, number=2)
VERDICT = Verdict("fail", "tests fail", "enough", is_checked=True)
ATTEMPT = AttemptState(3, TaskStatus.FAILED, NOON, 2, FAILED, NOON, timeout=9.0, due_at=NOON, choice=1)
ITERATION = IterationState(
    4,
    IterationStatus.STARTED,
    NOON,
    "1" * 64,
    ATTEMPT,
    3,
    (FailureKind.PROVIDER_CRASHED,),
    AgentSession("s1", 1, 1, Usage(input_tokens=10)),
    limited=2,
    limited_since=NOON,
    gave_way=1,
    item="s1",
    invalid="$: missing",
)
FORGIVEN = replace(ITERATION, attempt=None, failures=(), limited=0, limited_since=None, gave_way=0)
NEXT_ITERATION = IterationState(4, IterationStatus.STARTED, LATER, "2" * 64)

PREPARING = DeliveryState(PreparedDelivery("t0"), 2)

STAGE: Mapping[str, Row] = {
    # before a resume, a restart, a route back, the iteration's end and start, a recompilation
    "path": ("0", ..., ..., ..., ..., ..., ...),
    "run": (2, ..., 3, 3, ..., ..., ...),
    "folder": ("v2", ..., "v3", "v3", ..., ..., ...),
    "started_at": (NOON, ..., LATER, LATER, ..., ..., ...),
    "completed": (3, ..., NEW, NEW, 4, ..., ...),
    "iteration": (ITERATION, FORGIVEN, NEW, NEW, None, NEXT_ITERATION, replace(ITERATION, agent=None)),
    "last_decision": (Decision.ASK, ..., NEW, NEW, Decision.CONTINUE, ..., ...),
    "tree": ("t0", ..., NEW, NEW, "t4", ..., ...),
    "last_completed_at": (NOON, ..., NEW, NEW, LATER, ..., ...),
    "delay_due": (NOON, None, NEW, NEW, None, ..., None),
    "delay_over": (True, ..., NEW, NEW, False, ..., ...),
    "failure": (FAILED, None, NEW, NEW, ..., None, ...),
    "calls": (
        CALLS,
        {kind: replace(call, lost=0) for kind, call in CALLS.items()},
        NEW,
        NEW,
        ...,
        {"check": CHECK},
        ...,
    ),
    "judge_tries": (1, ..., NEW, NEW, ..., 0, ...),
    "judged": (3, ..., NEW, NEW, ..., ..., ...),
    "stops": (2, ..., NEW, NEW, ..., ..., ...),
    "plateaus": (2, ..., NEW, NEW, 0, ..., ...),
    "judge_failures": (2, ..., NEW, NEW, ..., ..., ...),
    "judge_reason": ("more", ..., NEW, NEW, ..., ..., ...),
    "queue_checked": (3, ..., NEW, NEW, ..., ..., ...),
    "queue_left": (7, ..., NEW, NEW, ..., ..., ...),
    "unavailable": ((Unavailable(0, NOON),), (), NEW, NEW, ..., ..., ()),
    "stage_retries": (2, 0, NEW, NEW, ..., ..., ...),
    "retry_due": (NOON, None, NEW, NEW, ..., ..., ...),
    "round": (2, ..., 5, NEW, ..., ..., ...),
    "rounds_granted": (4, 0, ..., NEW, ..., ..., ...),
    "approved": (True, ..., NEW, NEW, ..., ..., ...),
    "rejected": (None, ..., NEW, NEW, ..., ..., ...),
    "feedback": (SAID, ..., LONGER, LONGER, ..., ..., ...),
    "questions": ((AgentQuestion("q2", "Why?"),), ..., NEW, NEW, (), ..., ...),
    "asked": (3, ..., NEW, NEW, ..., ..., ...),
    "asks_granted": (1, 3, NEW, NEW, ..., ..., ...),
    "answers": (ANSWERS, ..., ..., NEW, ..., ..., ...),
    "restart": (Restart("again", "ada"), ..., NEW, NEW, ..., ..., ...),
    "hook_restarts": (5, ..., ..., NEW, ..., ..., ...),
    "checks": ((CHECKED,), (replace(CHECKED, iteration=OUTDATED),), NEW, NEW, ..., ..., ...),
    "claim": (Verdict("pass"), ..., NEW, NEW, None, ..., ...),
    "verdict": (VERDICT, None, NEW, NEW, ..., ..., ...),
    "granted": (2, ..., NEW, NEW, ..., ..., ...),
    "transition": (None, ..., NEW, NEW, ..., ..., ...),
    "planned": (True, ..., NEW, NEW, ..., ..., ...),
    "item": ("s1", ..., NEW, NEW, ..., ..., ...),
    "item_tries": (1, 0, NEW, NEW, 2, ..., ...),
    "git_left": ((LeftInGit("sub/.git", "repository"),), ..., NEW, NEW, ..., ..., ...),
    "ledger": (
        LedgerReply("k", 0.5, DailyAnswer("2026-01-15", 5.0, 1.0, 0.5), NOON),
        ...,
        NEW,
        NEW,
        ...,
        ...,
        ...,
    ),
    "delivery": (PREPARING, DeliveryState(number=2), NEW, NEW, ..., ..., ...),
    "began": (FilesSeen("t1"), ..., NEW, NEW, ..., ..., ...),
    "verified": ((3, "test 1"), ..., NEW, NEW, ..., ..., ...),
    "restored": (("a.py",), ..., NEW, NEW, (), ..., ...),
    "froze": (True, ..., NEW, NEW, ..., ..., ...),
    "rolled_back": (True, ..., NEW, NEW, ..., ..., ...),
    "refused": (("a.py", "it was changed"), (), NEW, NEW, ..., ..., ...),
}
UNSET_IN_STAGE = {"rejected", "transition"}
"""What they change in a resume: the tests below."""
RESUMED, RESTARTED, ROUTED, COMPLETED, PREPARED, RECOMPILED = range(1, 7)
ONE = before(StageState, STAGE)


PLAN = plan_of(stage(), block("claude codex", stage()))


def after_column(state: RunState, column: int, here: Cursor) -> RunState:
    path, provider = here.node_path, here.provider
    next_visit, back = replace(here, node_run=3, iteration=0), Destination(path)
    entered = f.NodeStarted("plan", path, 3, "v3")
    if column == RESUMED:
        return happens(state, here, f.SessionResumed("ada"))
    if column == RESTARTED:
        restarted = f.NodeRestarted("plan", "rejected", "longer", "bob", 3, 5, LONGER, back)
        return happens(happens(state, here, restarted), next_visit, entered)
    if column == ROUTED:
        way = f.StageTransitioned("plan", "plan", "fail", next=back, feedback=LONGER)
        left: f.AnyFact = f.NodeCompleted("plan", "enough", 3, next=back)
        if provider:
            left = f.StageCompleted("plan", "enough", 3)
        return happens(happens(state, here, way, left), next_visit, entered)
    if column == COMPLETED:
        usage = Usage(input_tokens=5)
        done = f.IterationCompleted(
            "plan", 3, Decision.CONTINUE, "", "result.json", Result(), 1, tree="t4", usage=usage
        )
        return happens(state, here, done)
    if column == PREPARED:
        return happens(state, here, f.IterationStarted("plan", "plan", "claude", "opus", "2" * 64))
    at = Destination(path.partition(".")[0], state.rounds)
    return happens(state, here, f.PlanChanged(PLAN, at, {known: known for known in ("0", "1", "1.0")}))


@pytest.mark.parametrize("column", range(1, 7))
def test_of_a_stage(column: int) -> None:
    state = after_column(at_stage(ONE), column, HERE)
    assert differing(state.stage(None), after(StageState, STAGE, column)) == {}


@pytest.mark.parametrize("column", range(1, 7))
def test_of_a_stage_in_a_branch(column: int) -> None:
    """Another branch notices only what is about the whole run."""
    one, other = replace(ONE, path="1.0"), replace(ONE, path="1.0", run=1)
    branches = (BranchState("claude", stage=one), BranchState("codex", stage=other))
    state = after_column(at_block(branches), column, Cursor("1.0", 2, 4, "claude"))
    wanted = replace(after(StageState, STAGE, column), path="1.0")
    assert differing(state.stage("claude"), wanted) == {}
    if column in (RESUMED, RECOMPILED):
        assert differing(state.stage("codex"), replace(wanted, run=1)) == {}
    else:
        assert state.stage("codex") == other


def test_a_resume_after_a_rejection_begins_with_the_first_round() -> None:
    rejected = replace(ONE, rejected=SAID)
    resumed = happens(at_stage(rejected), HERE, f.SessionResumed("ada")).stage(None)
    assert differing(resumed, replace(after(StageState, STAGE, RESUMED), rejected=SAID, round=0)) == {}


def test_a_resume_leaves_the_checks_alone_once_the_route_is_settled() -> None:
    routed = replace(ONE, transition=Transition(Destination("0"), SAID))
    resumed = happens(at_stage(routed), HERE, f.SessionResumed("ada")).stage(None)
    wanted = replace(
        after(StageState, STAGE, RESUMED),
        transition=routed.transition,
        calls={"judge": replace(JUDGE, lost=0), "check": replace(CHECK, lost=0)},
        checks=(CHECKED,),
        verdict=VERDICT,
    )
    assert differing(resumed, wanted) == {}


# -- the run

ASKED = Request("pause-9", "pause", "hook_pause:h", "hook_pause", "Continue?", ("continue", "abort"), NOON)
CALL = HookCall(
    3,
    TaskStatus.WAITING,
    NOON,
    2,
    FAILED,
    NOON,
    hook="h",
    delivery="d1",
    due_at=NOON,
    failures=2,
    message="x",
)
CALLED = HookProgress("stage_start", Cursor("0", 2, 0), done=("first",), call=CALL)
CALLED_AGAIN = replace(CALLED, call=replace(CALL, status=TaskStatus.DUE, failures=0, lost=0))
RECORD = StageRecord("plan", "0", 3, NOON, "enough")
SETTINGS = RunSettings(mock=True, record=True)
COUNTED = {"0>0": CycleCount(1, 3), "1>0": CycleCount(2, 3)}
FAILS = {"0": Failing("t0", ("E1",), 2, 2), "1": Failing("t0", ("E2",), 1, 1)}
CLUSTERS = (Cluster("E1", "0", 2, ("0", 2)), Cluster("E2", "0", 2, ("1", 1)))
SEEN = {"0": NOON, "0.3": NOON, "1": NOON}
OTHERS = {"failing": {"1": FAILS["1"]}, "clusters": CLUSTERS[1:]}
"""Without the counters of stage 0."""
BRIEF = Note("be brief", "ada")
FROZEN = FrozenFiles("red", (FrozenFile("a.py", "1" * 64),), "t0")

RUN: Mapping[str, Row] = {
    # before a resume, an answer that continues the run, a pause, its end, its failure, a crash, another visit
    "session": (SESSION, ..., ..., ..., ..., ..., ..., ...),
    "run_id": (RUN_ID, ..., ..., ..., ..., ..., ..., ...),
    "mode": ("pipeline", ..., ..., ..., ..., ..., ..., ...),
    "status": (
        *(RunStatus.AWAITING_APPROVAL, RunStatus.RUNNING, RunStatus.RUNNING, RunStatus.PAUSED),
        *(RunStatus.COMPLETED, RunStatus.FAILED, ..., ...),
    ),
    "started_at": (NOON, ..., ..., ..., ..., ..., ..., ...),
    "seq": (40, 41, 41, 41, 41, 41, 41, 41),
    "updated_at": (NOON, LATER, LATER, LATER, LATER, LATER, LATER, LATER),
    "clock_from": (NOON, LATER, NOON + timedelta(hours=2), ..., ..., ..., ..., ...),
    "settings": (SETTINGS, replace(SETTINGS, approve=True), ..., ..., ..., ..., ..., ...),
    "cursor": (Cursor("0", 2, 3), *(Cursor("0", 2, 4),) * 6, Cursor("0", 3, 0)),
    "user_request": (UserRequest("a tool"), ..., ..., ..., ..., ..., ..., ...),
    "at": (ONE, after(StageState, STAGE, RESUMED), ..., ..., ..., ..., ..., StageState("0", 3, "v3", LATER)),
    "visits": ({"0": 2}, ..., ..., ..., ..., ..., ..., {"0": 3}),
    "rounds": ((2,), ..., ..., ..., ..., ..., ..., ...),
    "stages": ((RECORD,), ..., ..., ..., ..., ..., ..., ...),
    "skipped": (SEEN, ..., ..., ..., ..., ..., ..., {"0.3": NOON, "1": NOON}),
    "spending": (Spending(1.0, 10, 20, ("opus",)), ..., ..., ..., ..., ..., ..., ...),
    "spent": ({"0.1": Spending(1.0)}, ..., ..., ..., ..., ..., ..., ...),
    "granted": ({"tokens": 9.0}, ..., ..., ..., ..., ..., ..., ...),
    "warned": (True, ..., ..., ..., ..., ..., ..., ...),
    "stop": (Stop(False, "lunch", now=True, due_at=NOON), None, ..., None, None, None, ..., ...),
    "requests": ((ASKED,), ..., ..., ..., (), ..., ..., ...),
    "waits": (True, False, False, ..., ..., ..., ..., ...),
    "controls": (("c1",), ..., ..., ..., ..., ..., ..., ...),
    "refused": ((RefusedFile("x", "empty", "x.refused"),), ..., ..., ..., ..., ..., ..., ...),
    "cleared": (("gate",), ..., ..., ..., ..., ..., ..., ...),
    "runtime_granted": (60.0, None, ..., ..., ..., ..., ..., ...),
    "accepted_damage": ((3,), ..., ..., ..., ..., ..., ..., ...),
    "recoveries": (2, 0, ..., ..., ..., ..., 3, ...),
    "recoveries_excused": (1, 0, ..., ..., ..., ..., ..., ...),
    "paused_at": (NOON + timedelta(hours=1), None, None, LATER, ..., ..., ..., ...),
    "pause_reason": ("requests", None, None, "limit", ..., ..., ..., ...),
    "completed_at": (NOON, None, ..., ..., LATER, LATER, ..., ...),
    "completion_reason": ("earlier", ..., ..., ..., "all", ..., ..., ...),
    "failure": (FAILED, None, ..., ..., ..., Failure(FailureKind.AGENT_ERROR, "it said so"), ..., ...),
    "notes": ((Note("hurry", "bob"),), (Note("hurry", "bob"), BRIEF), ..., ..., ..., ..., ..., ...),
    "waivers": ((Waiver("lint", "flaky", "ada"),), ..., ..., ..., ..., ..., ..., ...),
    "cycles": (COUNTED, ..., ..., ..., ..., ..., ..., ...),
    "baselines": ({"test+0": Baseline(("1" * 16,))}, ..., ..., ..., ..., ..., ..., ...),
    "has_worked": (True, ..., ..., ..., ..., ..., ..., ...),
    "base": (DeliveryBase("t0"), ..., ..., ..., ..., ..., ..., ...),
    "tree": ("t1", ..., ..., ..., ..., ..., ..., ...),
    "delivered": (DeliveredWork("files", "files"), ..., ..., ..., ..., ..., ..., ...),
    "clusters": (CLUSTERS, ..., ..., ..., ..., ..., ..., ...),
    "failing": (FAILS, ..., ..., ..., ..., ..., ..., ...),
    "hooks": ((CALLED,), (CALLED_AGAIN,), ..., ..., ..., ..., ..., ...),
    "hook_answers": (7, 0, ..., ..., ..., ..., ..., ...),
    "resumption": (
        LatestResume(9, "", "bob"),
        LatestResume(41, "be brief", "ada"),
        ...,
        ...,
        ...,
        ...,
        ...,
        ...,
    ),
    "resumed_at": (NOON, LATER, ..., ..., ..., ..., ..., ...),
    "recompiled": (True, ..., ..., ..., ..., ..., ..., ...),
    "items": ({"0": {"s1": PlannedItem("s1", "1" * 64)}}, ..., ..., ..., ..., ..., ..., ...),
    "frozen": ({"1": FROZEN}, ..., ..., ..., ..., ..., ..., ...),
    "restorations": (2, ..., ..., ..., ..., ..., ..., ...),
}
HERE = Cursor("0", 2, 4)
RUN_EVENTS: tuple[tuple[f.AnyFact, Cursor], ...] = (
    (f.SessionResumed("ada", "be brief", approve=True), HERE),
    (f.SessionContinued(("pause-9",)), HERE),
    (f.SessionPaused("limit", ("pause-9",)), HERE),
    (f.SessionCompleted("all"), HERE),
    (f.SessionFailed(FailureKind.AGENT_ERROR, "it said so", "plan"), HERE),
    (f.SessionRecovered(1, "here"), HERE),
    (f.NodeStarted("plan", "0", 3, "v3", rounds=(2,)), Cursor("0", 3, 0)),
)


def at_stage(at: StageState) -> RunState:
    return replace(before(RunState, RUN), at=at)


def at_block(branches: tuple[BranchState, ...]) -> RunState:
    return replace(before(RunState, RUN), at=BlockState("1", 1, "b", branches))


NOT_COUNTED = {
    *("about", "timeout", "files", "paths", "reserved", "spent_nothing"),
    *("started", "excused", "resume", "before", "once", "idle_timeout"),
    *("timed_out", "is_retryable", "effect", "outcome", "reason", "answer", "text"),
}


def test_every_field_has_a_row_and_a_value_to_lose() -> None:
    for kind, table, unset in ((StageState, STAGE, UNSET_IN_STAGE), (RunState, RUN, set[str]())):
        assert tuple(table) == kind.__struct_fields__
        assert {name for name, row in table.items() if row[0] == default_of(kind, name)} == unset
    for sample in (ITERATION, ATTEMPT, CALL, CHECK):
        unset = {n for n in sample.__struct_fields__ if getattr(sample, n) == default_of(type(sample), n)}
        assert unset <= NOT_COUNTED


@pytest.mark.parametrize("column", range(1, len(RUN_EVENTS) + 1))
def test_of_a_run(column: int) -> None:
    fact, cursor = RUN_EVENTS[column - 1]
    assert differing(happens(before(RunState, RUN), cursor, fact), after(RunState, RUN, column)) == {}


def test_of_nodes_that_were_passed_over_and_are_entered_after_all() -> None:
    state = replace(before(RunState, RUN), skipped={"2": NOON, "2.1": NOON, "2.0": NOON, "20": NOON})
    entered = happens(state, Cursor("2.1", 1, 0), f.NodeStarted("deep", "2.1", rounds=(2,)))
    assert entered.skipped == {"2.0": NOON, "20": NOON}


def test_of_a_run_whose_nodes_moved() -> None:
    """Node 0 is now node 1, and the other way round; node 4 is gone."""
    state = replace(
        before(RunState, RUN),
        visits={"0": 2, "1.0@claude": 3, "4": 5},
        requests=(replace(ASKED, key="hook_pause:h@0/2/4", at=HERE),),
        stages=(RECORD, replace(RECORD, path="4")),
    )
    paths: dict[str, str | None] = {"0": "1", "1": "0", "1.0": "0.0", "4": None}
    moved = happens(state, HERE, f.PlanChanged(PLAN, Destination("1", (1,)), paths, {"4": "old"}))
    wanted = replace(
        state,
        at=replace(after(StageState, STAGE, RECOMPILED), path="1"),
        visits={"1": 2, "0.0@claude": 3, "old": 5},
        rounds=(1,),
        requests=(replace(ASKED, key="hook_pause:h@1/2/4", at=replace(HERE, node_path="1")),),
        stages=(replace(RECORD, path="1"),),
        skipped={"1": NOON, "0": NOON},
        cycles={"1>1": CycleCount(1, 3), "0>1": CycleCount(2, 3)},
        clusters=(Cluster("E1", "1", 2, ("1", 2)), Cluster("E2", "1", 2, ("0", 1))),
        failing={"1": FAILS["0"], "0": FAILS["1"]},
        hooks=(replace(CALLED, at=Cursor("1", 2, 0)),),
        items={"1": {"s1": PlannedItem("s1", "1" * 64)}},
        frozen={"0": FROZEN},
        seq=41,
        updated_at=LATER,
        cursor=replace(HERE, node_path="1"),
    )
    assert differing(moved, wanted) == {}


@pytest.mark.parametrize("known", [RunSettings(), RunSettings(record=True), RunSettings(approve=True)])
@pytest.mark.parametrize("asked", [{}, {"record": True}, {"approve": True}])
def test_what_was_asked_for_once_lasts_for_the_run(known: RunSettings, asked: dict[str, bool]) -> None:
    state = replace(before(RunState, RUN), settings=known)
    wanted = replace(known, **asked)
    assert happens(state, HERE, f.SessionResumed("ada", **asked)).settings == wanted
    assert happens(state, HERE, f.SessionRecovered(1, "here", "person", **asked)).settings == wanted


def test_of_a_run_without_a_hook_that_is_resumed() -> None:
    quiet = replace(before(RunState, RUN), hooks=())
    assert happens(quiet, HERE, f.SessionResumed("ada")).hook_answers == 0


def test_a_person_who_continues_after_a_crash_resumes_the_run() -> None:
    crashed = replace(before(RunState, RUN), status=RunStatus.RUNNING)
    taken_up = happens(crashed, HERE, f.SessionRecovered(1, "here", "person", "be brief", approve=True))
    assert (
        differing(
            taken_up,
            replace(
                after(RunState, RUN, 1),
                resumption=LatestResume(41, "be brief", "person"),
                notes=(Note("hurry", "bob"), replace(BRIEF, by="person")),
            ),
        )
        == {}
    )


def test_a_machine_that_is_up_again_continues_the_run_as_an_answer_does() -> None:
    shut_down = replace(before(RunState, RUN), status=RunStatus.PAUSED, pause_reason=MACHINE_SHUTDOWN)
    recovered = happens(shut_down, HERE, f.SessionRecovered(1, "here"))
    assert differing(recovered, after(RunState, RUN, 2)) == {}


def test_an_iteration_that_ends_is_progress() -> None:
    state = after_column(at_stage(ONE), COMPLETED, HERE)
    wanted = replace(
        before(RunState, RUN),
        at=after(StageState, STAGE, COMPLETED),
        seq=41,
        updated_at=LATER,
        cursor=HERE,
        recoveries=0,
        recoveries_excused=0,
        tree="t4",
        spending=Spending(1.0, 15, 20, ("opus", "unnamed model")),
        spent={**RUN["spent"][0], "0": Spending(input_tokens=5, unpriced=("unnamed model",))},
    )
    assert differing(state, wanted) == {}


# -- an attempt: what one fact changes, and nothing else

RUNNING = replace(ATTEMPT, status=TaskStatus.RUNNING, lost=0, failure=None, ended_at=None)
LIMIT = Failure(FailureKind.PROVIDER_QUOTA, "used up")
NEXT = AttemptState(4, TaskStatus.RUNNING, LATER, 2)
SESSION_USED = Usage(input_tokens=15)


def error(kind: FailureKind, **more: Any) -> f.ErrorOccurred:
    return f.ErrorOccurred(kind, "again", "plan", 3, usage=Usage(input_tokens=5), agent_session="s1", **more)


@pytest.mark.parametrize(
    ("fact", "iteration", "attempt", "more"),
    [
        (f.AttemptStarted(4, 2, "claude", "opus"), {"attempts": 4, "agent": None}, NEXT, {}),
        (
            f.AttemptStarted(4, 2, "claude", "opus", resume="s1", choice=1),
            {"attempts": 4, "agent": AgentSession("s1", 1, 2, Usage(input_tokens=10))},
            replace(NEXT, resume="s1", choice=1, before=Usage(input_tokens=10)),
            {},
        ),
        (
            f.AttemptLost(3, "it died", started=False),
            {},
            {"status": TaskStatus.LOST, "lost": 3, "started": False},
            {},
        ),
        (f.AttemptLost(3, "it died", True), {"agent": None}, {"status": TaskStatus.LOST, "lost": 3}, {}),
        (
            f.AttemptLost(3, "it died", True, agent_session="s1"),
            {},
            {"status": TaskStatus.LOST, "lost": 3},
            {},
        ),
        (
            f.AttemptLost(3, "it died", True, agent_session="s2"),
            {"agent": AgentSession("s2", 1, 0)},
            {"status": TaskStatus.LOST, "lost": 3},
            {},
        ),
        (f.AttemptCancelled(3, "lunch", "s1"), {}, {"status": TaskStatus.CANCELLED}, {}),
        (f.AttemptEnding(3, "lunch"), {}, {"status": TaskStatus.ENDING}, {}),
        (
            error(FailureKind.PROVIDER_CRASHED, started=False),
            {
                "failures": (FailureKind.PROVIDER_CRASHED,) * 2,
                "agent": AgentSession("s1", 1, 1, SESSION_USED),
            },
            {
                "status": TaskStatus.FAILED,
                "failure": replace(FAILED, message="again"),
                "ended_at": LATER,
                "lost": 0,
                "started": False,
            },
            {},
        ),
        (
            error(FailureKind.PROVIDER_QUOTA),
            {"agent": AgentSession("s1", 1, 1, SESSION_USED)},
            {
                "status": TaskStatus.FAILED,
                "failure": Failure(FailureKind.PROVIDER_QUOTA, "again"),
                "ended_at": LATER,
                "lost": 0,
            },
            {},
        ),
        (f.RetryScheduled(4, 5, LATER, "again"), {}, {"status": TaskStatus.WAITING, "due_at": LATER}, {}),
        (
            f.StageRetried(3, 4, LATER, FailureKind.PROVIDER_CRASHED, "again"),
            {},
            {"status": TaskStatus.WAITING, "due_at": LATER},
            {"stage_retries": 3},
        ),
        (
            f.LimitMet(3, "codex", 1, LATER, LATER, "used up"),
            {"limited": 3},
            {"status": TaskStatus.WAITING, "due_at": LATER},
            {"unavailable": (Unavailable(0, NOON), Unavailable(1, LATER, "used up", limited=True))},
        ),
        (
            f.LimitMet(3, "claude", 0, LATER, LATER, "used up"),
            {"limited": 3},
            {"status": TaskStatus.WAITING, "due_at": LATER},
            {"unavailable": (Unavailable(0, LATER, "used up", limited=True),)},
        ),
        (
            f.ProviderChanged(3, "codex", 1, "claude", 0, "it crashed", LATER),
            {"gave_way": 2, "failures": ()},
            {"status": TaskStatus.DUE, "due_at": None},
            {"unavailable": (Unavailable(0, NOON), Unavailable(1, LATER, "it crashed"))},
        ),
        (
            f.ProviderChanged(3, "codex", 1, "claude", 0, "it crashed", LATER, LATER),
            {"gave_way": 2, "failures": ()},
            {"status": TaskStatus.WAITING, "due_at": LATER},
            {"unavailable": (Unavailable(0, NOON), Unavailable(1, LATER, "it crashed"))},
        ),
        (f.TimerFired("retry"), {}, {"status": TaskStatus.DUE}, {"retry_due": None}),
        (f.TimerFired("delay"), {}, {}, {"delay_due": None}),
        (f.TreeTaken(3), {}, {}, {}),
        (f.AttemptReattached(3, 1), {}, {}, {}),
    ],
    ids=lambda value: value.TYPE if isinstance(value, f.Fact) else "",
)
def test_of_an_attempt(
    fact: f.AnyFact,
    iteration: dict[str, Any],
    attempt: AttemptState | dict[str, Any],
    more: dict[str, Any],
) -> None:
    now = replace(ATTEMPT, **attempt) if isinstance(attempt, dict) else attempt
    wanted = replace(ONE, iteration=replace(ITERATION, attempt=now, **iteration), **more)
    assert differing(happens(at_stage(ONE), HERE, fact).stage(None), wanted) == {}


def test_a_limit_of_the_provider_that_gives_way_does_not_count_as_its_failure() -> None:
    limited = replace(ONE, iteration=replace(ITERATION, attempt=replace(ATTEMPT, failure=LIMIT)))
    changed = f.ProviderChanged(3, "codex", 1, "claude", 0, "used up", LATER)
    iteration = happens(at_stage(limited), HERE, changed).iteration
    assert iteration is not None
    assert (iteration.limited, iteration.limited_since, iteration.gave_way) == (3, NOON, 1)


@pytest.mark.parametrize(
    ("status", "once", "kept"),
    [
        (TaskStatus.RUNNING, False, {"lost": 0}),
        (TaskStatus.ENDING, True, {"lost": 0}),
        (TaskStatus.FAILED, True, {"lost": 0}),
        (TaskStatus.LOST, True, {"lost": 0}),
        (TaskStatus.LOST, False, None),
        (TaskStatus.WAITING, True, None),
        (TaskStatus.DUE, False, None),
    ],
)
def test_of_an_attempt_that_a_resume_finds(
    status: TaskStatus, once: bool, kept: dict[str, Any] | None
) -> None:
    known = replace(ATTEMPT, status=status, once=once)
    at = replace(ONE, iteration=replace(ITERATION, attempt=known))
    resumed = happens(at_stage(at), HERE, f.SessionResumed("ada")).stage(None)
    attempt = None if kept is None else replace(known, **kept)
    wanted = replace(after(StageState, STAGE, RESUMED), iteration=replace(FORGIVEN, attempt=attempt))
    assert differing(resumed, wanted) == {}


# -- the judge and the checks


def calling(**calls: TaskState) -> dict[str, Any]:
    return {"calls": CALLS | calls}


@pytest.mark.parametrize(
    ("fact", "changes"),
    [
        (
            f.JudgeStarted("claude", "haiku", 3),
            calling(judge=TaskState(3, TaskStatus.RUNNING, LATER, 2)),
        ),
        (f.JudgeLost(2), calling(judge=replace(JUDGE, lost=3))),
        (
            f.JudgeCompleted("success", f.JudgeResult(True, "done"), 2),
            {
                "calls": {"check": CHECK},
                "judge_tries": 0,
                "judged": 3,
                "judge_failures": 0,
                "stops": 3,
                "judge_reason": "done",
            },
        ),
        (
            f.JudgeCompleted("success", f.JudgeResult(False, "more"), 2),
            {"calls": {"check": CHECK}, "judge_tries": 0, "judged": 3, "judge_failures": 0, "stops": 0},
        ),
        (
            f.JudgeCompleted("failed", f.JudgeResult(False, "no answer"), 2),
            {
                **calling(
                    judge=replace(
                        JUDGE,
                        status=TaskStatus.FAILED,
                        failure=Failure(FailureKind.JUDGE_FAILED, "no answer"),
                        lost=0,
                    )
                ),
                "judge_tries": 2,
            },
        ),
        (
            f.JudgeCompleted("skipped", f.JudgeResult(False, ""), 2),
            {"calls": {"check": CHECK}, "judge_tries": 0},
        ),
        (f.QueueChecked(5), {"queue_left": 5}),
        (
            f.CheckStarted("tests", 4, 9.0),
            calling(check=TaskState(4, TaskStatus.RUNNING, LATER, 2, about="tests", timeout=9.0)),
        ),
        (
            f.CheckStarted("lint", 4),
            calling(check=TaskState(4, TaskStatus.RUNNING, LATER, about="lint")),
        ),
        (f.CheckLost("tests", 3), calling(check=replace(CHECK, lost=3))),
        (
            f.CheckEnding("tests", 3, "lunch"),
            calling(check=replace(CHECK, status=TaskStatus.ENDING)),
        ),
        (
            f.CheckCompleted("lint", 3, "fail", signatures=("E2",), tree_after="t4", changed=("x",)),
            {
                "calls": {"judge": JUDGE},
                "checks": (
                    CheckRecord(
                        "lint",
                        3,
                        "fail",
                        signatures=("E2",),
                        tree="t4",
                        changed=("x",),
                        voids=2,
                        number=3,
                        timeout=9.0,
                    ),
                ),
            },
        ),
        (
            f.CheckCompleted("tests", 3, "pass"),
            {
                "calls": {"judge": JUDGE},
                "checks": (CHECKED, CheckRecord("tests", 3, "pass", number=3, timeout=9.0)),
            },
        ),
        (
            f.StageVerdictReached("pass", "", "enough"),
            {"verdict": Verdict("pass", "", "enough"), "rolled_back": False},
        ),
        (f.DelayStarted(LATER), {"delay_due": LATER, "delay_over": False}),
    ],
    ids=lambda value: value.TYPE if isinstance(value, f.Fact) else "",
)
def test_of_the_judge_and_the_checks(fact: f.AnyFact, changes: dict[str, Any]) -> None:
    assert differing(happens(at_stage(ONE), HERE, fact).stage(None), replace(ONE, **changes)) == {}


def test_a_check_that_ran_at_an_earlier_iteration_has_no_void_outcomes_at_this_one() -> None:
    earlier = replace(ONE, checks=(replace(CHECKED, iteration=2),))
    done = f.CheckCompleted("lint", 3, "fail", changed=("x",))
    after_it = happens(at_stage(earlier), HERE, done).stage(None)
    assert after_it is not None
    assert after_it.checks[-1].voids == 1


@pytest.mark.parametrize("task", ["judge", "check"])
def test_what_was_stopped_on_request_is_not_lost(task: str) -> None:
    ending = replace(ONE, calls={task: replace(CALLS[task], status=TaskStatus.ENDING)})
    lost = f.JudgeLost(2) if task == "judge" else f.CheckLost("tests", 3)
    wanted = replace(ONE, calls={task: replace(CALLS[task], status=TaskStatus.CANCELLED)})
    assert differing(happens(at_stage(ending), HERE, lost).stage(None), wanted) == {}


# -- the verdicts of a run

FAILING = f.StageVerdictReached("fail", failing=("tests",), signatures=("E1",), tree="t0")


def of_verdict(*recorded: tuple[f.StageVerdictReached, int]) -> RunState:
    state = replace(at_stage(replace(ONE, verdict=None)), failing={}, clusters=())
    for fact, run in recorded:
        state = happens(state, Cursor("0", run, 4), fact)
    return state


@pytest.mark.parametrize(
    ("recorded", "failing", "visits"),
    [
        ([(FAILING, 1)], Failing("t0", ("E1",), 1, 1), 1),
        ([(FAILING, 1), (FAILING, 1)], Failing("t0", ("E1",), 1, 1), 1),
        ([(FAILING, 1), (FAILING, 2)], Failing("t0", ("E1",), 2, 2), 2),
        ([(FAILING, 1), (FAILING, 2), (FAILING, 3)], Failing("t0", ("E1",), 3, 3), 3),
        ([(FAILING, 1), (replace(FAILING, tree="t1"), 2)], Failing("t1", ("E1",), 1, 2), 2),
        ([(FAILING, 1), (replace(FAILING, signatures=("E2",)), 2)], Failing("t0", ("E2",), 1, 2), 1),
        ([(FAILING, 1), (f.StageVerdictReached("pass"), 2)], None, 1),
        ([(FAILING, 1), (f.StageVerdictReached("pass"), 2), (FAILING, 3)], Failing("t0", ("E1",), 1, 3), 2),
        # Without a tree, it is unknown whether anything changed.
        ([(replace(FAILING, tree=None), 1)], None, 1),
        ([(FAILING, 1), (replace(FAILING, tree=None), 2)], Failing("t0", ("E1",), 1, 1), 2),
    ],
)
def test_of_verdicts(
    recorded: list[tuple[f.StageVerdictReached, int]], failing: Failing | None, visits: int
) -> None:
    state = of_verdict(*recorded)
    assert state.failing.get("0") == failing
    assert next(known.visits for known in state.clusters if known.signature == "E1") == visits


def test_the_latest_failures_are_kept() -> None:
    many = [(replace(FAILING, signatures=(f"E{n}",)), n) for n in range(MAX_CLUSTERS + 3)]
    found = [known.signature for known in of_verdict(*many, many[5]).clusters]
    assert found == [f"E{n}" for n in (*range(3, 5), *range(6, MAX_CLUSTERS + 3), 5)][-MAX_CLUSTERS:]


# -- what an answer grants: given twice, it counts twice

EXCUSED = replace(ITERATION, attempt=replace(ATTEMPT, excused=True, status=TaskStatus.DUE))
WITHOUT_JUDGE = replace(ONE, calls={"check": CHECK})
CHECKS_AGAIN = {
    name: after(StageState, STAGE, RESUMED).__getattribute__(name) for name in ("checks", "verdict")
}


@pytest.mark.parametrize(
    ("reason", "effect", "granted", "changes", "of_run"),
    [
        ("approval_rounds", "granted", 2, {"rounds_granted": 8}, {}),
        ("approval_rounds", "continue", 0, {"rounds_granted": 6}, {}),
        ("question_rounds", "granted", 2, {"asks_granted": 5}, {}),
        ("question_rounds", "continue", 0, {"asks_granted": 3}, {}),
        ("hook_restarts", "granted", 2, {"hook_restarts": 1}, {}),
        ("hook_restarts", "granted", 9, {"hook_restarts": 0}, {}),
        ("hook_restarts", "continue", 0, {"hook_restarts": 3}, {}),
        ("check_lost", "continue", 0, {"calls": {"check": replace(CHECK, excused=True, lost=0)}}, {}),
        ("attempt_lost", "continue", 0, {"iteration": EXCUSED}, {}),
        ("recoveries_without_progress", "continue", 0, {}, {"recoveries_excused": 2}),
        (
            "runtime_limit",
            "granted",
            90,
            {"iteration": EXCUSED},
            {"clock_from": LATER, "runtime_granted": 90.0},
        ),
        (
            "runtime_limit",
            "continue",
            0,
            {"iteration": EXCUSED},
            {"clock_from": LATER, "runtime_granted": None},
        ),
        ("cycle_limit", "granted", 3, {"granted": 3}, OTHERS),
        ("cycle_limit", "continue", 0, {"granted": 1}, OTHERS),
        (
            "cycle_limit",
            "reset",
            0,
            {"granted": 1, "calls": {"check": replace(CHECK, lost=0)}, **CHECKS_AGAIN},
            {**OTHERS, "cycles": {"1>0": COUNTED["1>0"]}},
        ),
        (
            "verdict",
            "continue",
            0,
            {"restart": Restart("asked for another visit", "ada")},
            OTHERS,
        ),
        (
            "verdict",
            "accepted",
            0,
            {"verdict": replace(VERDICT, accepted_by="ada")},
            OTHERS,
        ),
    ],
)
def test_of_a_grant(
    reason: str, effect: Any, granted: int, changes: dict[str, Any], of_run: dict[str, Any]
) -> None:
    asked = replace(
        ASKED,
        id="e-1",
        kind="escalation",
        reason=reason,
        at=HERE,
        answer="x",
        answered_by="ada",
        scope="branch",
    )
    state = at_stage(WITHOUT_JUDGE)
    for _ in range(2):
        state = replace(state, requests=(ASKED, asked))
        state = happens(state, HERE, f.RequestResolved("e-1", effect, granted))
    wanted = replace(
        at_stage(replace(WITHOUT_JUDGE, **changes)), seq=42, updated_at=LATER, cursor=HERE, **of_run
    )
    assert differing(state, wanted) == {}


@pytest.mark.parametrize("effect", ["continue", "reset", "granted"])
@pytest.mark.parametrize("reason", ["approval_rounds", "question_rounds", "attempt_lost"])
def test_an_answer_resets_the_stage_that_asked(reason: str, effect: Any) -> None:
    asked = replace(
        ASKED,
        id="e-1",
        kind="escalation",
        reason=reason,
        at=HERE,
        answer="x",
        answered_by="ada",
        scope="branch",
    )
    resolved = f.RequestResolved("e-1", effect, 1)
    found = happens(replace(at_stage(WITHOUT_JUDGE), requests=(asked,)), HERE, resolved).stage(None)
    wanted = replace(after(StageState, STAGE, RESUMED), calls={"check": replace(CHECK, lost=0)})
    assert (differing(found, wanted) == {}) is (effect == "reset")


def test_an_answer_about_the_run_resets_all_of_its_stages() -> None:
    branches = tuple(BranchState(name, stage=replace(ONE, path="1.0")) for name in ("claude", "codex"))
    here = Cursor("1.0", 2, 4, "claude")
    asked = replace(
        ASKED, id="e-1", kind="escalation", reason="recoveries_without_progress", at=here, answer="resume"
    )
    state = happens(replace(at_block(branches), requests=(asked,)), here, f.RequestResolved("e-1", "reset"))
    for name in ("claude", "codex"):
        assert differing(state.stage(name), replace(after(StageState, STAGE, RESUMED), path="1.0")) == {}
    assert (state.recoveries, state.recoveries_excused) == (0, 0)


# -- a hook's call


@pytest.mark.parametrize(
    ("fact", "changes"),
    [
        (
            f.HookStarted("h", "stage_start", "d1", 4),
            {
                "number": 4,
                "status": TaskStatus.RUNNING,
                "started_at": LATER,
                "failure": None,
                "ended_at": None,
                "due_at": None,
                "message": "",
            },
        ),
        (
            f.HookFailed("h", "stage_start", "d1", 3, "no answer", retry=True),
            {
                "status": TaskStatus.FAILED,
                "ended_at": LATER,
                "failures": 3,
                "lost": 0,
                "message": "no answer",
                "is_retryable": True,
            },
        ),
        (
            f.HookTimedOut("h", "stage_start", "d1", 3),
            {
                "status": TaskStatus.FAILED,
                "ended_at": LATER,
                "failures": 3,
                "lost": 0,
                "message": "it timed out",
                "timed_out": True,
            },
        ),
        (f.HookLost("h", "stage_start", "d1", 3), {"status": TaskStatus.LOST, "lost": 3}),
        (
            f.HookLost("h", "stage_start", "d1", 3, started=False),
            {"status": TaskStatus.LOST, "lost": 3, "started": False},
        ),
        (f.HookRetryScheduled("h", "stage_start", "d1", 3, due_at=LATER), {"due_at": LATER}),
        (f.HookRetryScheduled("h", "stage_start", "d1", 3), {"status": TaskStatus.DUE, "due_at": None}),
        (f.HookEnding("h", "stage_start", "d1", 3), {"status": TaskStatus.ENDING}),
        (f.TimerFired("hook:d1"), {"status": TaskStatus.DUE}),
        (f.EffectIntended("d1", "webhook", "https://x", 3), {"effect": True}),
    ],
    ids=lambda value: value.TYPE if isinstance(value, f.Fact) else "",
)
def test_of_the_call_of_a_hook(fact: f.AnyFact, changes: dict[str, Any]) -> None:
    (progress,) = happens(before(RunState, RUN), Cursor("0", 2, 0), fact).hooks
    assert progress == replace(CALLED, call=progress.call)
    assert progress.call is not None
    assert differing(progress.call, replace(CALL, **changes)) == {}


@pytest.mark.parametrize(
    ("effect", "progress"),
    [
        ("retry", CALLED_AGAIN),
        ("continue", replace(CALLED, done=("first", "h"), call=None)),
        ("withdrawn", CALLED),
    ],
)
def test_of_a_hook_after_an_answer_to_its_pause(effect: Any, progress: HookProgress) -> None:
    asked = replace(ASKED, at=CALLED.at, subject="h", answer="x")
    state = replace(before(RunState, RUN), requests=(asked,))
    assert happens(state, CALLED.at, f.RequestResolved("pause-9", effect)).hooks == (progress,)


@pytest.mark.parametrize(
    ("status", "now"),
    [
        (TaskStatus.FAILED, {"status": TaskStatus.DUE, "failures": 0, "lost": 0}),
        (TaskStatus.LOST, {"failures": 0, "lost": 0}),
        (TaskStatus.RUNNING, {}),
        (TaskStatus.SUCCEEDED, {}),
    ],
)
def test_of_a_hook_that_a_resume_finds(status: TaskStatus, now: dict[str, Any]) -> None:
    called = replace(CALLED, call=replace(CALL, status=status))
    at_resume = HookProgress("resume", None, "12", call=CALL)
    state = replace(before(RunState, RUN), hooks=(called, at_resume))
    (progress,) = happens(state, HERE, f.SessionResumed("ada")).hooks
    assert progress == replace(called, call=replace(CALL, **{"status": status, **now}))


@pytest.mark.parametrize(
    ("cursor", "fact", "left"),
    [
        (Cursor("1.0", 2, 4, "claude"), f.StageCompleted("plan", "enough", 3), {"claude's stage"}),
        (
            Cursor("1.0", 2, 4, "claude"),
            f.NodeRestarted("plan", "requested", "x", "ada", 3),
            {"claude's stage"},
        ),
        (Cursor("1", 1, 0, "claude"), f.ProviderCompleted("claude"), {"claude's stage", "claude"}),
        (Cursor("1", 1, 0, "claude"), f.ProviderCompleted("claude", "failed"), set[str]()),
        (
            Cursor("1", 1, 0),
            f.NodeCompleted("duel", "all", 3),
            {"claude's stage", "claude", "codex's stage", "the block"},
        ),
    ],
    ids=lambda value: value.TYPE if isinstance(value, f.Fact) else "",
)
def test_of_the_hooks_of_a_place_that_is_left(cursor: Cursor, fact: f.AnyFact, left: set[str]) -> None:
    places = {
        "claude's stage": HookProgress("stage_end", Cursor("1.0", 2, 4, "claude"), call=CALL),
        "claude": HookProgress("parallel_provider_end", Cursor("1", 1, 0, "claude"), call=CALL),
        "codex's stage": HookProgress("stage_end", Cursor("1.0", 2, 4, "codex"), call=CALL),
        "the block": HookProgress("stage_end", Cursor("1", 1, 0), call=CALL),
        "a request": HookProgress("request", Cursor("1", 1, 0), "pause-9", call=CALL),
        "the run": HookProgress("session_end", None, call=CALL),
    }
    state = replace(at_block((BRANCH,)), hooks=tuple(places.values()))
    kept = happens(state, cursor, fact).hooks
    assert {name for name, progress in places.items() if progress not in kept} == left


# -- a branch

BRANCH = BranchState(
    "claude",
    NodeStatus.FAILED,
    replace(ONE, path="1.0"),
    (RECORD,),
    FAILED,
    NOON,
    jump=3,
    skipped=("s", "plan"),
)
IN_BRANCH = Cursor("1.0", 2, 4, "claude")
DRAFTED = StageRecord("plan", "1.0", 3, LATER, "enough", 2, asked=ONE.asked)


@pytest.mark.parametrize(
    ("cursor", "fact", "changes"),
    [
        (
            IN_BRANCH,
            f.SessionResumed("ada"),
            {
                "status": NodeStatus.RUNNING,
                "failure": None,
                "stage": replace(after(StageState, STAGE, RESUMED), path="1.0"),
            },
        ),
        (
            Cursor("1", 1, 0, "claude"),
            f.ProviderStarted("claude", ("plan",)),
            {"status": NodeStatus.RUNNING, "started_at": LATER},
        ),
        (
            Cursor("1", 1, 0, "claude"),
            f.ProviderCompleted("claude"),
            {"status": NodeStatus.COMPLETED, "stage": None, "failure": None},
        ),
        (
            Cursor("1", 1, 0, "claude"),
            f.ProviderCompleted("claude", "failed", "no way"),
            {"failure": Failure(FailureKind.PARALLEL_BLOCK_FAILED, "no way")},
        ),
        (
            IN_BRANCH,
            f.StageCompleted("plan", "enough", 3),
            {"stage": None, "stages": (RECORD, DRAFTED), "jump": None, "skipped": ("s",)},
        ),
        (
            Cursor("1.0", 3, 0, "claude"),
            f.NodeStarted("plan", "1.0", 3, "v3"),
            {"stage": StageState("1.0", 3, "v3", LATER)},
        ),
    ],
    ids=lambda value: value.TYPE if isinstance(value, f.Fact) else "",
)
def test_of_a_branch(cursor: Cursor, fact: f.AnyFact, changes: dict[str, Any]) -> None:
    other = replace(BRANCH, provider="codex", status=NodeStatus.COMPLETED, failure=None, stage=None)
    block = happens(at_block((BRANCH, other)), cursor, fact).block
    assert block is not None
    assert differing(block.branch("claude"), replace(BRANCH, **changes)) == {}
    assert block.branch("codex") == other, "it stays as it is"


def test_of_a_branch_that_follows_a_route() -> None:
    way = Transition(Destination("1.3"), SAID, ("t",))
    routed = replace(BRANCH, stage=replace(ONE, path="1.0", transition=way))
    block = happens(at_block((routed,)), IN_BRANCH, f.StageCompleted("plan", "enough", 3)).block
    assert block is not None
    wanted = replace(
        BRANCH,
        stage=None,
        stages=(RECORD, DRAFTED),
        reentry=Reentry(feedback=SAID),
        jump=3,
        skipped=("s", "t"),
    )
    assert differing(block.branch("claude"), wanted) == {}
