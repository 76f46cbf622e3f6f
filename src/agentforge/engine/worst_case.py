"""The worst case of a plan: what a run does at most, until it ends or a person has to allow more.

Computed from the plan alone: every loop of a run has a limit.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from typing import Literal, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.decide.checks import DEFAULT_CYCLES, MAX_VOID_CHECKS, cycle_limits
from agentforge.engine.decide.failure import DEFAULT_POLICY, backoff
from agentforge.engine.decide.hooks import MAX_HOOK_RESTARTS, retry_delay
from agentforge.engine.decide.items import MAX_TRIES
from agentforge.engine.decide.people import MAX_QUESTION_ROUNDS
from agentforge.engine.decide.stage import DEFAULT_DELAY
from agentforge.engine.decide.stage_at import check_timeout, max_runtime, tightest
from agentforge.engine.decide.termination import JUDGE_TIMEOUT, MAX_JUDGE_CALLS, QUEUE_TIMEOUT
from agentforge.model.check import Check
from agentforge.model.hook import BRANCH_POINTS, Hook, HookPoint
from agentforge.model.plan import (
    FAIL,
    PASS,
    Items,
    Judgment,
    NestedNode,
    Node,
    ParallelNode,
    Plan,
    Queue,
    Route,
    StageNode,
)
from agentforge.model.spending import UNITS, Unit, plus
from agentforge.model.state import RunSettings

# Theory of operation
#
# What a stage does is a product: visits, iterations of a visit, attempts at an iteration. A route back is
# followed `cycles - 1` times, and as often again after each route that contains it, as that resets its
# counter (`engine/evolve/checks.py`). So routes are counted from the outer to the inner ones. A stage is
# visited once, and once more for each time that a route back over it is followed.
#
# Agents, judges, checks and hooks are opponents here: they fail, ask, and change files as it suits them. What
# stops a run without progress is therefore no bound. People are none: they approve, answer questions, and
# reject as often as there are rounds. What has no number isn't counted: what people grant beyond the limits,
# what dies with the engine or the machine, and attempts that end at a provider's quota, whose bound is the
# time of waiting.
#
# A figure is exact if some run reaches it. Time is the sum of all time limits, and so never exact.

Figure = Literal["iterations", "attempts", "judgments", "seconds", "cost_usd", "tokens"]
_Counted = TypeVar("_Counted", int, float)
CEILING = 10**15
"""A larger number is as good as none."""
_COUNTS: tuple[Figure, ...] = ("iterations", "attempts", "judgments")
_ASKING = ("pause", "confirm")
"""The hooks that call nothing."""
_NODE_POINTS: tuple[HookPoint, ...] = ("stage_start", "stage_end")
_ITERATION_POINTS: tuple[HookPoint, ...] = ("iteration_start", "iteration_end")
_RESTARTING: tuple[HookPoint, ...] = (*_ITERATION_POINTS, "stage_end")
"""Where others can start the stage over."""


class Unbounded(Struct, frozen=True):
    """Why a figure has no bound."""

    figure: Figure
    what: str
    """What has no limit: `stage 'build'`; empty: the whole run."""
    why: str
    fix: str


class StageWorst(Struct, frozen=True):
    """What a stage does at most, in all of its visits together."""

    id: str
    path: str
    branch: str | None
    """In a block: the provider."""
    visits: int
    iterations: int
    attempts: int
    judgments: int
    """Calls of its judge."""
    seconds: float | None = None
    cost_usd: float | None = None
    tokens: float | None = None


class WorstCase(Struct, frozen=True):
    """What a run does at most. A figure that is None has no bound, and `unbounded` says why."""

    iterations: int | None
    attempts: int | None
    judgments: int | None
    seconds: float | None
    """Without the time in which it waits for people, or for a limit of a provider."""
    cost_usd: float | None
    tokens: float | None
    exact: tuple[Figure, ...]
    """The figures that a run can reach; the others are upper bounds."""
    stages: tuple[StageWorst, ...]
    unbounded: tuple[Unbounded, ...]
    unenforced: tuple[str, ...] = ()
    """Whose attempts may spend more than their figure, as the provider doesn't keep to it."""


def worst_case(plan: Plan, settings: RunSettings | None = None, skipped: Collection[str] = ()) -> WorstCase:
    """`skipped`: the ids of the stages that a person skips."""
    walk = _Walk(plan, settings or RunSettings(), skipped)
    seconds = walk.nodes(plan.nodes, "", plan.passes, plan.passes)
    return walk.result(seconds)


