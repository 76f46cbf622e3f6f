"""Properties of whole runs below caps, with up to 16 branches: their agents keep accounts of their own."""

from hypothesis import given
from msgspec.structs import replace
from tests.engine.any_capped_run import CappedRun, any_capped_run, exact, nodes_at
from tests.engine.test_any_run import reread, written
from tests.sampling import heavy

from agentforge.engine.decide.cap_sums import caps_of
from agentforge.engine.decide.run import decide
from agentforge.engine.evolve.run import evolve
from agentforge.model import facts as f
from agentforge.model.plan import NestedNode, Node, ParallelNode, Plan, StageNode
from agentforge.model.spending import SPENDING_CAP
from agentforge.model.state import RunState


@heavy
@given(any_capped_run(ends=True))
def test_no_run_spends_more_than_its_caps_and_every_run_ends(run: CappedRun) -> None:
    """The world compares what the running agents may spend, at each start; here: what the log says."""
    assert run.flying == 0
    for cap in caps_of(run.decided[-1][0], run.state):
        id = nodes_at(run.decided[-1][0], cap.place.path)[-1]
        spent = sum(one.sums[cap.unit] for one in run.spent if id in one.nodes)
        assert (cap.reserved, exact(cap.limit)) == (0, run.limits[id, cap.unit])
        assert spent <= exact(cap.spent)


@heavy
@given(any_capped_run())
def test_replayed_prefix_of_a_run_below_caps_decides_the_same(run: CappedRun) -> None:
    state: RunState | None = None
    for event, (plan, decision) in zip(written(run.events), run.decided, strict=True):
        state = reread(evolve(state, event))
        assert decide(plan, state) == decision
    assert state == run.state


@heavy
@given(any_capped_run(far=True, ends=True))
def test_far_below_its_caps_a_run_takes_the_same_course_as_without_caps(run: CappedRun) -> None:
    state: RunState | None = None
    for event, (plan, capped) in zip(run.events, run.decided, strict=True):
        fact = event.fact
        if isinstance(fact, f.SessionStarted | f.PlanChanged):
            fact = replace(fact, plan=without_caps(fact.plan))
        state = evolve(state, replace(event, fact=fact))
        free = decide(without_caps(plan), state)
        assert free.facts == capped.facts
        assert [work.id for work in free.work] == [work.id for work in capped.work]
        if isinstance(fact, f.RequestOpened) and fact.reason == SPENDING_CAP:
            assert fact.subject.startswith("iteration_")


def without_caps(plan: Plan) -> Plan:
    return replace(
        plan,
        pipeline=replace(plan.pipeline, limits=None),
        nodes=tuple(_free(node) for node in plan.nodes),
    )


def _free(node: Node) -> Node:
    match node:
        case NestedNode():
            return replace(node, plan=without_caps(node.plan), limits=None)
        case ParallelNode():
            branches = (
                replace(branch, stages=tuple(replace(one, limits=None) for one in branch.stages))
                for branch in node.branches
            )
            return replace(node, branches=tuple(branches), limits=None)
        case StageNode():
            return replace(node, limits=None)
