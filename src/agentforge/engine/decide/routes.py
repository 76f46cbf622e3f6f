"""Where a run goes after a stage: onward, or where a route leads from its verdict.

Going back to an earlier node is a cycle. Cycles are limited; at the limit, a person decides.
"""

from agentforge.engine.decide.checks import FAIL, PASS
from agentforge.engine.decide.requests import Question, Ruling
from agentforge.engine.decide.routing import entry, siblings
from agentforge.engine.decide.stage_at import StageAt
from agentforge.engine.evolve.checks import grant_key, route_key
from agentforge.model import facts as f
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.layout import iteration_dir
from agentforge.model.place import visits_key
from agentforge.model.plan import CycleLimits, PipelineInfo, Route, StageNode
from agentforge.model.request import ACCEPT, CANCEL, RESUME, RETRY, Feedback
from agentforge.model.state import Verdict

DEFAULT_CYCLES, DEFAULT_NO_PROGRESS, DEFAULT_CLUSTER = 3, 2, 3
MAX_CYCLES = 10
GRANT = (RETRY, ACCEPT, RESUME, CANCEL)


def follow_verdict(here: StageAt) -> Ruling | None:
    """What the recorded verdict leads to; None if the run continues with the next node."""
    verdict = here.at.verdict
    if verdict is None or here.at.transition is not None:
        return None
    word = PASS if verdict.accepted_by else verdict.word
    route = here.node.route(word)
    if route is None:
        return None if word == PASS else _failed(verdict)
    match route.action:
        case "go":
            return _go(here, verdict, route)
        case "ask":
            return Ruling(question=_ask(here, verdict))
        case "fail":
            return _failed(verdict)
        case "end":  # exhaustive
            return here.record(_end(here, verdict))


def _end(here: StageAt, verdict: Verdict) -> f.StageRouted:
    order = siblings(here.plan, here.place.path, here.place.branch)
    skipped = tuple(order[order.index(here.node.id) + 1 :])
    return f.StageRouted(here.node.id, "", verdict.word, verdict.reason, skipped=skipped)


def _failed(verdict: Verdict) -> Ruling:
    kind = FailureKind.CHECKS_FAILED if verdict.word == FAIL else FailureKind.REJECTED
    return Ruling(failure=Failure(kind, verdict.reason or f"the verdict is {verdict.word!r}"))


def _ask(here: StageAt, verdict: Verdict) -> Question:
    why = f": {verdict.reason}" if verdict.reason else ""
    text = (
        f"stage {here.node.id!r} ended with {verdict.word!r}{why}. Accept the result ({ACCEPT}),"
        f" run the stage again ({RETRY}), or cancel the run ({CANCEL})?"
    )
    return Question("verdict", text, (ACCEPT, RETRY, CANCEL), at=here.place.cursor(here.at.completed))


def _go(here: StageAt, verdict: Verdict, route: Route) -> Ruling:
    place = here.place
    order = siblings(here.plan, place.path, place.branch)
    source, target = order.index(here.node.id), order.index(route.to)
    path, to = entry(here.plan, place, target, here.state.rounds)
    if target > source:
        skipped = tuple(order[source + 1 : target])
        routed = f.StageRouted(here.node.id, route.to, verdict.word, verdict.reason, skipped=skipped, next=to)
        return here.record(routed)
    key = route_key(place.path, place.branch, path)
    cycle, limit = here.state.cycles.get(key, 0) + 2, limits_of(here).cycles or DEFAULT_CYCLES
    if question := _exhausted(here, verdict, cycle, limit):
        return Ruling(question=question)
    return here.record(
        f.StageRouted(
            here.node.id,
            route.to,
            verdict.word,
            verdict.reason,
            cycle=cycle,
            of=limit,
            next=to,
            feedback=_feedback(here, verdict),
        )
    )


def _exhausted(here: StageAt, verdict: Verdict, cycle: int, limit: int) -> Question | None:
    """Why a person is asked instead of going back. The cycle limit is reported first, then a failure that
    keeps coming back, then a stage that makes no progress."""
    limits, at = limits_of(here), here.place.cursor(here.at.completed)
    if cycle > limit and not here.state.cycles.get(grant_key(here.place.path, here.place.branch)):
        allowed = max(limit, cycle - 1)
        text = f"stage {here.node.id!r} was not passed in {cycle - 1} of {allowed} cycles"
        return Question("cycle_limit", _question(text, verdict), GRANT, at=at, grants="cycles")
    found = {signature for each in here.failing for signature in each.signatures}
    known_here = (cluster for cluster in here.state.clusters if cluster.signature in found)
    most = max(known_here, key=lambda cluster: cluster.visits, default=None)
    if most is not None and most.visits >= (limits.cluster or DEFAULT_CLUSTER):
        text = f"the same failure has ended {most.visits} visits: {most.signature}"
        return Question("failure_cluster", _question(text, verdict), GRANT, at=at, grants="cycles")
    known = here.state.failing.get(visits_key(here.place.path, here.place.branch))
    if known is not None and known.visits >= (limits.no_progress or DEFAULT_NO_PROGRESS):
        text = f"stage {here.node.id!r} failed {known.visits} times in the same way, on the same files"
        return Question("no_progress", _question(text, verdict), GRANT, at=at, grants="cycles")
    return None


def _question(text: str, verdict: Verdict) -> str:
    why = f" The verdict is {verdict.word!r}: {verdict.reason}." if verdict.reason else ""
    return f"{text}.{why} Go back once more ({RETRY}), accept the result ({ACCEPT}), or cancel ({CANCEL})?"


def _feedback(here: StageAt, verdict: Verdict) -> Feedback:
    folder = iteration_dir(here.place.folder, here.at.completed)
    files = (f"{folder}/output.md", f"{folder}/result.json") if here.at.completed else ()
    told = [verdict.reason or f"The verdict is {verdict.word!r}."]
    told += [f"Check {each.check!r}:\n{each.feedback}" for each in here.failing if each.feedback]
    return Feedback("\n\n".join(told), f"stage {here.node.id}", files)


def limits_of(here: StageAt) -> CycleLimits:
    return cycle_limits(here.plan.pipeline, here.node)


def cycle_limits(pipeline: PipelineInfo, stage: StageNode) -> CycleLimits:
    """Those of the stage, each by default that of the run's pipeline."""
    own, outer = stage.limits or CycleLimits(), pipeline.limits or CycleLimits()
    return CycleLimits(
        own.cycles if own.cycles is not None else outer.cycles,
        own.no_progress if own.no_progress is not None else outer.no_progress,
        own.cluster if own.cluster is not None else outer.cluster,
    )