class _Walk:
    """Adds up the stages of a plan."""

    def __init__(self, plan: Plan, settings: RunSettings, skipped: Collection[str]) -> None:
        self.plan = plan
        self.settings = settings
        self.skipped = skipped
        self.stages: list[StageWorst] = []
        self.unbounded: dict[Unbounded, None] = {}
        self.unenforced: dict[str, None] = {}
        self.capped = set[Unit]()
        """Where a cap is lower than what a stage may spend."""
        self.exact: dict[Figure, None] = dict.fromkeys(_COUNTS)
        self.unstopped: float | None = 0.0
        """The seconds of what a runtime limit doesn't stop: hooks and queries."""
        self.limit: float | None = 0.0
        """Of the runtime, if one applies to each stage."""
        self.late = 0.0
        """What else a stage may have begun when that limit is used up."""

    def result(self, seconds: float | None) -> WorstCase:
        new = [check for _, check in self.plan.baselines.values() if check.regressions]
        own = [self._hooks("", point, 1) for point in ("session_start", "session_end")]
        longest = _sum([self.limit, self.late, self.unstopped])
        iterations, attempts, judgments = (
            self._figure(name, sum(getattr(one, name) for one in self.stages)) for name in _COUNTS
        )
        cost, tokens = (self._figure(unit, self._spent(unit)) for unit in UNITS)
        return WorstCase(
            iterations,
            attempts,
            judgments,
            self._figure("seconds", tightest(_sum([seconds, _check_seconds(new), *own]), longest)),
            cost,
            tokens,
            tuple(self.exact),
            tuple(self.stages),
            tuple(self.unbounded),
            tuple(self.unenforced),
        )

    def _spent(self, unit: Unit) -> float | None:
        """The sum of what attempts may spend; of each part of the run, no more than its cap."""
        places = [(place, cap) for place in self.plan.caps if (cap := place.caps.of(unit)) is not None]
        parts: list[tuple[str, float | None]] = [(one.path, getattr(one, unit)) for one in self.stages]
        # Inner parts come first, the run last.
        for place, cap in sorted(places, key=lambda known: known[0].path.split("."), reverse=True):
            inside = [part for part in parts if place.has(part[0])]
            total = tightest(_sum(spent for _, spent in inside), cap)
            parts = [*(part for part in parts if part not in inside), (place.path, total)]
        total = _sum(spent for _, spent in parts)
        total = None if total is None else plus(total)
        is_sum = total is not None and total == plus(*(getattr(one, unit) for one in self.stages))
        is_sum = is_sum and unit not in self.capped and not self.unenforced
        if is_sum and all(name in self.exact for name in _COUNTS):
            self.exact[unit] = None
        return total

    def _figure(self, figure: Figure, number: _Counted | None) -> _Counted | None:
        if number is None or number <= CEILING:
            return number
        self._is_bound_only(figure)
        why = f"it would be more than {CEILING:,}"
        self.unbounded[Unbounded(figure, "", why, "lower `limits.cycles`, or repeat fewer nodes")] = None
        return None

    def _is_bound_only(self, *figures: Figure) -> None:
        self.exact = {figure: None for figure in self.exact if figure not in figures}

    def nodes(
        self, nodes: Sequence[Node], prefix: str, entries: int, rounds: int, branch: str | None = None
    ) -> float | None:
        """The seconds of a pipeline or a branch that is entered so often. `rounds`: how often nothing
        of what happened in it before counts."""
        seconds: list[float | None] = []
        for node, visits in zip(nodes, self._visits(nodes, branch), strict=True):
            entered, path = min(entries * visits, CEILING + 1), f"{prefix}{node.path}"
            match node:
                case StageNode():
                    seconds.append(self._stage(node, path, branch, entered, rounds))
                case NestedNode():
                    inner, runs = node.plan.nodes, node.runs
                    seconds.append(self.nodes(inner, f"{path}.", entered * runs, rounds * runs))
                case ParallelNode():  # exhaustive
                    ways = [
                        self.nodes(each.stages, prefix, entered, rounds, each.provider)
                        for each in node.branches
                    ]
                    seconds.append(None if None in ways else max(filter(None, ways), default=0.0))
                    seconds += [self._hooks(path, point, entered) for point in _NODE_POINTS]
                    seconds += [self._hooks(path, point, entered * len(ways)) for point in BRANCH_POINTS]
        return _sum(seconds)

    # -- routes

    def _visits(self, nodes: Sequence[Node], branch: str | None) -> Iterable[int]:
        """How often each node is visited when the pipeline or branch is entered once."""
        positions = {node.id: number for number, node in enumerate(nodes)}
        backs: dict[tuple[int, int], int] = {}
        for number, node in enumerate(nodes):
            for route in self._routes(node, branch):
                to = positions.get(route.to, -1)
                if route.verdict == PASS and to != number + 1:
                    self._is_bound_only(*_COUNTS)
                if 0 <= to <= number and isinstance(node, StageNode):
                    cycles = cycle_limits(self.plan.pipeline, node).cycles or DEFAULT_CYCLES
                    backs[to, number] = cycles - 1
        followed, steps = [0] * len(nodes), [1, *[0] * len(nodes)]
        # Those that contain others come first: they begin earlier, or they begin there and end later.
        for (to, source), times in sorted(backs.items(), key=lambda back: (back[0][0], -back[0][1])):
            taken = min(times * (1 + sum(followed[source:])), CEILING + 1)
            followed[source] += taken
            steps[to] += taken
            steps[source + 1] -= taken
        return list(accumulate(steps))[:-1]

    def _routes(self, node: Node, branch: str | None) -> tuple[Route, ...]:
        """Those that its verdicts can lead along. What agents say of items is about the items only."""
        if not isinstance(node, StageNode):
            return ()
        if self._is_skipped(node, branch):
            return tuple(route for route in node.routes if route.verdict == PASS)
        is_over_items = isinstance(node.termination, Items)
        return tuple(r for r in node.routes if r.verdict in (PASS, FAIL) or not is_over_items)

    def _is_skipped(self, node: StageNode, branch: str | None) -> bool:
        return branch is None and node.id in self.skipped

    # -- a stage

    def _stage(
        self, node: StageNode, path: str, branch: str | None, entries: int, rounds: int
    ) -> float | None:
        if self._is_skipped(node, branch):
            return 0.0
        visits = min(entries * self._rounds(node, path), CEILING + 1)
        iterations = self._iterations(node, visits, rounds)
        turns, tries, stage_tries = _tries(node)
        if turns > 1:
            self._is_bound_only("attempts")
        most = StageWorst(
            node.id,
            path,
            branch,
            visits,
            iterations,
            attempts=iterations * turns * tries + (visits * stage_tries if iterations else 0),
            judgments=visits * self._judgments(node),
        )
        seconds, spends = self._seconds(node, most), {unit: self._spends(node, most, unit) for unit in UNITS}
        self.stages.append(replace(most, seconds=seconds, **spends))
        return seconds

    def _rounds(self, node: StageNode, path: str) -> int:
        """How often it is visited when a run comes to it: again after a rejection, or as a hook wants it."""
        approve = None if self.settings.approve else node.approve
        rounds = approve.rounds if approve and approve.feedback else 1
        hooks = (hook for point in _RESTARTING for hook in self.plan.hooks(point, path))
        if all(hook.action in _ASKING for hook in hooks):
            return rounds
        self._is_bound_only(*_COUNTS)
        return rounds + MAX_HOOK_RESTARTS

    def _iterations(self, node: StageNode, visits: int, rounds: int) -> int:
        most, repairs = node.termination.max, 0
        if isinstance(node.termination, Items):
            tries = MAX_TRIES if any("iteration" in check.at for check in node.checks) else 1
            # Feedback that names none of the items is one more.
            most, repairs = most * tries, (visits - rounds) * tries
        if repairs:
            self._is_bound_only(*_COUNTS)
        return (visits * (most + MAX_QUESTION_ROUNDS) if most else 0) + repairs

    def _judgments(self, node: StageNode) -> int:
        """In one visit. Iterations that ask aren't judged, but count for where judging begins."""
        if not isinstance(node.termination, Judgment) or self.settings.plateau_test:
            return 0
        most, first = node.termination.max, max(1, node.termination.judged_from)
        return MAX_JUDGE_CALLS * max(0, min(most, most + MAX_QUESTION_ROUNDS - first + 1))

    # -- spending

    def _spends(self, node: StageNode, most: StageWorst, unit: Unit) -> float | None:
        """What its attempts and judges may spend."""
        spenders = (*node.chain, *([self.plan.judge_of(node)] if most.judgments else []))
        free = ", ".join(dict.fromkeys(choice.type for choice in spenders if unit not in choice.bounds))
        figure, calls = node.per_attempt.of(unit), most.attempts + most.judgments
        caps = (place.caps.of(unit) for place in self.plan.caps if place.has(most.path))
        cap = min((cap for cap in caps if cap is not None), default=None)
        if not calls:
            return 0.0
        if cap is not None and (free if figure is None else figure > cap):
            self._is_bound_only(*_COUNTS)  # None of them may start.
        if free and figure is not None:
            self.unenforced[f"stage {node.id!r} with {free}"] = None
        spends = None if figure is None else plus(calls * figure)
        if cap is not None and (spends is None or spends > cap):
            self.capped.add(unit)
            return cap
        if spends is None:
            names = ", ".join(dict.fromkeys(choice.type for choice in spenders))
            fix = f"set `max_iteration_{unit}`" + ("" if free else f" or `limits.{unit}`")
            self.unbounded[Unbounded(unit, f"stage {node.id!r} with {names}", "no cap", fix)] = None
        return spends

    # -- time

    def _seconds(self, node: StageNode, most: StageWorst) -> float | None:
        visits, iterations, limit = most.visits, most.iterations, max_runtime(self.plan, node)
        policy, (turns, _, stage_tries) = node.retry or DEFAULT_POLICY, _tries(node)
        timeout = tightest(node.timeout, limit) if most.attempts else 0.0
        if timeout is None:
            self._without_limit(f"stage {node.id!r}", "set `timeout`, or `limits.runtime` of the pipeline")
        delay = DEFAULT_DELAY if node.delay is None else node.delay
        delay = delay if self.settings.delay is None else self.settings.delay
        retries = [backoff(policy, number).total_seconds() for number in range(1, policy.max_attempts)]
        longest = policy.max_delay if stage_tries and policy.initial_delay else 0.0
        ends = visits if isinstance(node.termination, Items) else iterations
        checks = {"need": visits, "start": visits, "iteration": iterations, "end": ends}
        queries = iterations + visits if isinstance(node.termination, Queue) else 0
        if limit is not None:
            self._is_bound_only(*_COUNTS)  # Attempts may have to be short for all of them.
        self.limit = None if self.limit is None or limit is None else max(self.limit, limit)
        judged = min(most.judgments, MAX_JUDGE_CALLS) * JUDGE_TIMEOUT
        self.late = max(self.late, max(delay, longest, *retries) + judged)
        self.unstopped = _sum([self.unstopped, queries * QUEUE_TIMEOUT])
        return _sum(
            [
                None if timeout is None else most.attempts * timeout,
                iterations * turns * sum(retries) + visits * stage_tries * longest,
                max(0, iterations - visits) * delay,
                *(
                    (sum(checks[when] for when in one.at) + visits * stage_tries) * _check_seconds([one])
                    for one in node.checks
                ),
                most.judgments * JUDGE_TIMEOUT,
                queries * QUEUE_TIMEOUT,
                *(self._hooks(most.path, point, visits) for point in _NODE_POINTS),
                *(self._hooks(most.path, point, iterations) for point in _ITERATION_POINTS),
            ]
        )

    def _without_limit(self, what: str, fix: str) -> None:
        self.unbounded[Unbounded("seconds", what, "no time limit", fix)] = None

    def _hooks(self, path: str, point: HookPoint, times: int) -> float | None:
        """The seconds of the calls of the hooks of a point."""
        each = _sum(self._hook(hook) for hook in self.plan.hooks(point, path))
        seconds = None if each is None else times * each
        self.unstopped = _sum([self.unstopped, seconds])
        return seconds

    def _hook(self, hook: Hook) -> float | None:
        if hook.action in _ASKING:
            return 0.0  # A person is waited for.
        if hook.seconds is None:
            self._without_limit(f"hook {hook.id!r}", "set `timeout`")
            return None
        return hook.max_tries * hook.seconds + sum(map(retry_delay, range(1, hook.max_tries)))


def _tries(node: StageNode) -> tuple[int, int, int]:
    """How many turns the providers of the chain have at an iteration, the attempts of a turn, and further
    attempts in a visit."""
    if node.semantics == "at_most_once":
        return 1, 1, 0
    policy, heal = node.retry or DEFAULT_POLICY, node.artifact.heal if node.artifact else 0
    tries = max(policy.max_attempts, 1 + heal) if policy.retried == "any" else policy.max_attempts + heal
    # The first one has another turn when all have failed, if it has recovered meanwhile.
    return len(node.chain) + 1 if node.fallbacks else 1, tries, policy.stage


def _check_seconds(checks: Iterable[Check]) -> float:
    """Of one outcome of each; one that saw changing files is repeated."""
    return sum(MAX_VOID_CHECKS * check_timeout(check) for check in checks if check.run)


def _sum(parts: Iterable[float | None]) -> float | None:
    """None if one of them is."""
    total: float = 0
    for each in parts:
        if each is None:
            return None
        total += each
    return total
