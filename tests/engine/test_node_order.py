"""The course of a run: node after node, round after round, as a plan that is unrolled would have it."""

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.engine.plans import block, nested, plan_of, stage

from agentforge.engine.nodes import first_node, next_node
from agentforge.model.cursor import Destination
from agentforge.model.plan import NestedNode, Node, Plan


def unrolled(plan: Plan, times: int, path: str = "", rounds: tuple[int, ...] = ()) -> Iterator[Destination]:
    """Everything that a run of the plan enters, in order, written as two loops."""
    for number in range(1, times + 1):
        for node in plan.nodes:
            here = (*rounds, number)
            if isinstance(node, NestedNode):
                yield from unrolled(node.plan, node.runs, f"{path}{node.path}.", here)
            else:
                yield Destination(f"{path}{node.path}", here)


def walked(plan: Plan) -> list[Destination]:
    """The same, asked step by step."""
    found: list[Destination] = []
    here = first_node(plan)
    while here is not None:
        found.append(here)
        here = next_node(plan, here.path, here.rounds)
    return found


def _node_of(inside: st.SearchStrategy[tuple[Node, ...]]) -> st.SearchStrategy[Node]:
    leaves = st.sampled_from([stage("a"), block("claude codex", stage("b"))])
    pipelines = st.builds(lambda nodes, runs: nested("in", *nodes, runs=runs), inside, st.integers(1, 3))
    return leaves | pipelines


_nodes = st.recursive(
    st.just((stage("a"),)),
    lambda inside: st.lists(_node_of(inside), min_size=1, max_size=3).map(tuple),
    max_leaves=5,
)
_plans = st.builds(lambda nodes, passes: plan_of(*nodes, passes=passes), _nodes, st.integers(1, 3))


@given(_plans)
def test_course_is_that_of_the_unrolled_plan(plan: Plan) -> None:
    assert walked(plan) == list(unrolled(plan, plan.passes))


def test_course_of_passes_times_nested_runs_times_deeper_runs() -> None:
    deep = nested("deep", stage("c"), runs=3)
    plan = plan_of(stage("a"), nested("in", stage("b"), deep, runs=2), stage("z"), passes=2)
    course = walked(plan)
    assert course == list(unrolled(plan, 2))
    assert len(course) == 2 * (1 + 2 * (1 + 3) + 1)
    assert course[:6] == [
        Destination("0", (1,)),
        Destination("1.0", (1, 1)),
        Destination("1.1.0", (1, 1, 1)),
        Destination("1.1.0", (1, 1, 2)),
        Destination("1.1.0", (1, 1, 3)),
        Destination("1.0", (1, 2)),
    ]


def test_course_passes_over_pipelines_without_nodes() -> None:
    plan = plan_of(nested("none"), stage("a"), nested("also", nested("none"), runs=2), passes=2)
    assert walked(plan) == [Destination("1", (1,)), Destination("1", (2,))]
    assert first_node(plan_of(nested("none"), passes=3)) is None


def test_routing_from_a_missing_node_ends_or_continues_after_it() -> None:
    """A damaged log may name any path, and have lost the rounds."""
    plan = plan_of(stage("a"), nested("in", stage("b"), stage("c")))
    assert next_node(plan, "7", (1,)) is None
    assert next_node(plan, "1.7", (1, 1)) is None
    assert next_node(plan, "1.0", ()) == Destination("1.1", (1, 1))
    assert next_node(plan, "", ()) is None


def test_course_of_more_rounds_than_the_plan_has_ends_with_the_round() -> None:
    """The pipeline was compiled again with fewer passes."""
    plan = plan_of(stage("a"), stage("b"), passes=2)
    assert next_node(plan, "0", (5,)) == Destination("1", (5,))
    assert next_node(replace(plan, passes=1), "1", (5,)) is None
