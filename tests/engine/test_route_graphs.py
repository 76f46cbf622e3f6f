"""Properties of route graphs with nested pipelines and parallel blocks: whatever the stages report and people
answer, a run goes back only as often as its limits and the answers allow, and ends in a status.

The bounds are computed from the graph, the answers and the transitions, not from the engine's counters.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from random import Random

from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec import Struct
from tests.engine.plans import block, nested, plan_of, stage
from tests.engine.playbook import Play

from agentforge.model import facts as f
from agentforge.model.check import Check
from agentforge.model.plan import Limits, NestedNode, Node, ParallelNode, Plan, Route, StageNode
from agentforge.model.status import FINAL, RunStatus
from agentforge.model.task import Wait, Work

ENDS = FINAL | {RunStatus.FAILED, RunStatus.PAUSED, RunStatus.AWAITING_APPROVAL}
WORDS = ("pass", "fail", "reject", "blocking")
LIMITS = {"cycle_limit", "failure_cluster", "no_progress"}
MAX_VISITS = 200
"""Of the graphs that are played."""
MAX_TURNS = 4000
MAX_ANSWERS = 4

Path = tuple[int, ...]


class Stop(Struct, frozen=True):
    """The position of a stage, or of a node that contains stages."""

    path: Path
    branch: str | None = None


class Back(Struct, frozen=True):
    """A route to the same or an earlier node of the same pipeline or branch."""

    source: Stop
    target: Stop
    cycles: int

    def covers(self, stop: Stop) -> bool:
        """Whether it visits that node again."""
        around, level = self.source.path[:-1], len(self.source.path) - 1
        return (
            (self.source.branch is None or stop.branch == self.source.branch)
            and stop.path[:level] == around
            and self.target.path[level] <= stop.path[level] <= self.source.path[level]
        )

    def contains(self, other: "Back") -> bool:
        return self != other and self.covers(other.source) and self.covers(other.target)


# -- graphs


@st.composite
def route_graphs(draw: st.DrawFn) -> Plan:
    return plan_of(*_nodes(draw, "n", draw(st.integers(2, 4)), depth=0))


def _nodes(draw: st.DrawFn, prefix: str, count: int, depth: int) -> list[Node]:
    names = [f"{prefix}{number}" for number in range(count)]
    kinds = ["stage", "stage", "stage", "nested", "block"] if depth < 2 else ["stage"]
    return [_node(draw, draw(st.sampled_from(kinds)), name, names, depth) for name in names]


def _node(draw: st.DrawFn, kind: str, name: str, names: list[str], depth: int) -> Node:
    if kind == "stage":
        checks = ((), (), (Check("test", "t"),), (Check("lint", "t", at=("iteration",)),))
        return _stage(draw, name, names, draw(st.sampled_from(checks)))
    inner = draw(st.integers(1, 2))
    if kind == "nested":
        return nested(name, *_nodes(draw, f"{name}_", inner, depth + 1), runs=draw(st.integers(1, 2)))
    inside = [f"{name}_{number}" for number in range(inner)]
    providers = draw(st.sampled_from(["claude", "claude codex"]))
    return block(providers, *(_stage(draw, each, inside) for each in inside), id=name)


def _stage(draw: st.DrawFn, name: str, beside: list[str], checks: tuple[Check, ...] = ()) -> StageNode:
    words = draw(st.lists(st.sampled_from(WORDS[1:] * 3 + WORDS[:1]), min_size=1, max_size=3, unique=True))
    words += ["fail"] if checks and "fail" not in words else []
    back = beside[: beside.index(name) + 1]
    targets = st.sampled_from([*back * 3, *beside, "ask", "ask", "fail", "end"])
    limits = (
        draw(st.none() | st.integers(1, 3)),
        draw(st.sampled_from([2, 9])),
        draw(st.sampled_from([2, 9])),
    )
    return stage(
        name,
        draw(st.integers(1, 2)),
        verdicts=("blocking",),
        checks=checks,
        routes=tuple(_route(word, draw(targets)) for word in words),
        limits=Limits(*limits),
    )


def _route(word: str, to: str) -> Route:
    return Route(word, to) if to in ("ask", "fail", "end") else Route(word, "go", to)  # type: ignore[arg-type]


def stops(plan: Plan, around: Path = ()) -> Iterator[tuple[Stop, list[str], Node]]:
    """Every node, with the ids of those beside it."""
    names = [node.id for node in plan.nodes]
    for number, node in enumerate(plan.nodes):
        yield Stop((*around, number)), names, node
        if isinstance(node, NestedNode):
            yield from stops(node.plan, (*around, number))
        if isinstance(node, ParallelNode):
            for branch in node.branches:
                ids = [each.id for each in branch.stages]
                for index, each in enumerate(branch.stages):
                    yield Stop((*around, number, index), branch.provider), ids, each


def backs(plan: Plan) -> list[Back]:
    """Routes that contain others come first."""
    found = {
        Back(here, Stop((*here.path[:-1], to), here.branch), (node.limits and node.limits.cycles) or 3)
        for here, names, node in stops(plan)
        if isinstance(node, StageNode)
        for route in node.routes
        if route.action == "go" and (to := names.index(route.to)) <= here.path[-1]
    }
    return sorted(found, key=lambda back: sum(back.contains(other) for other in found), reverse=True)


# -- what a run may do at most


class Answers(Struct, frozen=True):
    """What people allowed, by stage."""

    granted: Counter[Stop]
    """Further cycles."""
    resets: Counter[Stop]
    again: Counter[Stop]
    """Further visits."""


NO_ANSWERS = Answers(Counter(), Counter(), Counter())


def most_visits(plan: Plan, answers: Answers = NO_ANSWERS) -> dict[Stop, int]:
    """Of each node: a route is followed `cycles - 1` times, as often again in each round of its pipeline,
    after each route that contains it and after each reset, and as often as it was granted. A reset allows
    once at least."""
    routes, times = backs(plan), dict[Back, int]()
    rounds, most = {(): 1}, dict[Stop, int]()
    for here, _, node in stops(plan):
        beside = [back for back in routes if _beside(back, here)]
        for back in beside:
            anew = rounds[here.path[:-1]] + sum(times[other] for other in beside if other.contains(back))
            people = max(1, back.cycles - 1) * answers.resets[back.source] + answers.granted[back.source]
            times[back] = (back.cycles - 1) * anew + people
        own = [times[back] for back in beside if back.covers(here)]
        most[here] = rounds[here.path[:-1]] + sum(own) + answers.again[here]
        if not isinstance(node, StageNode):
            rounds[here.path] = most[here] * (node.runs if isinstance(node, NestedNode) else 1)
    return most


def _beside(back: Back, stop: Stop) -> bool:
    return back.source.path[:-1] == stop.path[:-1] and back.source.branch == stop.branch


# -- runs


def played(plan: Plan, luck: Random) -> tuple[Play, Answers]:
    """A run whose stages report anything, until it ends or a question isn't answered any more."""
    conversation, answers, left = Play(plan), Answers(Counter(), Counter(), Counter()), MAX_ANSWERS
    conversation.happens("start")
    for number in range(MAX_TURNS):
        assert conversation.state is not None
        requests = conversation.state.open_requests
        if conversation.work:
            work = luck.choice(conversation.work)
            conversation.happens(_whose(work) + _report(plan, work, number, luck))
        elif requests and left:
            left -= 1
            if not _answered(conversation, answers, luck):
                return conversation, answers
        else:
            return conversation, answers
    raise AssertionError("the run doesn't end")


