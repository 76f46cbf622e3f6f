"""Applies events to checks, verdicts and routes."""

from collections.abc import Callable, Iterator
from typing import assert_never

from msgspec.structs import replace

from agentforge.engine.evolve.task import evolve_call, with_call, without_call
from agentforge.model import facts as f
from agentforge.model.check import Baseline
from agentforge.model.event import Event
from agentforge.model.place import visits_key
from agentforge.model.request import Request
from agentforge.model.state import (
    MAX_CLUSTERS,
    OUTDATED,
    CheckRecord,
    Cluster,
    CycleCount,
    Failing,
    Restart,
    RunState,
    StageState,
    Transition,
    Verdict,
    position_of,
)

ROUTE_REASONS = frozenset({"cycle_limit", "failure_cluster", "no_progress"})
"""Of the questions whether a run may go back once more."""


# Counted are visits, not runs of checks. A check that runs again in the same visit, after a crash or a
# resume, has seen the same failure and not a second one; a count of runs would stop a stage that was only
# interrupted.
#
# The counters that limit cycles belong to a route, and going back over a route resets those of the routes
# inside of it: they start from zero with each pass, as loops within loops do. Without that, the limit of
# an inner route would be used up by the passes of an outer one. A new round of a pipeline resets those of
# its stages for the same reason.


def evolve_checks(at: StageState, event: Event, fact: f.CheckedStageFact) -> StageState:
    """What the fact means for its stage."""
    match fact:
        case f.CheckPrepared(files=files):
            return with_call(at, fact.KIND, files=files)
        case f.CheckCompleted():
            others = (known for known in at.checks if known.check != fact.about)
            return without_call(replace(at, checks=(*others, _record(at, fact))), fact.KIND)
        case f.StageVerdictReached():
            verdict = Verdict(
                fact.verdict,
                fact.reason,
                fact.ended,
                is_checked=bool(fact.failing) and not fact.items,
                items=fact.items,
                skipped_by=fact.skipped_by,
            )
            return replace(at, verdict=verdict, rolled_back=False)
        case f.StageTransitioned():
            return replace(at, transition=Transition(fact.next, fact.feedback, fact.skipped))
        case f.TaskFact():
            return evolve_call(at, event, fact)
        case _:
            assert_never(fact)


def _record(at: StageState, fact: f.CheckCompleted) -> CheckRecord:
    call, before = at.calls.get(fact.KIND), next((c for c in at.checks if c.check == fact.about), None)
    is_again = before is not None and before.iteration == at.completed
    return CheckRecord(
        fact.about,
        at.completed,
        fact.status,
        fact.reason,
        fact.counts,
        fact.signatures,
        fact.tree_after,
        fact.feedback,
        fact.changed,
        voids=(before.voids if before and is_again else 0) + 1 if fact.changed else 0,
        number=fact.attempt,
        timeout=call.timeout if call else None,
        problem=fact.problem,
        tests=fact.tests,
        repeated=_repeated(at, before, fact),
    )


def _repeated(at: StageState, before: CheckRecord | None, fact: f.CheckCompleted) -> int:
    if before is None or before.iteration == OUTDATED:
        return 0
    if before.iteration == at.completed:
        return before.repeated
    # Without a tree, it is unknown whether anything changed.
    is_same = before.fails and fact.tree_after is not None and before.tree == fact.tree_after
    return before.repeated + 1 if is_same and before.signatures == fact.signatures else 0


def apply_to_run(state: RunState, event: Event, fact: f.AnyCheckFact) -> RunState:
    """What the fact means for the run as a whole: its waivers, and how often it failed and went back."""
    match fact:
        case f.Waived(waiver=waiver):
            others = (known for known in state.waivers if known.what != waiver.what)
            return replace(state, waivers=(*others, waiver))
        case f.CheckCompleted(baseline=baseline, found=Baseline() as found):
            return replace(state, baselines={**state.baselines, baseline: found})
        case f.StageVerdictReached():
            return _verdict_reached(state, event, fact)
        case f.StageTransitioned():
            return _transitioned(state, event, fact)
        case _:
            return state


def _verdict_reached(state: RunState, event: Event, fact: f.StageVerdictReached) -> RunState:
    """Count a failing visit: by its signatures, and as one that changed nothing."""
    at = event.cursor
    path, run = (visits_key(at.node_path, at.provider), at.node_run) if at else ("", 0)
    if fact.tree is not None:
        state = replace(state, tree=fact.tree)
    if not fact.failing:
        return replace(state, failing={key: known for key, known in state.failing.items() if key != path})
    counts = {known.signature: known for known in state.clusters}
    for signature in fact.signatures:
        known = counts.pop(signature, Cluster(signature, path, 0, ("", 0)))
        visits = known.visits + (known.latest != (path, run))
        counts[signature] = replace(known, visits=visits, latest=(path, run))
    clusters = tuple(counts.values())[-MAX_CLUSTERS:]
    failing, tree = state.failing, fact.tree
    if tree:  # Without a tree, it is unknown whether anything changed.
        now, before = Failing(tree, tuple(sorted(fact.signatures)), 1, run), failing.get(path)
        if before is not None and (before.tree, before.signatures) == (now.tree, now.signatures):
            now = replace(now, visits=before.visits + (before.run != run))
        failing = {**failing, path: now}
    return replace(state, clusters=clusters, failing=failing)


