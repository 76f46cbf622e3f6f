"""Hypothesis: whole runs below caps, whose agents keep accounts of their own.

What an agent spends is drawn here and isn't in the log: an agent that is lost or killed has spent some, and
one that reports its usage may leave out a part. The accounts are by the ids of nodes, as paths change.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal

from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace
from tests.engine.any_run import World
from tests.engine.plans import block, nested, plan_of, stage

from agentforge.engine.decide.run import Directive as Decided
from agentforge.engine.replan import plan_change
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.errors import IllegalMove
from agentforge.model.event import Event
from agentforge.model.failure import FailureKind
from agentforge.model.plan import (
    Fixed,
    Judgment,
    Limits,
    NestedNode,
    Node,
    ParallelNode,
    Plan,
    ProviderChoice,
    RetryPolicy,
    StageNode,
)
from agentforge.model.request import CANCEL, RETRY, Request
from agentforge.model.result import Usage
from agentforge.model.spending import SPENDING_CAP, UNITS, Amount, Unit
from agentforge.model.state import RunState
from agentforge.model.status import FINAL, RunStatus
from agentforge.model.task import AgentTask, JudgeTask, Work

Sums = dict[Unit, Decimal]
"""By unit; money and tokens are never added."""
Cap = tuple[str, Unit]
"""The id of a node, or empty: the run; or of the stage whose figure it is, after `FIGURE`."""
FIGURE = "figure of "
MANY = " ".join(f"p{number:02d}" for number in range(1, 17))
BOUNDLESS, FAR = 10**6, 10**5
ENOUGH = 400
"""Turns in which every run comes to its end."""


class Account(Struct):
    """What an agent or a judge spent, or may spend."""

    nodes: list[str]
    """The ids of the stage and of what it is in."""
    sums: Sums


class CappedRun(Struct, frozen=True):
    events: list[Event]
    decided: list[tuple[Plan, Decided]]
    state: RunState
    spent: list[Account]
    """One account for each outcome."""
    limits: dict[Cap, Decimal]
    """With grants."""
    flying: int
    """How many agents and judges are running."""

    def __repr__(self) -> str:
        names = ", ".join(f"{event.seq} {type(event.fact).__name__}" for event in self.events)
        return f"CappedRun({names})"


def exact(value: float) -> Decimal:
    return Decimal(repr(value))


def caps_of_nodes(plan: Plan, id: str = "", of_node: Limits | None = None) -> Iterator[tuple[Cap, Decimal]]:
    """What the definition says, read once more."""
    for limits in (plan.pipeline.limits, of_node):
        yield from _caps(id, limits)
    for node in plan.nodes:
        if isinstance(node, NestedNode):
            yield from caps_of_nodes(node.plan, node.id, node.limits)
        else:
            yield from _caps(node.id, node.limits)
        if isinstance(node, ParallelNode):
            for one in node.branches[0].stages:
                yield from _caps(one.id, one.limits)


def _caps(id: str, limits: Limits | None) -> Iterator[tuple[Cap, Decimal]]:
    if limits is not None and limits.cost_usd is not None:
        yield (id, "cost_usd"), exact(limits.cost_usd)
    if limits is not None and limits.tokens is not None:
        yield (id, "tokens"), Decimal(limits.tokens)


def nodes_at(plan: Plan, path: str) -> list[str]:
    """The run, and the ids of the nodes on the way to a path."""
    found, inside = [""], plan.nodes
    for number in path.split(".") if path else ():
        node = inside[int(number)]
        found.append(node.id)
        match node:
            case NestedNode():
                inside = node.plan.nodes
            case ParallelNode():
                inside = node.branches[0].stages
    return found


class CappedWorld(World):
    def __init__(self, draw: st.DrawFn, plan: Plan, *, far: bool, honest: bool) -> None:
        self.spent: list[Account] = []
        self.flying: dict[tuple[str | None, str], Account] = {}
        self.granted: dict[Cap, Decimal] = {}
        self.honest = honest
        """Whether agents report what they spent."""
        self.far = far
        self.asked: dict[str, tuple[Cap, str]] = {}
        self.calm = False
        """Whether everything goes well from now on."""
        super().__init__(draw, plan, wild=True)
        self.luck = draw(st.sampled_from(["mixed", "good", "dying", "failing"]))

    @property
    def limits(self) -> dict[Cap, Decimal]:
        """The lowest of each, with what people granted."""
        found: dict[Cap, Decimal] = {}
        for cap, limit in caps_of_nodes(self.plan):
            found[cap] = min(limit, found.get(cap, limit))
        return {cap: limit + self.granted.get(cap, 0) for cap, limit in found.items()}

    def record(self, fact: f.AnyFact, cursor: Cursor | None) -> None:
        super().record(fact, cursor)
        match fact:
            case f.AttemptStarted() | f.JudgeStarted():
                assert cursor is not None
                self._starts(fact, cursor)
            case f.RequestOpened(reason=reason, subject=subject) if reason == SPENDING_CAP:
                self.asked[fact.id] = (self._cap(subject), "")
            case f.RequestAnswered() if fact.id in self.asked:
                self.asked[fact.id] = (self.asked[fact.id][0], fact.answer)
            case f.RequestResolved(effect="granted") if fact.id in self.asked:
                cap, answer = self.asked[fact.id]
                self.granted[cap] = self.granted.get(cap, Decimal(0)) + Decimal(answer)
            case f.PlanChanged(caps_set=units):
                for unit in units:
                    self.granted.pop(("", unit), None)

    def _cap(self, subject: str) -> Cap:
        """By the id of the node that the cap is on now."""
        name, _, path = subject.partition("@")
        unit: Unit = "tokens" if name.endswith("tokens") else "cost_usd"
        id = nodes_at(self.plan, path)[-1]
        return (f"{FIGURE}{id}" if name.startswith("iteration_") else id), unit

    # -- what agents may spend, and what they spend

    def _starts(self, fact: f.AttemptStarted | f.JudgeStarted, at: Cursor) -> None:
        """No agent runs whose bound doesn't fit below every cap, with those of all others."""
        node = self.plan.stage(at.node_path, at.provider)
        assert node is not None
        by = node.chosen(fact.choice) if isinstance(fact, f.AttemptStarted) else self.plan.judge_of(node)
        nodes, key = nodes_at(self.plan, at.node_path), (at.provider, fact.KIND)
        capped = {unit for id, unit in self.limits if id in nodes}
        bound = {unit: self._bound(node, by, unit, fact.reserves, unit in capped) for unit in UNITS}
        assert key not in self.flying
        self.flying[key] = Account(nodes, bound)
        for (id, unit), limit in self.limits.items():
            if id in nodes:
                inside = [one for one in (*self.spent, *self.flying.values()) if id in one.nodes]
                most = sum(one.sums[unit] for one in inside)
                assert most <= limit, f"{most} of {limit} {unit} of {id or 'the run'}"

    def _bound(
        self, node: StageNode, by: ProviderChoice, unit: Unit, told: Amount | None, is_capped: bool
    ) -> Decimal:
        """A provider that keeps to a budget keeps to what it is told, another one to the figure. What isn't
        bounded isn't counted: a cap that is set later doesn't know of it."""
        bound = (told.of(unit) if told else None) if unit in by.bounds else node.per_attempt.of(unit)
        return Decimal(BOUNDLESS if is_capped else 0) if bound is None else exact(bound)

    def _fact(self, work: Work) -> f.AnyFact:
        fact = super()._fact(work)
        if not isinstance(work, AgentTask | JudgeTask):
            return fact
        assert isinstance(fact, f.TaskOutcome)
        account = self.flying.pop((work.place.branch, work.KIND))
        if self.rarely(12) and not work.ending and isinstance(fact, f.AttemptLost | f.ErrorOccurred):
            self.spent.append(Account(account.nodes, dict.fromkeys(UNITS, Decimal(0))))
            return replace(fact, started=False)
        part = self.draw(st.sampled_from([0, 1, 2, 4, 4]))
        used = {unit: self._part(unit, bound, part) for unit, bound in account.sums.items()}
        if work.budget and work.by.bounds and not work.ending and not self.calm and self.rarely(6):
            used = account.sums | {unit: used[unit] for unit in UNITS if work.budget.of(unit) is None}
            fact = self._at_cap(work)
        self.spent.append(Account(account.nodes, used))
        if isinstance(fact, f.IterationCompleted | f.ErrorOccurred | f.JudgeCompleted):
            return replace(fact, usage=self._reported(used))
        return fact

    def _part(self, unit: Unit, bound: Decimal, part: int) -> Decimal:
        return (bound * part / 4).quantize(
            Decimal("0.000001") if unit == "cost_usd" else Decimal(1), "ROUND_DOWN"
        )

    def _at_cap(self, work: AgentTask | JudgeTask) -> f.AnyFact:
        if isinstance(work, JudgeTask):
            failed = f.JudgeResult(stop=False, reason="invoke_failed")
            return f.JudgeCompleted("failed", failed, work.attempt, capped=True)
        return f.ErrorOccurred(FailureKind.CAP_REACHED, "at its budget", "x", work.attempt)

    def _reported(self, used: Mapping[Unit, Decimal]) -> Usage | None:
        """All of it, or a part."""
        says = "all" if self.honest else self.draw(st.sampled_from(["all", "all", "cost", "sent", "nothing"]))
        cost, tokens = float(used["cost_usd"]), int(used["tokens"])
        match says:
            case "all":
                return Usage(input_tokens=tokens // 2, output_tokens=tokens - tokens // 2, cost_usd=cost)
            case "cost":
                return Usage(cost_usd=cost)
            case "sent":
                return Usage(input_tokens=tokens // 2)
            case _:
                return None

    # -- people

    def answers_to(self, request: Request) -> list[str]:
        """They cancel rarely, and grant little."""
        grants = {"": [], "tokens": ["3", "30"]}.get(request.grants, [".05", "0.3", "1"])
        options = [option for option in request.options if option != CANCEL or self.rarely(8)]
        return [*options, *grants]

    def _recompiled(self) -> None:
        """Perhaps after an answer of which nothing came yet."""
        if self.draw(st.booleans()):
            self._people()
        if self.draw(st.booleans()):
            super()._recompiled()
            return
        unit = self.draw(st.sampled_from(UNITS))
        most = self.draw(st.sampled_from([FAR] if self.far else [1, 5, 40]))
        changed = self.plan.with_caps(Amount().with_unit(unit, most))
        try:
            fact = plan_change(changed, self.plan, self.state)
        except IllegalMove:
            return
        self.record(replace(fact, caps_set=(unit,)), self.state.cursor)

    def extra(self, name: str) -> StageNode:
        return stage(name, max_iteration_cost_usd=0.1, max_iteration_tokens=10)

    # -- the end

    def to_the_end(self) -> None:
        """From now on, everything goes well, and people grant what is asked for."""
        self.calm, self.luck, self.wild = True, "good", False
        for _ in range(ENOUGH):
            works = self.settle()
            assert works is not None
            if self.state.status in FINAL:
                return
            if self.state.status is RunStatus.RUNNING:
                assert works, "a running run has nothing to do"
                self._answer(works[0])
                continue
            for request in self.state.open_requests:
                self.record(f.RequestAnswered(request.id, _consent(request), "person"), request.at)
            if not self.state.waits:
                self.record(f.SessionResumed("person"), self.state.cursor)
        raise AssertionError("the run doesn't come to its end")

    def rarely(self, times: int) -> bool:
        return not self.calm and super().rarely(times)


def _consent(request: Request) -> str:
    if request.grants == "tokens":
        return "1000"
    if request.grants:
        return "5"
    return next(
        option for option in (RETRY, *request.options) if option in request.options and option != CANCEL
    )


# -- plans below caps


@st.composite
def capped_plan(draw: st.DrawFn, far: bool = False) -> Plan:
    """A stage, a block of up to 16 branches, pipelines in pipelines; each with caps, or without. `far`: far
    above of what is spent."""
    money = st.sampled_from([float(FAR)] if far else [0.25, 0.5, 1.0, 1.5, 6.4])
    tokens = st.sampled_from([FAR] if far else [7, 50, 200, 900])
    caps = st.builds(Limits, cost_usd=st.none() | money, tokens=st.none() | tokens)
    names = iter("abcdefghijk")

    def any_stage() -> StageNode:
        keeps = draw(st.booleans())
        by = ProviderChoice("claude", "opus", bounds=UNITS if keeps else ())
        # A provider that keeps to nothing needs a figure. With figures, all is the same without caps.
        figure = not keeps or far or draw(st.booleans())
        return stage(
            next(names),
            provider=by,
            judge=by,
            fallbacks=draw(st.sampled_from([(), (replace(by, type="codex"),)])),
            termination=draw(st.sampled_from([Fixed(1), Fixed(2), Judgment(2, 1, 1)])),
            retry=draw(st.sampled_from([None, RetryPolicy(3, stage=1)])),
            semantics=draw(st.sampled_from(["at_least_once", "at_least_once", "at_most_once"])),
            limits=draw(st.none() | caps),
            max_iteration_cost_usd=draw(st.sampled_from([0.05, 0.3])) if figure else None,
            max_iteration_tokens=draw(st.sampled_from([5, 20])) if figure else None,
        )

    def any_block() -> ParallelNode:
        found = block(MANY, *(any_stage() for _ in range(draw(st.sampled_from([1, 1, 2])))), id=next(names))
        branches = found.branches[: draw(st.sampled_from([2, 4, 16, 16]))]
        stages = found.branches[0].stages
        kept = [
            replace(
                branch,
                stages=tuple(
                    replace(one, provider=replace(one.provider, bounds=of.judge.bounds if of.judge else ()))
                    for one, of in zip(branch.stages, stages, strict=True)
                ),
            )
            for branch in branches
        ]
        providers = tuple(branch.provider for branch in kept)
        return replace(found, providers=providers, branches=tuple(kept), limits=draw(st.none() | caps))

    def any_node(depth: int) -> Node:
        match draw(st.sampled_from(["block", "block", "stage", "nested"] if depth else ["block", "stage"])):
            case "block":
                return any_block()
            case "stage":
                return any_stage()
        found = nested(next(names), any_node(depth - 1), runs=draw(st.integers(1, 2)))
        inner = replace(found.plan, pipeline=replace(found.plan.pipeline, limits=draw(st.none() | caps)))
        return replace(found, plan=inner, limits=draw(st.none() | caps))

    plan = plan_of(*(any_node(1) for _ in range(draw(st.integers(1, 2)))))
    return replace(plan, pipeline=replace(plan.pipeline, limits=draw(caps)))


@st.composite
def any_capped_run(draw: st.DrawFn, *, far: bool = False, ends: bool = False, steps: int = 60) -> CappedRun:
    """`ends`: whether it comes to its end."""
    world = CappedWorld(draw, draw(capped_plan(far)), far=far, honest=draw(st.booleans()))
    for _ in range(draw(st.integers(steps // 3, steps))):
        if not world.step():
            break
    if ends:
        world.to_the_end()
    return CappedRun(world.events, world.decided, world.state, world.spent, world.limits, len(world.flying))