def _whose(work: Work) -> str:
    return f"{work.cursor.provider}: " if work.cursor and work.cursor.provider else ""


def _report(plan: Plan, work: Work, number: int, luck: Random) -> str:
    if isinstance(work, Wait):
        return f"fired {work.timer}"
    if work.KIND == "check":
        # A failure of its own, or one that comes back.
        what = luck.choice([f"x{number}", f"x{number}", "same"])
        tree = luck.choice([f"t{number}", f"t{number}", "t0"])
        outcomes = [f"fail {what} tree={tree}"] * 5 + ["pass"] * 9 + ["timeout", "lost", "error"]
        return f"check {luck.choice(outcomes)}"
    if work.KIND == "agent":
        assert work.cursor is not None
        node = plan.stage(work.cursor.node_path, work.cursor.provider)
        # Mostly what leads somewhere.
        routed = [route.verdict for route in node.routes] if node else []
        words = [f" verdict={word}" for word in (*routed * 4, *["pass"] * 6, luck.choice(WORDS))]
        said = [f"completed{stop}{word}" for stop in ("", " stop", " stop") for word in words]
        return luck.choice([*said, "error provider_timeout", "error result_invalid", "lost"])
    return {"prepare": "prepared", "manifest": "manifest"}[work.KIND]


def _answered(conversation: Play, answers: Answers, luck: Random) -> bool:
    """Answer a question, and note what that allows; False if it stays open."""
    assert conversation.state is not None
    request = luck.choice(conversation.state.open_requests)
    offered = [option for option in request.options if option != "cancel"]
    numbers = ["1", "2"] if request.grants else []
    answer = luck.choice([*offered * 2, *numbers * 2, "cancel", ""])
    if not answer:
        return False
    assert request.at is not None
    stop = _stop(request.at.node_path, request.at.provider)
    if request.reason in LIMITS and answer in ("retry", "1", "2"):
        answers.granted[stop] += 1 if answer == "retry" else int(answer)
    if request.reason in LIMITS and answer == "resume":
        answers.resets[stop] += 1
    if request.reason == "verdict" and answer == "retry":
        answers.again[stop] += 1
    conversation.happens(f"answer {request.id} {answer}")
    return True


