"""The worst case of a plan: no run exceeds it, and where it is exact, some run reaches it."""

from random import Random
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.engine.any_run import any_plan
from tests.engine.failing_runs import Opponent, Worst
from tests.engine.plans import block, nested, plan_of, stage
from tests.engine.test_route_graphs import route_graphs
from tests.sampling import heavy

from agentforge.engine.decide.termination import JUDGE_TIMEOUT, QUEUE_TIMEOUT
from agentforge.engine.worst_case import Unbounded, WorstCase, worst_case
from agentforge.model.artifact import ArtifactRule
from agentforge.model.check import Check
from agentforge.model.hook import Hook, HookPoint
from agentforge.model.plan import (
    Approval,
    Guardrails,
    Items,
    Judgment,
    Limits,
    Node,
    Plan,
    ProviderChoice,
    Queue,
    RetryPolicy,
    Route,
    StageNode,
)
from agentforge.model.spending import UNITS
from agentforge.model.state import RunSettings

MAX_ATTEMPTS = 300


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Also with artifacts that are corrected, with time limits, figures and caps."""
    keeps = draw(st.sampled_from([(), UNITS]))
    figures = draw(st.sampled_from([(None, None), (0.5, None), (0.25, 100)]))

    def more(node: StageNode) -> StageNode:
        rule = None if isinstance(node.termination, Items) else draw(_artifacts)
        limits = node.limits or Limits()
        return replace(
            node,
            artifact=rule,
            timeout=draw(st.none() | st.just(40.0)),
            provider=replace(node.provider, bounds=keeps),
            fallbacks=tuple(replace(each, bounds=keeps) for each in node.fallbacks),
            max_iteration_cost_usd=figures[0],
            max_iteration_tokens=figures[1],
            limits=replace(limits, cost_usd=draw(st.sampled_from([None, None, None, 2.0]))),
        )

    plan = draw(st.one_of(any_plan(), route_graphs())).with_stages(more)
    caps = draw(st.sampled_from([None, None, Limits(cost_usd=5.0), Limits(tokens=1000)]))
    return replace(
        plan, judge=replace(plan.judge, bounds=keeps), pipeline=replace(plan.pipeline, limits=caps)
    )


_artifacts = st.none() | st.builds(ArtifactRule, schema=st.just({}), heal=st.integers(0, 2))


def exceeded(run: Opponent | Worst, most: WorstCase) -> list[str]:
    counted = {"iterations": most.iterations, "attempts": most.attempts, "judgments": most.judgments}
    found = [
        f"{name}: {run.counts[name]} of {bound}"
        for name, bound in counted.items()
        if bound is not None and run.counts[name] > bound
    ]
    for unit in UNITS:
        bound, spent = getattr(most, unit), run.state.spending.counted(unit)
        if bound is not None and spent > bound + 1e-6:
            found.append(f"{unit}: {spent} of {bound}")
    if most.seconds is not None and run.seconds > most.seconds + 1e-3:
        found.append(f"seconds: {run.seconds} of {most.seconds}")
    return found


@heavy
@given(plans(), st.integers(0, 2**32))
def test_no_run_exceeds_the_worst_case(plan: Plan, seed: int) -> None:
    most = worst_case(plan)
    assume(most.attempts is not None and most.attempts <= MAX_ATTEMPTS)
    run = Opponent(plan, Random(seed))
    run.play()
    assert exceeded(run, most) == []


@heavy
@given(plans())
def test_a_run_that_always_fails_reaches_what_is_exact(plan: Plan) -> None:
    most = worst_case(plan)
    assume(most.attempts is not None and most.attempts <= MAX_ATTEMPTS)
    run = Worst(plan)
    run.play()
    assert exceeded(run, most) == []
    for figure in most.exact:
        is_spent = figure in UNITS
        reached = run.state.spending.counted(figure) if is_spent else run.counts[figure]  # type: ignore[arg-type]
        assert reached == getattr(most, figure), figure


# -- the figures, one by one


def counts(*nodes: Node, **more: Any) -> tuple[int | None, int | None, int | None]:
    found = worst_case(plan_of(*nodes, **more))
    return found.iterations, found.attempts, found.judgments


def seconds(node: Node, **more: Any) -> float | None:
    return worst_case(plan_of(node, **more)).seconds


def back(to: str, verdict: str = "fail") -> Route:
    return Route(verdict, "go", to)


ASKS = 3
"""The iterations of a visit in which an agent may ask."""
ONCE = RetryPolicy(1)
"""Of stages whose attempts are not repeated."""
TWICE = Limits(2)
EACH = (Check("t", "t", at=("iteration",)),)


@pytest.mark.parametrize(
    ("node", "most"),
    [
        (stage("a", 5), (8, 16, 0)),
        (stage("a", 0), (0, 0, 0)),
        (stage("a", retry=RetryPolicy(3, stage=2)), (4, 14, 0)),
        (stage("a", retry=RetryPolicy(3, stage=2), semantics="at_most_once"), (4, 4, 0)),
        (stage("a", fallbacks=(ProviderChoice("codex", "gpt"),)), (4, 24, 0)),
        (stage("a", artifact=ArtifactRule({}, heal=2)), (4, 16, 0)),
        (stage("a", artifact=ArtifactRule({}, heal=2), retry=RetryPolicy(2, retried="any")), (4, 12, 0)),
        (stage("a", artifact=ArtifactRule({}, heal=2), retry=RetryPolicy(4, retried="any")), (4, 16, 0)),
        (stage("a", termination=Judgment(5)), (8, 16, 10)),
        (stage("a", termination=Judgment(5, min_iterations=7)), (8, 16, 4)),
        (stage("a", termination=Judgment(5, min_iterations=20)), (8, 16, 0)),
        (stage("a", termination=Queue(4)), (7, 14, 0)),
        (stage("a", termination=Items(4, "initial.steps")), (7, 14, 0)),
        (
            stage("a", termination=Items(4, "initial.steps"), checks=(Check("t", "t", at=("iteration",)),)),
            (11, 22, 0),
        ),
        (stage("a", approve=Approval(rounds=3), retry=ONCE), (12, 12, 0)),
        (stage("a", approve=Approval(rounds=3, feedback=False), retry=ONCE), (4, 4, 0)),
        (nested("n", stage("a", retry=ONCE), runs=3), (12, 12, 0)),
        (block("claude codex", stage("a", retry=ONCE)), (8, 8, 0)),
    ],
)
def test_what_a_node_does_at_most(node: Node, most: tuple[int, int, int]) -> None:
    assert counts(node) == most
    assert counts(node, passes=2) == tuple(2 * number for number in most)


@pytest.mark.parametrize(
    ("routes", "visits"),
    [
        ({}, [1, 1, 1, 1]),
        ({"c": [back("b")]}, [1, 3, 3, 1]),
        # Routes in each other: each pass of the outer one lets the inner one be followed again.
        ({"c": [back("b")], "d": [back("a")]}, [3, 9, 9, 3]),
        ({"b": [back("b")], "c": [back("b")], "d": [back("b")]}, [1, 27, 9, 3]),
        ({"d": [back("b"), back("a", "reject")]}, [3, 9, 9, 9]),
        # They overlap: neither contains the other.
        ({"c": [back("a")], "d": [back("b")]}, [3, 5, 5, 3]),
        # Two verdicts along the same route have one counter.
        ({"c": [back("b"), back("b", "reject")]}, [1, 3, 3, 1]),
        ({"a": [back("c"), Route("reject", "ask"), Route("pass", "go", "b")]}, [1, 1, 1, 1]),
    ],
)
def test_routes_back_multiply_the_visits_of_what_they_contain(
    routes: dict[str, list[Route]], visits: list[int]
) -> None:
    found = worst_case(plan_of(*(stage(name, routes=tuple(routes.get(name, ()))) for name in "abcd")))
    assert [one.visits for one in found.stages] == visits
    assert found.exact == ("iterations", "attempts", "judgments")


def test_limits_of_cycles_are_those_of_the_stage_or_the_pipeline() -> None:
    plan = plan_of(stage("a"), stage("b", routes=(back("a"),)), stage("c", routes=(back("a"),), limits=TWICE))
    plan = replace(plan, pipeline=replace(plan.pipeline, limits=Limits(5)))
    assert [one.visits for one in worst_case(plan).stages] == [10, 10, 2]


def test_routes_inside_of_nested_pipelines_and_branches_count_in_each_of_their_visits() -> None:
    inner = (stage("a"), stage("b", routes=(back("a"),), limits=TWICE))
    nodes = (
        nested("n", *inner, runs=3),
        block("claude codex", *inner),
        stage("c", routes=(back("n"),), limits=TWICE),
    )
    found = worst_case(plan_of(*nodes))
    assert [(one.path, one.branch, one.visits) for one in found.stages] == [
        ("0.0", None, 12),
        ("0.1", None, 12),
        ("1.0", "claude", 4),
        ("1.1", "claude", 4),
        ("1.0", "codex", 4),
        ("1.1", "codex", 4),
        ("2", None, 2),
    ]


@pytest.mark.parametrize(
    ("nodes", "exact"),
    [
        ((stage("a"), stage("b", routes=(Route("pass", "end"),))), ()),
        ((stage("a", routes=(back("a", "pass"),)),), ()),
        ((stage("a", fallbacks=(ProviderChoice("codex", "gpt"),)),), ("iterations", "judgments")),
        ((stage("a", guardrails=Guardrails(60.0)),), ()),
        ((stage("a", termination=Items(4, "initial.steps"), routes=(back("a"),)),), ()),
        # What agents say of items is about the items: the stage can't be rejected.
        (
            (stage("a", termination=Items(4, "initial.steps"), routes=(back("a", "reject"),)),),
            ("iterations", "attempts", "judgments"),
        ),
    ],
)
def test_what_no_run_may_reach_is_an_upper_bound(nodes: tuple[Node, ...], exact: tuple[str, ...]) -> None:
    assert worst_case(plan_of(*nodes)).exact == exact


def test_repeated_visits_of_items_may_have_one_more_that_repairs() -> None:
    items = stage("a", termination=Items(4, "initial.steps"), routes=(back("a"),), limits=TWICE, retry=ONCE)
    assert counts(items) == (4 + ASKS + 5 + ASKS, 15, 0)


def test_hooks_start_a_stage_over_but_no_hook_that_only_asks_does() -> None:
    asks, calls = (
        Hook("h", "stage_end", "confirm", stage="a"),
        Hook("h", "iteration_end", "script", stage="a", timeout=4.0),
    )
    nodes = (stage("a", retry=ONCE, timeout=1.0), stage("b", retry=ONCE, timeout=1.0))
    assert counts(*nodes, hooks=(asks,)) == (8, 8, 0)
    found = worst_case(plan_of(*nodes, hooks=(calls,)))
    assert (found.iterations, found.exact) == (11 * 4 + 4, ())
    assert found.seconds == 11 * 4 * (1.0 + 4.0) + 4 * 1.0


def test_what_a_person_skips_does_nothing_and_follows_only_its_route_after_a_pass() -> None:
    nodes = (stage("a", retry=ONCE), stage("b", retry=ONCE, routes=(back("a"),)))
    found = worst_case(plan_of(*nodes), skipped=["b"])
    assert [(one.id, one.visits) for one in found.stages] == [("a", 1)]
    branches = block("claude codex", *nodes)
    assert len(worst_case(plan_of(branches), skipped=["b"]).stages) == 4, "branches are not skipped"


def test_settings_leave_out_judges_and_rejections() -> None:
    plan = plan_of(stage("a", termination=Judgment(2), approve=Approval(), retry=ONCE))
    assert worst_case(plan).judgments == 12
    assert worst_case(plan, RunSettings(plateau_test=True)).judgments == 0
    assert worst_case(plan, RunSettings(approve=True)).iterations == 5


@pytest.mark.parametrize(
    ("node", "most"),
    [
        (stage("a", timeout=10.0, retry=ONCE), 4 * 10.0),
        # Retries wait, longer each time; an own delay is between two iterations.
        (stage("a", timeout=10.0, retry=RetryPolicy(3, 2.0, 3.0, 30.0)), 4 * (3 * 10.0 + 2.0 + 6.0)),
        (stage("a", timeout=10.0, retry=RetryPolicy(1, 2.0, 2.0, 7.0, stage=2)), 6 * 10.0 + 2 * 7.0),
        (stage("a", timeout=10.0, retry=RetryPolicy(1, 0.0, stage=2)), 6 * 10.0),
        (stage("a", timeout=10.0, retry=ONCE, delay=5.0), 4 * 10.0 + 3 * 5.0),
        (stage("a", timeout=10.0, retry=ONCE, delay=None), 4 * 10.0 + 3 * 3.0),
        (stage("a", timeout=10.0, retry=ONCE, termination=Judgment(1)), 4 * 10.0 + 2 * JUDGE_TIMEOUT),
        (stage("a", timeout=10.0, retry=ONCE, termination=Queue(1)), 4 * 10.0 + 5 * QUEUE_TIMEOUT),
        (stage("a", 0), 0.0),
        (stage("a"), None),
        (block("claude codex", stage("a", timeout=10.0, retry=ONCE)), 4 * 10.0),
        (block("claude codex", stage("a")), None),
        (nested("n", stage("a", timeout=10.0, retry=ONCE), runs=2), 2 * 4 * 10.0),
    ],
)
def test_how_long_a_node_takes_at_most(node: Node, most: float | None) -> None:
    assert seconds(node) == most


@pytest.mark.parametrize(
    ("check", "runs"),
    [
        (Check("t", "t", at=("start",), timeout=2.0), 1),
        (Check("t", "t", at=("iteration",), timeout=2.0), 4),
        (Check("t", "t", at=("need", "iteration"), timeout=2.0), 5),
        # The stage may end after each iteration, and be sent back.
        (Check("t", "t", timeout=2.0), 4),
        (Check("t", "t", at=("start",), timeout=2.0, regressions=True), 2),
        (Check("t", scope=("docs/*",), timeout=2.0), 0),
    ],
)
def test_each_outcome_of_a_check_may_take_three_runs(check: Check, runs: int) -> None:
    assert seconds(stage("a", timeout=10.0, retry=ONCE, checks=(check,))) == 4 * 10.0 + runs * 3 * 2.0


def test_checks_of_items_run_at_the_end_of_a_visit_and_again_when_the_stage_is_retried() -> None:
    checks = (Check("t", "t", timeout=2.0),)
    items = stage("a", timeout=10.0, retry=ONCE, checks=checks, termination=Items(2, "initial.steps"))
    assert seconds(items) == 5 * 10.0 + 3 * 2.0
    again = replace(items, retry=RetryPolicy(1, 0.0, stage=1))
    assert seconds(again) == 6 * 10.0 + 2 * 3 * 2.0


def test_hooks_take_their_tries_and_what_is_between_them() -> None:
    points: tuple[HookPoint, ...] = ("session_start", "session_end", "stage_start", "iteration_start")
    hooks = tuple(Hook(point, point, "webhook", timeout=5.0, tries=3) for point in points)
    plan = plan_of(stage("a", timeout=10.0, retry=ONCE), hooks=hooks[:3])
    assert worst_case(plan).seconds == 4 * 10.0 + 3 * (3 * 5.0 + 1.0 + 2.0)
    inner = block("claude codex", stage("a", timeout=10.0, retry=ONCE))
    around = ("stage_start", "stage_end", "parallel_provider_start", "parallel_provider_end")
    hooks = tuple(Hook(point, point, "script", stage="duel", timeout=5.0) for point in around)
    assert worst_case(plan_of(inner, hooks=hooks)).seconds == 4 * 10.0 + (1 + 1 + 2 + 2) * 5.0


def test_a_runtime_limit_bounds_the_time_but_not_what_it_does_not_stop() -> None:
    assert seconds(stage("a", timeout=10.0, retry=ONCE), max_runtime=25.0) == 25.0
    assert seconds(stage("a", timeout=10.0, retry=ONCE), max_runtime=100.0) == 40.0
    assert seconds(stage("a", retry=ONCE, guardrails=Guardrails(60.0)), max_runtime=100.0) == 60.0
    # What waits or is asked when the time is over takes its own time.
    judged = stage("a", 9, delay=5.0, termination=Judgment(9), retry=RetryPolicy(2, 1.0, 2.0, 8.0))
    assert seconds(judged, max_runtime=100.0) == 100.0 + 5.0 + 2 * JUDGE_TIMEOUT
    retried = replace(judged, retry=RetryPolicy(1, 1.0, 2.0, 8.0, stage=1))
    assert seconds(retried, max_runtime=100.0) == 100.0 + 8.0 + 2 * JUDGE_TIMEOUT
    assert seconds(stage("a", termination=Queue(9)), max_runtime=10.0) == 10.0 + 2.0 + 13 * QUEUE_TIMEOUT
    limited, other = (
        stage("a", guardrails=Guardrails(60.0), timeout=90.0, retry=ONCE),
        stage("b", timeout=9.0, retry=ONCE),
    )
    assert worst_case(plan_of(limited, other)).seconds == 4 * 60.0 + 4 * 9.0, "b may begin later"


def of_time(found: WorstCase) -> list[Unbounded]:
    return [one for one in found.unbounded if one.figure == "seconds"]


def test_what_has_no_bound_is_named_with_the_reason() -> None:
    hook = Hook("ask", "stage_end", "call", stage="b")
    found = worst_case(plan_of(stage("a", timeout=9.0), stage("b"), hooks=(hook,), max_runtime=60.0))
    assert found.seconds is None
    assert of_time(found) == [Unbounded("seconds", "hook 'ask'", "no time limit", "set `timeout`")]
    found = worst_case(plan_of(stage("a", timeout=9.0), stage("b")))
    fix = "set `timeout`, or `limits.runtime` of the pipeline"
    assert of_time(found) == [Unbounded("seconds", "stage 'b'", "no time limit", fix)]


def test_numbers_beyond_all_measure_are_none() -> None:
    limits = Limits(10)
    nodes = [stage(f"n{number}", routes=(back("n0"),), limits=limits, timeout=1.0) for number in range(40)]
    found = worst_case(plan_of(*nodes, stage("n40", timeout=1.0)))
    assert (found.iterations, found.attempts, found.judgments, found.exact) == (None, None, 0, ("judgments",))
    assert {one.figure for one in found.unbounded if not one.what} == {"iterations", "attempts", "seconds"}


KEEPS = ProviderChoice("claude", "opus", bounds=UNITS)
FREE = ProviderChoice("codex", "gpt")


def spender(name: str = "a", usd: float | None = 0.5, cap: float | None = None, **more: Any) -> StageNode:
    limits = None if cap is None else Limits(cost_usd=cap)
    given = {"provider": KEEPS, "retry": ONCE, **more}
    return stage(name, max_iteration_cost_usd=usd, limits=limits, **given)


def capped(*nodes: Node, usd: float | None = None, tokens: int | None = None) -> WorstCase:
    plan, limits = plan_of(*nodes), Limits(cost_usd=usd, tokens=tokens)
    return worst_case(replace(plan, pipeline=replace(plan.pipeline, limits=limits)))


def below(usd: float, node: Node) -> Node:
    return replace(node, limits=Limits(cost_usd=usd))


@pytest.mark.parametrize(
    ("nodes", "cap", "most", "is_exact"),
    [
        ([spender()], None, 4 * 0.5, True),
        ([spender(termination=Judgment(1), judge=KEEPS)], None, (4 + 2) * 0.5, True),
        ([spender(), spender("b", 0.25)], None, 4 * 0.75, True),
        ([spender()], 1.5, 1.5, False),
        ([spender()], 2.0, 2.0, True),
        ([spender(usd=None)], 1.5, 1.5, False),
        # Each part spends at most its cap, and all of them that of the run.
        ([spender(cap=1.25), spender("b")], None, 1.25 + 2.0, False),
        ([spender(usd=None, cap=1.25), spender("b")], 3.0, 3.0, False),
        ([below(3.0, nested("n", spender(), spender("b"))), spender("c")], None, 5.0, False),
        ([below(3.0, block("claude codex", spender(usd=None)))], None, 3.0, False),
        ([below(9.0, nested("n", spender(cap=0.75), spender("b")))], 10.0, 2.75, False),
        ([spender(usd=None)], None, None, False),
        ([spender(usd=None), spender("b", cap=1.0)], None, None, False),
        ([stage("a", 0)], None, 0.0, True),
        # One that may spend more than there is doesn't start.
        ([spender(usd=2.0)], 1.0, 1.0, False),
        ([spender(usd=None, provider=FREE)], 1.0, 1.0, False),
    ],
)
def test_what_attempts_and_judges_spend_is_bounded_by_figures_and_caps(
    nodes: list[Node], cap: float | None, most: float | None, is_exact: bool
) -> None:
    found = capped(*nodes, usd=cap)
    assert (found.cost_usd, "cost_usd" in found.exact) == (most, is_exact)


def test_tokens_have_bounds_of_their_own() -> None:
    found = capped(spender(max_iteration_tokens=100), tokens=300)
    assert (found.cost_usd, found.tokens) == (2.0, 300)
    assert found.exact == ("iterations", "attempts", "judgments", "cost_usd")


def test_providers_without_a_cap_and_those_that_keep_to_none_are_named() -> None:
    found = worst_case(plan_of(spender(usd=None, fallbacks=(FREE, KEEPS)), spender("b", usd=None)))
    costs = [(one.what, one.fix) for one in found.unbounded if one.figure == "cost_usd"]
    assert costs == [
        ("stage 'a' with claude, codex", "set `max_iteration_cost_usd`"),
        ("stage 'b' with claude", "set `max_iteration_cost_usd` or `limits.cost_usd`"),
    ]
    assert found.unenforced == ()
    found = worst_case(plan_of(spender(fallbacks=(FREE, KEEPS)), spender("b")))
    assert found.unenforced == ("stage 'a' with codex",)
    assert "cost_usd" not in worst_case(plan_of(spender(provider=FREE))).exact
