"""Properties of route graphs: whatever the stages report, a run goes back only as often as its limits allow,
and ends in a status.

The bound is computed from the graph alone, independently of the engine's counters.
"""

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import Struct
from tests.engine.plans import plan_of, stage
from tests.engine.playbook import Play
from tests.sampling import heavy

from agentforge.engine.evolve.run import evolve
from agentforge.model import facts as f
from agentforge.model.check import Check
from agentforge.model.plan import CycleLimits, Plan, Route, StageNode
from agentforge.model.state import RunState
from agentforge.model.status import FINAL, RunStatus

ENDS = FINAL | {RunStatus.FAILED, RunStatus.PAUSED, RunStatus.AWAITING_APPROVAL}
WORDS = ("pass", "fail", "reject", "blocking")
MAX_VISITS = 60
"""Of the graphs that are played."""
PER_VISIT = 3 * 4
"""What can happen in one visit: three iterations, each prepared, executed and checked twice at most."""


class Back(Struct, frozen=True):
    """A route to the same or an earlier node."""

    source: int
    target: int
    cycles: int

    def contains(self, other: "Back") -> bool:
        return self != other and self.target <= other.target and other.source <= self.source


@st.composite
def route_graphs(draw: st.DrawFn) -> Plan:
    names = [f"n{number}" for number in range(draw(st.integers(2, 4)))]
    targets = st.sampled_from([*names, *names, "ask", "fail", "end"])

    def node(name: str) -> StageNode:
        words = draw(st.lists(st.sampled_from(WORDS), max_size=2, unique=True))
        limit = draw(st.none() | st.integers(1, 3))
        return stage(
            name,
            draw(st.integers(1, 3)),
            verdicts=("blocking",),
            checks=draw(
                st.sampled_from([(), (), (Check("test", "t"),), (Check("lint", "t", at="iteration"),)])
            ),
            routes=tuple(_route(word, draw(targets)) for word in words),
            limits=CycleLimits(limit, 9, 9),
        )

    return plan_of(*map(node, names))


def _route(word: str, to: str) -> Route:
    return Route(word, to) if to in ("ask", "fail", "end") else Route(word, "go", to)  # type: ignore[arg-type]


def backs(plan: Plan) -> list[Back]:
    order = [node.id for node in plan.nodes]
    found = {
        Back(source, order.index(route.to), (node.limits and node.limits.cycles) or 3)
        for source, node in enumerate(plan.nodes)
        if isinstance(node, StageNode)
        for route in node.routes
        if route.action == "go" and order.index(route.to) <= source
    }
    return sorted(found, key=lambda back: back.target - back.source)


def most_visits(plan: Plan) -> list[int]:
    """Of each node: a route is followed `cycles - 1` times, and again after each route that contains it."""
    routes, times = backs(plan), dict[Back, int]()
    for back in routes:
        times[back] = (back.cycles - 1) * (1 + sum(times[o] for o in times if o.contains(back)))
    return [
        1 + sum(n for back, n in times.items() if back.target <= node <= back.source)
        for node in range(len(plan.nodes))
    ]


def played(plan: Plan, data: st.DataObject, turns: int) -> Play:
    """A run whose stages report anything; nobody answers its questions."""
    conversation = Play(plan)
    conversation.happens("start")
    for number in range(turns):
        if not conversation.work:
            return conversation
        kind = conversation.work[0].KIND
        conversation.happens(_report(kind, number, data))
    raise AssertionError("the run doesn't end")


def _report(kind: str, number: int, data: st.DataObject) -> str:
    # Always another failure: only the cycle limits end the run.
    if kind == "check":
        return data.draw(st.sampled_from([f"check fail {number} tree=t{number}", "check pass"]))
    if kind == "agent":
        words = st.sampled_from(["", *(f" verdict={word}" for word in WORDS)])
        return data.draw(st.sampled_from(["completed", "completed stop", "completed stop"])) + data.draw(
            words
        )
    return "prepared"


@heavy
@given(route_graphs(), st.data())
def test_no_run_makes_more_visits_than_its_limits_allow_and_every_run_ends(
    plan: Plan, data: st.DataObject
) -> None:
    most = most_visits(plan)
    assume(sum(most) <= MAX_VISITS)
    state = played(plan, data, PER_VISIT * sum(most) + 1).state
    assert state is not None
    assert state.status in ENDS
    visits = [state.visits.get(str(node), 0) for node in range(len(plan.nodes))]
    assert all(made <= allowed for made, allowed in zip(visits, most, strict=True)), (visits, most)
    if state.status is RunStatus.FAILED:
        assert state.failure is not None
    if state.status is RunStatus.PAUSED:
        assert [request.reason for request in state.open_requests] in (["cycle_limit"], ["verdict"])


@heavy
@given(route_graphs(), st.data())
def test_an_outer_cycle_resets_exactly_the_inner_counters(plan: Plan, data: st.DataObject) -> None:
    assume(sum(most_visits(plan)) <= MAX_VISITS)
    conversation = played(plan, data, PER_VISIT * MAX_VISITS + 1)
    order = [node.id for node in plan.nodes]
    state: RunState | None = None
    for event in conversation.events:
        before = state
        state = evolve(state, event)
        fact = event.fact
        if not isinstance(fact, f.StageRouted) or not fact.cycle:
            assert before is None or state.cycles == before.cycles
            continue
        assert before is not None
        source, target = order.index(fact.source), order.index(fact.to)
        expected = {
            key: count
            for key, count in before.cycles.items()
            if not (target <= int(key.partition(">")[2]) and int(key.partition(">")[0]) <= source)
        }
        own = f"{source}>{target}"
        assert state.cycles == expected | {own: before.cycles.get(own, 0) + 1}
