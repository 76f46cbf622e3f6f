"""Hypothesis strategies: facts of every type in any order, as a damaged log may hold them."""

from datetime import timedelta
from typing import Any, Literal, get_args, get_origin

import msgspec
from hypothesis import strategies as st
from tests.engine.plans import NOON, block, event, nested, plan_of, stage, started

from agentforge.model import facts as f
from agentforge.model.artifact import Artifact, ContextUse, PlannedItem
from agentforge.model.changes import LeftInGit
from agentforge.model.check import Baseline, CheckCounts, CheckStatus, FilesBefore, TestsRan
from agentforge.model.cursor import Cursor, Destination
from agentforge.model.delivery import (
    DeliveredWork,
    DeliverRule,
    DeliveryBase,
    DeliveryProblem,
    PreparedDelivery,
)
from agentforge.model.event import Event
from agentforge.model.failure import FailureKind
from agentforge.model.frozen import FrozenFile
from agentforge.model.plan import Items, Judgment, Plan, ProviderChoice, Queue
from agentforge.model.request import Feedback
from agentforge.model.result import Decision, Result, Signals, Usage
from agentforge.model.spending import UNITS, Amount, DailyAnswer, Unit
from agentforge.model.state import (
    Between,
    BlockState,
    BranchState,
    RunSettings,
    StageRecord,
    StageState,
    Waiver,
)
from agentforge.model.status import NodeStatus

PLAN: Plan = plan_of(
    stage("plan", runs=3, delay=1),
    stage("build", runs=2, fallbacks=(ProviderChoice("codex", ""),), semantics="at_most_once"),
    block("claude codex", stage("draft", runs=2), stage("check", termination=Judgment(3, 1, 1))),
    stage("sweep", termination=Queue(3, check_before=True)),
    nested("polish", stage("refine", termination=Judgment(4)), block("claude codex", stage("vote"))),
    stage("steps", termination=Items(5, "plan.steps")),
    stage("deliver", deliver=DeliverRule("pr")),
    max_runtime=5000,
    passes=2,
)

