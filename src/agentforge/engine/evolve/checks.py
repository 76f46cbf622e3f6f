"""Applies events to checks, verdicts and routes."""

from collections.abc import Iterator
from typing import assert_never

from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.place import visits_key
from agentforge.model.request import Request
from agentforge.model.state import (
    MAX_CLUSTERS,
    OUTDATED,
    CheckCall,
    CheckRecord,
    Cluster,
    Failing,
    Restart,
    RunState,
    StageState,
    Transition,
    Verdict,
    position_of,
)
from agentforge.model.status import TaskStatus

CheckFact = f.CheckStarted | f.CheckCompleted | f.CheckEnding | f.CheckLost | f.StageJudged | f.StageRouted

ROUTE_REASONS = frozenset({"cycle_limit", "failure_cluster", "no_progress"})
"""Of the questions whether a run may go back once more."""


def evolve_checks(at: StageState, event: Event, fact: CheckFact) -> StageState:
    match fact:
        case f.CheckStarted(check=check, attempt=number, timeout=timeout):
            lost = at.check.lost if at.check and at.check.check == check else 0
            call = CheckCall(number, TaskStatus.RUNNING, event.at, lost, check=check, timeout=timeout)
            return replace(at, check=call)
        case f.CheckEnding():
            return replace(at, check=replace(at.check, status=TaskStatus.ENDING)) if at.check else at
        case f.CheckLost():
            return _lost(at)
        case f.CheckCompleted():
            others = (known for known in at.checks if known.check != fact.check)
            return replace(at, check=None, checks=(*others, _record(at, fact)))
        case f.StageJudged():
            return replace(at, verdict=Verdict(fact.verdict, fact.reason, fact.ended))
        case f.StageRouted():
            return replace(at, transition=Transition(fact.next, fact.feedback, fact.skipped))
        case _:
            assert_never(fact)


def _lost(at: StageState) -> StageState:
    """A check that was stopped on request doesn't count as lost."""
    if at.check is None:
        return at
    if at.check.status is TaskStatus.ENDING:
        return replace(at, check=replace(at.check, status=TaskStatus.CANCELLED))
    return replace(at, check=replace(at.check, status=TaskStatus.LOST, lost=at.check.lost + 1))


def _record(at: StageState, fact: f.CheckCompleted) -> CheckRecord:
    before = next((known for known in at.checks if known.check == fact.check), None)
    is_again = before is not None and before.iteration == at.completed
    return CheckRecord(
        fact.check,
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
    )


def judged(state: RunState, event: Event, fact: f.StageJudged) -> RunState:
    """Count a failing visit: by its signatures, and as one that changed nothing."""
    path = visits_key(event.cursor.node_path, event.cursor.provider) if event.cursor else ""
    if not fact.failing:
        return replace(state, failing={key: known for key, known in state.failing.items() if key != path})
    counts = {known.signature: known for known in state.clusters}
    for signature in fact.signatures:
        known = counts.pop(signature, Cluster(signature, path, 0))
        counts[signature] = replace(known, visits=known.visits + 1)
    clusters = tuple(counts.values())[-MAX_CLUSTERS:]
    before = state.failing.get(path)
    is_same = before is not None and (before.tree, before.signatures) == (fact.tree, fact.signatures)
    now = Failing(fact.tree or "", fact.signatures, before.visits + 1 if before and is_same else 1)
    # Without a tree, it is unknown whether anything changed.
    failing = {**state.failing, path: now} if fact.tree else state.failing
    return replace(state, clusters=clusters, failing=failing)


def routed(state: RunState, event: Event, fact: f.StageRouted) -> RunState:
    """Count a cycle; it resets the counters of the cycles inside it. Beyond the limit, it uses up one that a
    person granted."""
    if not fact.cycle or event.cursor is None or fact.next is None:
        return state
    source, provider = event.cursor.node_path, event.cursor.provider
    target, own = _level(fact.next.path, source), grant_key(source, provider)
    kept = {
        key: count
        for key, count in state.cycles.items()
        if key == own or not _is_inside(key, target, source, provider)
    }
    if fact.cycle > fact.of and (left := kept.pop(own, 0) - 1) > 0:
        kept[own] = left
    return replace(state, cycles={**kept, route_key(source, provider, target): fact.cycle - 1})


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
    place, _, target = key.removesuffix("+").partition(">")
    source, _, branch = place.partition("@")
    if provider is not None and branch != provider:
        return False
    pipeline = first.rpartition(".")[0]
    levels = [_level(path, first) for path in (source, target or source)]
    return all(
        level.rpartition(".")[0] == pipeline and position_of(first) <= position_of(level) <= position_of(last)
        for level in levels
    )


def answered(state: RunState, stage: StageState, request: Request, fact: f.RequestResolved) -> RunState:
    """The run may go back more often, or continues despite a verdict. The stage itself is returned by
    `answered_stage`."""
    if request.reason not in ROUTE_REASONS or fact.effect == "accepted":
        return state
    provider = request.at.provider if request.at else None
    key, prefix = grant_key(stage.path, provider), route_key(stage.path, provider, "")
    if fact.effect == "reset":
        cycles = {
            known: n for known, n in state.cycles.items() if not known.startswith(prefix) and known != key
        }
    else:
        cycles = {**state.cycles, key: state.cycles.get(key, 0) + (fact.granted or 1)}
    here = visits_key(stage.path, provider)
    failing = {path: known for path, known in state.failing.items() if path != here}
    return replace(state, cycles=cycles, failing=failing, clusters=())


def answered_stage(stage: StageState, request: Request, fact: f.RequestResolved) -> StageState:
    if fact.effect == "accepted" and stage.verdict is not None:
        return replace(stage, verdict=replace(stage.verdict, accepted_by=request.answered_by))
    if request.reason == "verdict":
        return replace(stage, restart=Restart(request.text or "asked for another visit", request.answered_by))
    return stage


def checks_on_resume(at: StageState) -> StageState:
    """Checks that failed or couldn't run are repeated: a person may have changed something."""
    verdict = at.verdict
    if verdict is not None and (at.transition or verdict.accepted_by or verdict.word == "pass"):
        return at
    check = replace(at.check, lost=0) if at.check else None
    void = tuple(replace(known, iteration=OUTDATED) for known in at.checks)
    return replace(at, verdict=None, checks=void, check=check)


def route_key(path: str, provider: str | None, to: str) -> str:
    """The counter of a route back to an earlier node."""
    return f"{visits_key(path, provider)}>{to}"


def grant_key(path: str, provider: str | None) -> str:
    """The counter of the cycles that a person granted to a stage, and that it hasn't used up."""
    return f"{visits_key(path, provider)}+"
