"""A plan that is read from a log keeps the rules of the compiler."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies
from msgspec.structs import replace
from tests.engine.plans import NOON, RUN_ID, SESSION, block, nested, plan_of, stage, started

from agentforge.model import codec
from agentforge.model import facts as f
from agentforge.model.artifact import Artifact, ArtifactRule, PlannedItem
from agentforge.model.cassette import FORMAT, VERSION, Header, parse_cassette
from agentforge.model.check import Baseline, Check, FileRule, TestsRan
from agentforge.model.codec import GENESIS, DamagedLine
from agentforge.model.condition import ConstantTerm, Operation
from agentforge.model.cursor import Cursor
from agentforge.model.errors import ProviderUnusable
from agentforge.model.event import Event
from agentforge.model.hook import Hook, Notification
from agentforge.model.plan import (
    Approval,
    ArtifactSource,
    Fixed,
    InputSources,
    Items,
    Limits,
    Overrides,
    PipelineInfo,
    Plan,
    PlanSession,
    ProviderChoice,
    Route,
    TokenBudget,
)
from agentforge.model.plan_limits import (
    MAX_CHECKS,
    MAX_DEPTH,
    MAX_HEAL,
    MAX_HOOKS,
    MAX_NODES,
    MAX_NOTIFICATIONS,
    MAX_RUNS,
    MAX_SCHEMA_BYTES,
    MAX_STEPS,
    is_address,
    plan_problem,
    wrong_port,
)
from agentforge.model.result import Decision, Result
from agentforge.model.state import Between, StageState


def deep(levels: int) -> Plan:
    plan = plan_of(stage())
    for _ in range(levels - 1):
        plan = plan_of(replace(nested("inner"), plan=plan))
    return plan


def with_hooks(*hooks: Hook, notify: tuple[Notification, ...] = ()) -> Plan:
    return replace(plan_of(stage()), pipeline=PipelineInfo("p", Overrides(), {}, hooks=hooks, notify=notify))


def hook(id: str = "h", **keys: Any) -> Hook:
    return Hook(id, "stage_end", "script", **keys)


def leaving(schema: dict[str, Any] | None = None, **keys: Any) -> Plan:
    return plan_of(stage(artifact=ArtifactRule(schema or {}, **keys)))


def needing(*fields: str) -> Plan:
    return plan_of(stage(sources=InputSources(artifact=fields)))


def over_items(
    items: Items = Items(9, "plan.steps"),  # noqa: B008
    source: ArtifactSource | None = ArtifactSource("0"),  # noqa: B008
) -> Plan:
    first = stage("plan", artifact=ArtifactRule({}))
    over = stage("build", artifact=ArtifactRule({}), termination=items, sources=InputSources(items=source))
    return plan_of(first, over, stage("last"))


TRUE = ConstantTerm(True)
BAD = {
    "passes": (plan_of(stage(), passes=10**9), "runs 1,000,000,000 times"),
    "no pass": (plan_of(stage(), passes=0), "runs 0 times"),
    "steps": (plan_of(nested("n", stage(), runs=MAX_STEPS + 1)), "100,001 steps"),
    "repeated": (plan_of(nested("n", stage(), runs=1000), passes=1000), "1,000,000 steps"),
    "nodes": (plan_of(*(stage(f"s{n}") for n in range(MAX_NODES + 1))), "or 5000 nodes"),
    "depth": (deep(MAX_DEPTH + 1), "exceed 16 levels"),
    "no nodes": (plan_of(), "no nodes"),
    "inner without nodes": (plan_of(nested("n")), "no nodes"),
    "loop of a block": (plan_of(block("p", stage()), mode="loop"), "a loop has no stage"),
    "parent": (plan_of(stage("x/../../home")), "directory name"),
    "check's name": (plan_of(stage(checks=(Check("../a", "b"),))), "without a usable name"),
    "check's command": (plan_of(stage(checks=(Check("a", " "),))), "without a usable name or command"),
    "check's timeout": (plan_of(stage(checks=(Check("a", "b", timeout=0),))), "timeout of 0 s"),
    "check's rules": (
        plan_of(stage(checks=(Check("a", "b", scope=("c",)),))),
        "without a usable name or command",
    ),
    "check's file": (plan_of(stage(checks=(Check("a", file=FileRule("../c")),))), "outside the project"),
    "check's tolerance": (plan_of(stage(checks=(Check("a", "b", red_tolerance=1.0),))), "tolerates 1 of"),
    "check's time": (plan_of(stage(checks=(Check("a", "b", at=()),))), "at no time, or twice"),
    "check's scope": (plan_of(stage(checks=(Check("a", scope=("c" * 201,)),))), "is too large"),
    "check's report": (plan_of(stage(checks=(Check("a", "b", report="../c"),))), "outside the project"),
    "many checks": (plan_of(stage(checks=(Check("a", "b"),) * (MAX_CHECKS + 1))), "too many checks"),
    "many routes": (plan_of(stage(routes=(Route("a", "ask"),) * 50)), "too many routes"),
    "cycles": (plan_of(stage(limits=Limits(cycles=11))), "a limit of 11 cycles"),
    "route": (plan_of(stage(routes=(Route("fail", "go", "x"),))), "leads to 'x'"),
    "route of a branch": (
        plan_of(block("p", stage(routes=(Route("fail", "go", "x"),)))),
        "not a node beside it",
    ),
    "route of a nested pipeline": (
        plan_of(nested("n", stage(routes=(Route("fail", "go", "n"),)))),
        "not a node beside it",
    ),
    "dots": (plan_of(stage("..")), "directory name"),
    "empty": (plan_of(stage("")), "directory name"),
    "long": (plan_of(stage("x" * 201)), "directory name"),
    "escape": (plan_of(stage("a\x1b[31m")), "directory name"),
    "nested id": (plan_of(nested("n", stage("a/b"))), "directory name"),
    "block id": (plan_of(block("p", stage(), id="../b")), "directory name"),
    "stage of a block": (plan_of(block("p", stage("../s"))), "directory name"),
    "branch": (plan_of(block("../p", stage())), "directory name"),
    "path": (replace(plan_of(stage()), nodes=(replace(stage(), path="0/x"),)), "not the path of a node"),
    "iterations": (plan_of(stage(termination=Fixed(MAX_RUNS + 1))), "1,000,001 iterations"),
    "provider": (plan_of(stage(provider=ProviderChoice("a\nb", ""))), "control character U+000A"),
    "model": (plan_of(stage(fallbacks=(ProviderChoice("a", "\x1b"),))), "control character U+001B"),
    "rounds": (plan_of(stage(approve=Approval(rounds=0))), "0 rounds of approval"),
    "timeout": (plan_of(stage(approve=Approval(timeout=1e300))), "timeout of 1e+300 s"),
    "no time": (plan_of(stage(approve=Approval(timeout=0))), "timeout of 0 s"),
    "timeout of questions": (plan_of(stage(escalation_timeout=0)), "timeout of 0 s for its questions"),
    "message": (plan_of(stage(approve=Approval("x" * 2001))), "more than 2,000 characters"),
    "checkpoint": (plan_of(stage(checkpoint="a\nb")), "not the name of a checkpoint"),
    "checkpoint of a branch": (plan_of(block("p", stage(checkpoint="a"))), "has a checkpoint"),
    "view": (
        replace(plan_of(stage()), pipeline=PipelineInfo("p", Overrides(), {}, views=("x",))),
        "'x' is not a view",
    ),
    "hooks": (with_hooks(*(hook(str(n)) for n in range(MAX_HOOKS + 1))), "more than 200 hooks"),
    "notifications": (with_hooks(notify=(Notification(),) * (MAX_NOTIFICATIONS + 1)), "20 notifications"),
    "hook twice": (with_hooks(hook(), hook()), "two hooks have the id 'h'"),
    "hook in a nested pipeline": (
        plan_of(replace(nested("n", stage()), plan=with_hooks(hook(tries=0)))),
        "has 0 tries",
    ),
    "hook without an id": (with_hooks(hook("")), "not the id of a hook"),
    "long id of a hook": (with_hooks(hook("x" * 4001)), "not the id of a hook"),
    "hook with an escape": (with_hooks(hook("a\x1b")), "not the id of a hook"),
    "tries": (with_hooks(hook(tries=11)), "has 11 tries; the maximum is 10"),
    "timeout of a hook": (with_hooks(hook(timeout=1e300)), "timeout of 1e+300 s"),
    "message of a hook": (with_hooks(hook(message="x" * 2001)), "more than 2,000 characters"),
    "variables of a hook": (with_hooks(hook(environment=("A",) * 101)), "names environment variables"),
    "variable of a hook": (with_hooks(hook(environment=("A=B",))), "names environment variables"),
    "stage of a hook": (with_hooks(hook(stage="../x")), "can't be a stage"),
    "condition": (with_hooks(hook(condition=Operation("&&", (TRUE,) * 1000))), "exceeds 50 levels"),
    "command": (with_hooks(hook(script="x" * 10_001)), "more than 10,000 characters"),
    "null": (with_hooks(notify=(Notification(command="a\0b"),)), "null character"),
    "address": (with_hooks(hook(url="file:///etc/passwd")), "no valid address"),
    "long address": (with_hooks(hook(url=f"https://x/{'y' * 2000}")), "no valid address"),
    "password": (with_hooks(notify=(Notification(url="https://me:x@y"),)), "no valid address"),
    "port": (with_hooks(hook(url="https://x:99999")), "no valid address"),
    "secret": (with_hooks(hook(secret="a-b")), "names a secret"),
    "schema": (leaving(schema={"title": "x" * MAX_SCHEMA_BYTES}), "more than 100,000 bytes"),
    "version": (leaving(version="1"), "no valid version"),
    "corrections": (leaving(heal=MAX_HEAL + 1), "may correct 11 artifacts"),
    "no correction": (leaving(heal=-1), "may correct -1 artifacts"),
    "field that is filled": (leaving(fill={"a.b": "request"}), "one that can't exist"),
    "field that is needed": (needing("a b"), "one that can't exist"),
    "fields that are needed": (needing(*map(str, range(10_000))), "too many fields"),
    "tokens": (plan_of(stage(tokens=TokenBudget(0))), "no valid budget"),
    "many tokens": (plan_of(stage(tokens=TokenBudget(10**9))), "no valid budget"),
    "reserve": (plan_of(stage(tokens=TokenBudget(9, reserve=100))), "no valid budget"),
    "share": (plan_of(stage(tokens=TokenBudget(9, share=0))), "no valid budget"),
    "items": (over_items(Items(10_001, "plan.steps")), "more than 10,000 items"),
    "field of items": (over_items(Items(1, "plan.a b")), "names no field"),
    "no source of items": (over_items(source=None), "from nowhere"),
    "unknown source of items": (over_items(source=ArtifactSource("7")), "takes its items from '7'"),
    "source without an artifact": (over_items(source=ArtifactSource("2")), "leaves no list"),
    "source over items": (over_items(source=ArtifactSource("1")), "leaves no list"),
    "session": (replace(plan_of(stage()), session=PlanSession("../x", NOON)), "Session name"),
}


@pytest.mark.parametrize("case", BAD)
def test_plan_that_no_compiler_makes_is_refused_when_it_is_decoded(case: str) -> None:
    plan, why = BAD[case]
    assert why in plan_problem(plan)
    event = Event(1, NOON, SESSION, RUN_ID, started(plan), Cursor("0", 0, 0))
    line, _ = codec.encode(event, GENESIS)
    with pytest.raises(DamagedLine, match="its plan is not valid: "):
        codec.decode(line, lambda payload: b"")


def test_usual_checks_and_routes_are_accepted() -> None:
    checks = (Check("a", "b", timeout=5), Check("c", "d", report="out/r.xml"))
    first = stage("a", checks=checks, routes=(Route("fail", "go", "b"),))
    assert plan_problem(plan_of(first, stage("b", limits=Limits(cycles=3)))) == ""
    assert first.expects_verdict
    assert not stage("b").expects_verdict


def test_usual_plans_are_accepted() -> None:
    plan = plan_of(stage("a b"), block("p q", stage("größe")), nested("n", stage(), runs=3), passes=2)
    assert plan_problem(plan) == ""
    assert plan_problem(plan_of(stage(), mode="loop")) == ""
    asking = stage(approve=Approval("Good?", "agent", 60, "abort", 9), checkpoint="v1.0")
    plan = plan_of(asking, block("p", stage(approve=Approval())))
    info = replace(plan.pipeline, views=("escalations", "escalations"))
    assert plan_problem(replace(plan, pipeline=info)) == ""
    assert plan_problem(deep(MAX_DEPTH)) == ""
    assert plan_problem(plan_of(*(stage(f"s{n}") for n in range(MAX_NODES)))) == ""
    assert plan_problem(plan_of(stage(termination=Fixed(MAX_RUNS)), passes=MAX_STEPS)) == ""


GOOD_PLAN = plan_of(stage())


def test_plans_with_artifacts_and_items_are_accepted() -> None:
    assert plan_problem(over_items()) == ""
    assert plan_problem(over_items(source=ArtifactSource(""))) == ""
    assert plan_problem(leaving(version="1.10", heal=0, fill={"goal": "request"})) == ""
    assert plan_problem(needing(*map(str, range(MAX_DEPTH * 100)))) == ""
    assert plan_problem(plan_of(stage(tokens=TokenBudget(share=30)), stage("b", tokens=TokenBudget(9)))) == ""


@pytest.mark.parametrize(
    ("budget", "limit"),
    [
        (TokenBudget(), None),
        (TokenBudget(1000), 900),
        (TokenBudget(1000, reserve=0), 1000),
        (TokenBudget(1000, reserve=10, share=30), 270),
        (TokenBudget(9), 8),
    ],
)
def test_the_share_of_a_budget_is_of_what_is_left_after_the_reserve(
    budget: TokenBudget, limit: int | None
) -> None:
    assert budget.limit == limit


def imported(plan: Plan, at: StageState | Between) -> f.LogImported:
    return f.LogImported(1, "", "pipeline", RUN_ID, plan, "1", NOON, at)


OUTSIDE = Artifact("../../.netrc", 1, "0")


def ended(artifact: Artifact | None) -> f.IterationCompleted:
    return f.IterationCompleted("a", 1, Decision.STOP, "", "result.json", Result(), 1, artifact=artifact)


@pytest.mark.parametrize(
    ("fact", "why"),
    [
        (f.HookStarted("h", "stage_end", "../../x"), "directory name"),
        (f.NodeStarted("n", folder="../../x"), "outside the run"),
        (f.NodeStarted("n", folder="/etc"), "outside the run"),
        (f.NodeStarted("n", providers=("ok", "../p")), "directory name"),
        (f.ProviderStarted("a/b", ()), "directory name"),
        (f.RequestOpened("../x-1", "approval", "k", "x", "?", ("yes",)), "directory name"),
        (f.ItemsPlanned((PlannedItem("a", "1"), PlannedItem("../b", "2"))), "directory name"),
        (f.SessionStarted("loop", "r", GOOD_PLAN, "1", artifact=OUTSIDE), "outside the run"),
        (ended(OUTSIDE), "outside the run"),
        (f.CheckCompleted("test", tests=TestsRan("../x", "0")), "outside the run"),
        (f.CheckCompleted("test", found=Baseline(tests=TestsRan("/x", "0"))), "outside the run"),
        (ended(Artifact("artifact.json", 1, "0", "x")), "no valid version"),
        (f.PlanChanged(BAD["passes"][0]), "its plan is not valid"),
    ],
)
def test_fact_that_can_not_be_used_is_refused(fact: f.AnyFact, why: str) -> None:
    assert why in fact.defect(SESSION)


def test_session_of_the_first_event_is_a_session_name() -> None:
    assert "Session name" in started(GOOD_PLAN).defect("../x")
    assert started(GOOD_PLAN).defect(SESSION) == ""


def test_other_facts_have_no_problem() -> None:
    assert f.SessionCompleted("x").defect("..") == ""
    assert f.NodeStarted("n", folder="stage-00-a", providers=("p",)).defect(SESSION) == ""
    assert f.ProviderStarted("p", ()).defect(SESSION) == ""
    assert f.RequestOpened("limit-1", "approval", "k", "x", "?", ("yes",)).defect(SESSION) == ""
    assert imported(GOOD_PLAN, Between(None)).defect(SESSION) == ""
    assert f.ItemsPlanned((PlannedItem("s1", "1"),)).defect(SESSION) == ""
    assert ended(None).defect(SESSION) == ended(Artifact("a/artifact.json", 1, "0")).defect(SESSION) == ""


def test_data_nested_too_deeply_is_damage() -> None:
    event = Event(1, NOON, SESSION, RUN_ID, started(GOOD_PLAN), Cursor("0", 0, 0))
    line, _ = codec.encode(event, GENESIS)
    bomb = line.replace(b'"inputs":{}', b'"inputs":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 1)
    with pytest.raises(DamagedLine, match="nested too deeply"):
        codec.decode(bomb, lambda payload: b"")


def test_plan_of_a_cassette_is_checked_too() -> None:
    header = Header(FORMAT, VERSION, plan=BAD["passes"][0])
    with pytest.raises(ProviderUnusable, match="its plan is not valid"):
        parse_cassette(msgspec.json.encode(header).decode(), "c.jsonl")


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("https://example.com", ""),
        ("https://example.com:/x", ""),
        ("http://127.0.0.1:1/", ""),
        ("http://127.0.0.1:65535?a=b:0", ""),
        ("http://127.0.0.1:00080", ""),
        ("http://[::1]:8080/x:99999", ""),
        ("http://127.0.0.1:0", "0"),
        ("http://127.0.0.1:65536/x", "65536"),
        ("http://[::1]:99999#x", "99999"),
        ("http://x:80a", "80a"),
        ("http://x:-1", "-1"),
        ("http://x:٣", "٣"),
        (f"http://x:{'9' * 5000}", "9" * 5000),
    ],
)
def test_port_that_is_out_of_range_is_named(url: str, port: str) -> None:
    assert wrong_port(url) == port
    assert is_address(url) == (not port)


@given(strategies.text("htps:/@?#[]0169x.").map("http://x".__add__))
def test_address_has_no_wrong_port(url: str) -> None:
    assert not (is_address(url) and wrong_port(url))