PATHS = ["0", "1", "2", "2.0", "2.1", "2.7", "3", "4.0", "4.1", "4.1.0", "5", "6", "9", "x"]
_times = st.integers(0, 9000).map(lambda seconds: NOON + timedelta(seconds=seconds))
_small = st.integers(0, 4)
_decisions = st.sampled_from(Decision)
_results = st.builds(
    Result,
    summary=st.sampled_from(["", "done"]),
    signals=st.builds(Signals, plateau_suspected=st.booleans()),
    decision=_decisions,
)
_usages = st.none() | st.builds(
    Usage, input_tokens=st.none() | _small, output_tokens=_small, cost_usd=st.none() | st.floats(0, 1)
)
_names: dict[str, st.SearchStrategy[Any]] = {
    "timer": st.sampled_from(["retry", "delay", "stop", "other"]),
    "by": st.sampled_from(["recovery", "person"]),
    "kind": st.sampled_from(FailureKind),
    "lines": st.lists(_small, max_size=2).map(tuple),
    "options": st.just(("resume", "cancel")),
    "result": _results,
    "usage": _usages,
    "due_at": _times,
    "until": _times,
    "resets_at": st.none() | _times,
    "decision": _decisions,
    "plan": st.just(PLAN),
    "settings": st.builds(RunSettings, delay=st.none() | st.just(0.0)),
    "waivers": st.just(()) | st.just((Waiver("a", "b", "c"), Waiver("", "b", "c", "plan"))),
    "mode": st.sampled_from(["loop", "pipeline"]),
    "status": st.just("completed"),
    "providers": st.sampled_from([("claude", "codex"), ("codex",), ()]),
    "stages": st.just(("draft", "check")),
    "path": st.sampled_from(PATHS),
    "gone": st.dictionaries(st.sampled_from(PATHS), st.sampled_from(["stage-plan", "a"]), max_size=2),
    "requests": st.lists(st.sampled_from(["a", "b"]), max_size=2).map(tuple),
    "rounds": st.lists(st.integers(1, 3), max_size=3).map(tuple),
    "next": st.none() | st.builds(Destination, st.sampled_from(PATHS), st.just((1,))),
    "at": st.none() | st.builds(Destination, st.sampled_from(PATHS), st.just((2,))),
    "paths": st.dictionaries(st.sampled_from(PATHS), st.none() | st.sampled_from(PATHS), max_size=3),
}
_done = st.builds(StageRecord, st.just("plan"), st.sampled_from(PATHS), _small, _times, st.just("done"))
_positions = st.builds(
    StageState,
    path=st.sampled_from(PATHS),
    run=st.just(1),
    completed=_small,
    last_decision=st.none() | _decisions,
)
_branches = st.builds(
    BranchState,
    provider=st.sampled_from(["claude", "codex"]),
    status=st.sampled_from(NodeStatus),
    stages=st.lists(_done, max_size=2).map(tuple),
    stage=st.none() | _positions,
)
_item_ids = st.sampled_from(["", "s1", "s2"])
_items = st.builds(
    PlannedItem,
    _item_ids,
    st.sampled_from(["a", "b"]),
    st.just(()) | st.just(("s1",)),
    st.sampled_from(["pending", "done", "failed"]),
)
_own_names: dict[tuple[type, str], st.SearchStrategy[Any]] = {
    (f.LogImported, "format"): st.just(f.LOG_FORMAT),
    (f.SessionStarted, "format"): st.just(f.LOG_FORMAT),
    (f.LogImported, "lines"): _small,
    (f.LogImported, "started_at"): _times,
    (f.LogImported, "stages"): st.lists(_done, max_size=3).map(tuple),
    (f.LogImported, "at"): st.one_of(
        _positions,
        st.builds(Between, _names["next"]),
        st.builds(
            BlockState,
            path=st.sampled_from(PATHS),
            run=st.just(1),
            branches=st.lists(_branches, max_size=2).map(tuple),
        ),
    ),
    (f.LogImported, "left"): st.just((f.ImportedStage("0", 2, ("1.md", "2.md")),)),
    (f.RequestOpened, "kind"): st.sampled_from(["escalation", "approval", "checkpoint", "question", "pause"]),
    (f.RequestOpened, "scope"): st.sampled_from(["run", "branch"]),
    (f.RequestOpened, "answerers"): st.just(("person",)),
    (f.RequestOpened, "due_at"): st.none() | _times,
    (f.RequestOpened, "reason"): st.sampled_from(
        [
            "attempts_lost",
            "runtime_limit",
            "at_most_once",
            "recoveries_without_progress",
            "provider_limit",
            "retries_exhausted",
            "approval_rounds",
            "question_rounds",
            "delivery",
        ]
    ),
    (f.RequestAnswered, "answer"): st.sampled_from(
        ["resume", "retry", "approve", "reject", "7", "cancel", "succeeded", "other"]
    ),
    (f.RequestResolved, "effect"): st.sampled_from(
        [
            "approved",
            "rejected",
            "answered",
            "continue",
            "reset",
            "granted",
            "succeeded",
            "cancel",
            "withdrawn",
        ]
    ),
    (f.NodeRestarted, "cause"): st.sampled_from(["rejected", "requested"]),
    (f.StageTransitioned, "feedback"): st.none() | st.just(Feedback("Shorter.", "person")),
    (f.CheckPrepared, "files"): st.builds(FilesBefore, st.none() | st.just("a")),
    (f.CheckCompleted, "problem"): st.none(),
    (f.CheckCompleted, "status"): st.sampled_from(get_args(CheckStatus)),
    (f.NodeRestarted, "feedback"): st.none() | st.just(Feedback("Shorter.", "person")),
    (f.RestartRequested, "provider"): st.none() | st.sampled_from(["claude", "codex"]),
    (f.PauseRequested, "due_at"): st.none() | _times,
    (f.ProviderChanged, "until"): st.none() | _times,
    (f.NodeStarted, "kind"): st.none() | st.just("parallel"),
    (f.ProviderCompleted, "status"): st.sampled_from(["completed", "failed"]),
    (f.SessionStarted, "artifact"): st.none() | st.just({"goal": "a tool"}),
    (f.IterationStarted, "context"): st.none() | st.just(ContextUse("full", 10)),
    (f.IterationStarted, "item"): _item_ids,
    (f.IterationCompleted, "artifact"): st.none() | st.just(Artifact("artifact.json", 2, "0", value={})),
    (f.ItemsPlanned, "items"): st.lists(_items, max_size=3).map(tuple),
    (f.ItemEnded, "item"): _item_ids,
    (f.ItemEnded, "status"): st.sampled_from(["done", "failed"]),
    (f.GitLeft, "items"): st.just((LeftInGit("sub/.git", "repository"),)),
    **{
        (kind, "paths"): st.just(()) | st.just(("a",))
        for kind in (f.FilesPrepared, f.FilesRestored, f.FilesRolledBack, f.RollbackRefused)
    },
    (f.FilesFrozen, "files"): st.just(()) | st.just((FrozenFile("a", "0"),)),
    (f.TreeTaken, "when"): st.sampled_from(["before", "after"]),
    (f.JudgeCompleted, "status"): st.sampled_from(["success", "failed", "skipped"]),
    (f.JudgeCompleted, "result"): st.builds(
        f.JudgeResult, st.booleans(), st.sampled_from(["", "done", "invoke_failed", "invalid_json"])
    ),
}
_types: dict[Any, st.SearchStrategy[Any]] = {
    int: _small,
    bool: st.booleans(),
    str: st.sampled_from(["a", "b"]),
    float: st.floats(0, 100),
    type(None): st.none(),
    Baseline: st.builds(Baseline, st.just(("k",)), st.sampled_from(("", "it fails"))),
    CheckCounts: st.builds(CheckCounts, _small, _small),
    TestsRan: st.just(TestsRan("tests/0.json", "0")),
    DailyAnswer: st.builds(DailyAnswer, st.just("2026-01-15"), *[st.floats(0, 2)] * 4),
    DeliveryBase: st.builds(DeliveryBase, st.just("1" * 40), problem=st.sampled_from(["", "no git"])),
    PreparedDelivery: st.builds(
        PreparedDelivery,
        count=_small,
        commit=st.sampled_from(["", "2" * 40]),
        problems=st.just(()) | st.just((DeliveryProblem("moved", "moved 3", "it moved"),)),
    ),
    DeliveredWork: st.builds(DeliveredWork, st.just("commit"), st.just("committed")),
    Amount: st.builds(Amount, st.none() | st.floats(0, 2), st.none() | _small),
}