def _stop(path: str, branch: str | None) -> Stop:
    return Stop(tuple(map(int, path.split("."))), branch)


def visits(conversation: Play) -> Counter[Stop]:
    """How often each stage and block was entered; in a branch, how often its first iteration started."""
    entered = Counter[Stop]()
    for event in conversation.events:
        if (at := event.cursor) is None:
            continue
        first = isinstance(event.fact, f.IterationStarted) and at.iteration == 1
        if first if at.provider else isinstance(event.fact, f.NodeStarted):
            entered[_stop(at.node_path, at.provider)] += 1
    return entered


@given(route_graphs(), st.integers(0, 2**32))
def test_no_run_makes_more_visits_than_its_limits_allow_and_every_run_ends(plan: Plan, seed: int) -> None:
    assume(sum(most_visits(plan).values()) <= MAX_VISITS)
    conversation, answers = played(plan, Random(seed))
    state, most = conversation.state, most_visits(plan, answers)
    assert state is not None
    assert state.status in ENDS
    for stop, made in visits(conversation).items():
        assert made <= most[stop], (stop, made, most[stop])
    if state.status is RunStatus.FAILED:
        assert state.failure is not None
    if state.status is RunStatus.PAUSED:
        assert state.open_requests


class Counts(Struct):
    """The model: how often each route was followed, and its limit with what was granted."""

    routes: dict[tuple[Stop, Stop], Back]
    passes: Counter[Back]
    limits: dict[Back, int]
    granted: Counter[Stop]
    """Passes that were granted to a stage, until it goes back."""
    rounds: tuple[int, ...] = ()

    def drop(self, is_dropped: Callable[[Back], bool]) -> None:
        for back in self.routes.values():
            if is_dropped(back):
                self.passes.pop(back, None)
                self.limits.pop(back, None)

    def limit(self, back: Back) -> int:
        return self.limits.get(back, back.cycles)

    def entered(self, path: Path, rounds: tuple[int, ...]) -> None:
        known = (*self.rounds, *(0 for _ in rounds))
        if changed := [depth for depth, round in enumerate(rounds) if round != known[depth]]:
            pipeline = path[: changed[0]]
            self.drop(lambda back: back.source.path[: len(pipeline)] == pipeline)
        self.rounds = rounds

    def answered(self, here: Stop, effect: str, granted: int) -> None:
        if effect == "reset":
            self.drop(lambda back: back.source == here)
        if effect in ("reset", "continue", "granted"):
            self.granted[here] = granted or 1

    def routed(self, here: Stop, target: Stop, cycle: int, of: int) -> None:
        back = self.routes[here, target]
        self.passes[back] += 1
        granted = self.granted.pop(here, 0)
        limit = max(self.limit(back), cycle - 1 + granted if granted else 0)
        assert (cycle, of) == (self.passes[back] + 1, limit)
        assert cycle <= of
        self.limits[back] = limit
        self.drop(back.contains)


@given(route_graphs(), st.integers(0, 2**32))
def test_an_outer_cycle_resets_exactly_the_inner_counters(plan: Plan, seed: int) -> None:
    """Each transition has the number of its pass since the latest route that contains it, since its pipeline
    began a round, or since a person reset it. At the limit, a person is asked."""
    assume(sum(most_visits(plan).values()) <= MAX_VISITS)
    conversation, _ = played(plan, Random(seed))
    counts = Counts({(back.source, back.target): back for back in backs(plan)}, Counter(), {}, Counter())
    asked = dict[str, f.RequestOpened]()
    for event in conversation.events:
        fact, at = event.fact, event.cursor
        if isinstance(fact, f.RequestOpened):
            asked[fact.id] = fact
        if at is None:
            continue
        here = _stop(at.node_path, at.provider)
        match fact:
            case f.NodeStarted() if at.provider is None:
                counts.entered(here.path, fact.rounds)
            case f.RequestOpened(reason="cycle_limit"):
                own = [back for back in counts.routes.values() if back.source == here]
                assert any(counts.passes[back] + 1 >= counts.limit(back) for back in own)
            case f.RequestResolved() if asked[fact.id].reason in LIMITS:
                counts.answered(here, fact.effect, fact.granted)
            case f.StageTransitioned() if fact.cycle:
                assert fact.next is not None
                path = _stop(fact.next.path, at.provider).path[: len(here.path)]
                counts.routed(here, Stop(path, at.provider), fact.cycle, fact.of)
            case _:
                pass