def new_round(state: RunState, path: str, rounds: tuple[int, ...]) -> RunState:
    """A pipeline starts to count again in each of its rounds."""
    before = (*state.rounds, *(0 for _ in rounds))
    depth = next((n for n, round in enumerate(rounds) if round != before[n]), None)
    if depth is None:
        return state
    pipeline = "".join(f"{name}." for name in path.split(".")[:depth])
    left = _without(state, lambda place: place.startswith(pipeline))
    kept = {key: items for key, items in left.items.items() if not key.startswith(pipeline)}
    return replace(left, items=kept)


def _without(state: RunState, is_dropped: Callable[[str], bool]) -> RunState:
    """Without the counters of some stages, by the keys of their visits."""
    cycles = {key: count for key, count in state.cycles.items() if not is_dropped(key.partition(">")[0])}
    failing = {key: known for key, known in state.failing.items() if not is_dropped(key)}
    clusters = tuple(known for known in state.clusters if not is_dropped(known.latest[0]))
    return replace(state, cycles=cycles, failing=failing, clusters=clusters)


def _transitioned(state: RunState, event: Event, fact: f.StageTransitioned) -> RunState:
    """Count a cycle; it resets the counters of the cycles inside it."""
    if not fact.cycle or event.cursor is None or fact.next is None:
        return state
    source, provider = event.cursor.node_path, event.cursor.provider
    target = _level(fact.next.path, source)
    outside = {
        key: count for key, count in state.cycles.items() if not _is_inside(key, target, source, provider)
    }
    count = CycleCount(fact.cycle - 1, fact.of)
    return replace(state, cycles={**outside, route_key(source, provider, target): count})


def passed_over(source: str, transition: Transition) -> Iterator[str]:
    """The paths of the nodes that a route skips: those that follow the stage."""
    pipeline, dot, _ = source.rpartition(".")
    first = position_of(source) + 1
    return (f"{pipeline}{dot}{number}" for number in range(first, first + len(transition.skipped)))


def _level(path: str, other: str) -> str:
    """The path of the node beside `other` that contains `path`."""
    return ".".join(path.split(".")[: other.count(".") + 1])


def _is_inside(key: str, first: str, last: str, provider: str | None) -> bool:
    """Whether a counter belongs to a route that lies between two nodes of one pipeline or branch."""
    place, _, target = key.partition(">")
    source, _, branch = place.partition("@")
    if provider is not None and branch != provider:
        return False
    pipeline = first.rpartition(".")[0]
    levels = [_level(path, first) for path in (source, target)]
    return all(
        level.rpartition(".")[0] == pipeline and position_of(first) <= position_of(level) <= position_of(last)
        for level in levels
    )


def answered(state: RunState, stage: StageState, request: Request, fact: f.RequestResolved) -> RunState:
    """The failures of the stage are counted from here, and its cycles if the answer resets them. What it
    means for the visit itself: `answered_stage`."""
    here = visits_key(stage.path, request.at.provider if request.at else None)
    fresh = _without(state, lambda place: place == here)
    return fresh if fact.effect == "reset" else replace(fresh, cycles=state.cycles)


def answered_stage(stage: StageState, request: Request, fact: f.RequestResolved) -> StageState:
    if fact.effect == "accepted" and stage.verdict is not None:
        by, why = request.answered_by, request.text
        return replace(stage, verdict=replace(stage.verdict, accepted_by=by, accept_reason=why))
    if fact.effect == "reset":
        stage = checks_on_resume(stage)
    elif request.reason == "verdict":
        return replace(stage, restart=Restart(request.text or "asked for another visit", request.answered_by))
    return stage if request.reason == "verdict" else replace(stage, granted=int(fact.granted) or 1)


def checks_on_resume(at: StageState) -> StageState:
    """Checks that failed or couldn't run are repeated: a person may have changed something."""
    verdict = at.verdict
    if verdict is not None and (at.transition or verdict.accepted_by or verdict.word == "pass"):
        return at
    void = tuple(replace(known, iteration=OUTDATED) for known in at.checks)
    # The agent's own conclusion stays as it is.
    kept = None if verdict is None or verdict.is_checked else replace(verdict, resumed=True)
    return with_call(replace(at, verdict=kept, checks=void), "check", lost=0)


def route_key(path: str, provider: str | None, to: str) -> str:
    """The counter of a route back to an earlier node."""
    return f"{visits_key(path, provider)}>{to}"