def _field(field: msgspec.structs.FieldInfo, owner: type) -> st.SearchStrategy[Any]:
    if (owner, field.name) in _own_names:
        return _own_names[owner, field.name]
    if field.name in _names:
        return _names[field.name]
    if get_origin(field.type) is Literal:
        return st.sampled_from(get_args(field.type))
    if field.type == tuple[Unit, ...]:
        return st.lists(st.sampled_from(UNITS), max_size=2).map(tuple)
    if field.type == tuple[str, ...]:
        return st.lists(_types[str], max_size=2).map(tuple)
    return st.one_of(_types[kind] for kind in get_args(field.type) or (field.type,))


def _fact(kind: type[f.AnyFact]) -> st.SearchStrategy[f.AnyFact]:
    fields = {field.name: _field(field, kind) for field in msgspec.structs.fields(kind)}
    return st.builds(kind, **fields)


FACTS = {name: _fact(kind) for name, kind in f.FACTS.items()}
any_fact: st.SearchStrategy[f.AnyFact] = st.one_of(*FACTS.values())
later_fact = st.one_of(*(strategy for name, strategy in FACTS.items() if name != "session_start"))
_cursors = st.none() | st.builds(
    Cursor,
    st.sampled_from(PATHS),
    st.integers(1, 3),
    st.integers(0, 4),
    st.sampled_from([None, "claude", "codex", "nobody"]),
)
_phrase = st.lists(st.tuples(later_fact, _cursors), max_size=25)


def _numbered(said: list[tuple[f.AnyFact, Cursor | None]]) -> list[Event]:
    first = event(1, started(PLAN), Cursor("0", 0, 0))
    return [first, *(event(n, fact, cursor, after=n) for n, (fact, cursor) in enumerate(said, 2))]


any_log: st.SearchStrategy[list[Event]] = _phrase.map(_numbered)
"""A session_start, and then anything at all."""
