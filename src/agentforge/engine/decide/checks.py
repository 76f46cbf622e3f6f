"""Gates that run checks, what a stage concludes from them, and where a run goes from that verdict.

A check is a program that verifies the work of a stage. What it finds outranks what the agent says. A verdict
leads onward, or along a route. Going back to an earlier node is a cycle: cycles are limited, and at the limit
a person decides.
"""

# Theory of operation
#
# The verdict is recorded before anything follows from it (`concluded`), so a crash, a resume or another plan
# can't conclude something else from the same work, and no check runs again in a stage that is over. A person
# may accept it; it stays in the log as it was.
#
# An outcome counts for the files that it saw: for the iterations that were complete then, and only if no file
# changed while the check ran. One about the files of another moment would send an agent after a failure that
# these files don't have.
#
# Going back is limited per route, which bounds the cost. Two signs stop it earlier: the same failure in many
# visits, and visits that change neither failures nor files.

from msgspec.structs import replace

from agentforge.engine.checks.feedback import failing_text
from agentforge.engine.decide.failure import stage_retried
from agentforge.engine.decide.files import restored
from agentforge.engine.decide.items import verdict_of_items
from agentforge.engine.decide.requests import Question, Ruling
from agentforge.engine.decide.stage_at import StageAt, check_timeout, runtime_used_up, tightest
from agentforge.engine.decide.termination import iterations_left
from agentforge.engine.evolve.checks import route_key
from agentforge.engine.nodes import entry, next_node, siblings
from agentforge.model import facts as f
from agentforge.model.check import Check, CheckTime
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.place import visits_key
from agentforge.model.plan import FAIL, PASS, REJECT, Fixed, Items, Limits, PipelineInfo, Route, StageNode
from agentforge.model.request import ACCEPT, CANCEL, RESUME, RETRY, Feedback
from agentforge.model.state import OUTDATED, CheckRecord, StageState, Verdict
from agentforge.model.status import NodeStatus

NOT_NEEDED = "not needed"
"""Why a stage is over whose checks passed before any agent ran."""
MAX_VOID_CHECKS = 3
"""How often a check runs if the files change meanwhile."""


def run_checks(here: StageAt, when: CheckTime) -> Ruling | None:
    """The next step with the checks of that time, or None if each has an outcome."""
    for check in here.node.checks:
        if when in check.at and here.is_used(check):
            ruling = _run(here, check)
            if ruling is not None:
                return ruling
    return None


def baselines(here: StageAt) -> Ruling | None:
    """What later outcomes are compared with; recorded before the work that they are about: of all checks of
    the run before its first agent, and the files before the first iteration of a visit."""
    if not here.state.has_worked:
        for key, (_, check) in here.plan.baselines.items():
            is_over = key in here.state.baselines or here.is_waived(check.name)
            if check.regressions and not is_over and here.is_compared(key):
                return Ruling() if _waits_for_another(here) else _run(here, check, key)
    scoped = here.node.scoped
    if here.at.completed or scoped is None or here.is_waived(scoped.name):
        return None
    return _run(here, scoped, scoped.baseline)


def _waits_for_another(here: StageAt) -> bool:
    """Whether another branch of the block runs the checks: they are about the same files."""
    branches = here.state.block.branches if here.state.block else ()
    running = [branch for branch in branches if branch.status is NodeStatus.RUNNING]
    calls = [(branch, branch.stage.calls.get("check")) for branch in running if branch.stage]
    busy = [branch for branch, call in calls if call and call.about in here.plan.baselines]
    return bool(running) and (busy or running)[0].provider != here.place.branch


def _run(here: StageAt, check: Check, baseline: str = "") -> Ruling | None:
    about = baseline or check.name
    call, known = here.at.calls.get("check"), here.outcome_of(check, about)
    if call is not None and call.about == about:
        if call.is_given_up:
            text = (
                f"check {check.name!r} of stage {here.node.id!r} was lost {call.lost} times in a row,"
                " because the engine or the machine died. Retry?"
            )
            return Ruling(question=Question("check_lost", text, subject=check.name))
        return _start(here, check, call.number + 1, baseline)
    if known is None:
        before = here.known(about)
        is_again = before is not None and before.iteration in (OUTDATED, here.at.completed)
        return _start(here, check, before.number + 1 if before and is_again else 1, baseline)
    if known.changed and known.voids < MAX_VOID_CHECKS:
        return _start(here, check, known.number + 1)
    if known.changed:
        paths = ", ".join(known.changed[:5])
        return _error(here, known, f"files changed each time it ran: {paths}")
    return _error(here, known, known.reason) if known.status == "error" else None


def _start(here: StageAt, check: Check, number: int, baseline: str = "") -> Ruling:
    timeout = tightest(check_timeout(check), here.remaining)
    before = runtime_used_up(here) or restored(here, f"{baseline or check.name} {number}")
    return before or here.record(f.CheckStarted(check.name, number, timeout, baseline))


def _error(here: StageAt, known: CheckRecord, reason: str) -> Ruling:
    """A check without a result: the stage fails, unless what disturbed the check may be over."""
    failure = Failure(FailureKind.CHECK_ERROR, f"check {known.name!r}: {reason}")
    disturbed = known.changed or known.problem == "terminated"
    again = stage_retried(here.node, here.at, failure, here.state.updated_at) if disturbed else None
    return here.record(again) if again else Ruling(failure=failure)


# -- the verdict


def verdict_of(here: StageAt) -> Verdict:
    """Checks come first, then failed items or what the agent concluded; otherwise the work passes."""
    items = verdict_of_items(here)
    if failed := here.failing:
        reasons = [f"check {each.check!r}: {each.reason}" for each in failed]
        named = items or Verdict(FAIL)
        return replace(named, reason="; ".join([*reasons, *filter(None, [named.reason])]))
    if isinstance(here.node.termination, Items):
        # What an agent concluded is about its item.
        return items or Verdict(PASS)
    return here.at.claim or Verdict(PASS)


def is_sent_back(here: StageAt) -> bool:
    """Whether the stage continues, although it was over: its work fails, it has iterations left, and the
    latest ones made progress."""
    is_left = iterations_left(here.node.termination, here.at) and not stalled(here)
    return verdict_of(here).word == FAIL and is_left


def is_repeated(node: StageNode) -> bool:
    """Whether its iterations are repeated until it passes."""
    return isinstance(node.termination, Fixed) and node.termination.until_pass


def stalled(here: StageAt) -> int:
    """After how many iterations a stage that repeats work until it passes ends for want of progress: the same
    failures on the same files. 0: it makes progress."""
    limits = cycle_limits(here.plan.pipeline, here.node)
    if not is_repeated(here.node):
        return 0
    most = max((1 + known.repeated for known in here.failing), default=0)
    return most if most >= (limits.no_progress or DEFAULT_NO_PROGRESS) else 0


def checked_before(here: StageAt) -> Ruling | None:
    """A stage whose checks at `start` fail before its first iteration is over, and so is one whose checks at
    `need` pass: no agent runs."""
    if here.at.completed or not here.node.checks:
        return None
    if ruling := run_checks(here, "start"):
        return ruling
    if _failing_at(here, "start"):
        return concluded(here, "checks failed before the first iteration")
    if ruling := run_checks(here, "need"):
        return ruling
    asked = [check.name for check in here.node.checks if "need" in check.at and here.is_used(check)]
    # A stage or person that sent the work back has found what the checks do not.
    if not asked or _failing_at(here, "need") or here.at.feedback:
        return None
    passed = f"check{'' if len(asked) == 1 else 's'} {', '.join(map(repr, asked))} passed before any work"
    return concluded(here, NOT_NEEDED, Verdict(PASS, passed))


def _failing_at(here: StageAt, when: CheckTime) -> list[CheckRecord]:
    names = {check.name for check in here.node.checks if when in check.at}
    return [each for each in here.failing if each.check in names]


def concluded(here: StageAt, ended: str, verdict: Verdict | None = None) -> Ruling | None:
    """Record the verdict of a stage that is over; None if that is done, or if nothing depends on it."""
    verdict = verdict or verdict_of(here)
    has_verdict = here.node.expects_verdict or here.at.claim
    if here.at.verdict is not None or not has_verdict:
        return None
    if iterations_left(here.node.termination, here.at) and (most := stalled(here)):
        ended = f"No progress: the same failures on the same files after {most} iterations"
    failed = here.failing
    records = (each for each in here.at.checks if here.node.check(each.check))
    seen = {each.tree for each in records if _saw_the_work(each, here.at)}
    return here.record(
        f.StageVerdictReached(
            verdict.word,
            verdict.reason,
            ended,
            failing=tuple(each.check for each in failed),
            waived=here.waived,
            signatures=tuple(f"{each.check}: {text}" for each in failed for text in each.signatures),
            tree=seen.pop() if len(seen) == 1 else None,
            items=verdict.items,
        )
    )


def _saw_the_work(check: CheckRecord, at: StageState) -> bool:
    """A check before the first iteration saw the work only if the agent changed nothing."""
    if check.iteration == OUTDATED:
        return False
    return check.iteration == at.completed or (at.tree is not None and check.tree == at.tree)


# -- routes


DEFAULT_CYCLES, DEFAULT_NO_PROGRESS, DEFAULT_CLUSTER = 3, 2, 3
MAX_NAMED = 5
"""Failures that a question names."""
GRANT = (RETRY, ACCEPT, RESUME, CANCEL)


def leads_onward(here: StageAt, verdict: Verdict) -> bool:
    """Whether the run continues with the result, so that a person may have to approve it: after `pass`, and
    after a word of the stage's own that leads to a later node or to the end."""
    route = here.node.route(verdict.word)
    if verdict.word in (PASS, FAIL, REJECT) or verdict.accepted_by or route is None:
        return verdict.word == PASS
    order = siblings(here.plan, here.place.path, here.place.branch)
    is_later = route.action == "go" and order.index(route.to) > order.index(here.node.id)
    return is_later or route.action == "end"


def follow_verdict(here: StageAt) -> Ruling | None:
    """What the recorded verdict leads to; None if the run continues with the next node."""
    verdict = here.at.verdict
    if verdict is None or here.at.transition is not None:
        return None
    word = PASS if verdict.accepted_by else verdict.word
    route = here.node.route(word)
    if route is None:
        return None if word == PASS else _failed(here, verdict)
    match route.action:
        case "go":
            return _go(here, verdict, route)
        case "ask":
            checks, again = (" run the checks again,", (RESUME,)) if here.failing else ("", ())
            text = f"stage {here.node.id!r} ended with {verdict.word!r}{_without(here)}{_why(verdict)}."
            text += f" {verdict.ended}." if is_repeated(here.node) and verdict.ended else ""
            text += f" Accept the result, run the stage again,{checks} or cancel the run?"
            options = (ACCEPT, RETRY, *again, CANCEL)
            return Ruling(question=Question("verdict", text, options))
        case "fail":
            return _failed(here, verdict)
        case "end":  # exhaustive
            return _end(here, verdict)


def _failed(here: StageAt, verdict: Verdict) -> Ruling:
    """The run fails. If a person resumes it nevertheless, the agent gets another visit: it would conclude the
    same from the same work."""
    if verdict.resumed:
        feedback = verdict_feedback(here, verdict)
        return here.visit_again("requested", verdict.reason, by="person", feedback=feedback)
    kind = FailureKind.CHECKS_FAILED if verdict.is_checked else FailureKind.REJECTED
    return Ruling(failure=Failure(kind, verdict.reason or f"the verdict is {verdict.word!r}"))


def _without(here: StageAt) -> str:
    return f" (waived: {', '.join(here.waived)})" if here.waived else ""


def _end(here: StageAt, verdict: Verdict) -> Ruling:
    """The pipeline ends, or the branch: with a nested one, the run continues after it."""
    place, order = here.place, siblings(here.plan, here.place.path, here.place.branch)
    skipped = tuple(order[order.index(here.node.id) + 1 :])
    outer = place.path.rpartition(".")[0] if place.branch is None else ""
    to = next_node(here.plan, outer, here.state.rounds[:-1]) if outer else None
    return here.record(
        f.StageTransitioned(here.node.id, "", verdict.word, verdict.reason, skipped=skipped, next=to)
    )


def _go(here: StageAt, verdict: Verdict, route: Route) -> Ruling | None:
    place = here.place
    order = siblings(here.plan, place.path, place.branch)
    source, target = order.index(here.node.id), order.index(route.to)
    path, to = entry(here.plan, place, target, here.state.rounds)
    if target > source:
        skipped = tuple(order[source + 1 : target])
        routed = f.StageTransitioned(
            here.node.id, route.to, verdict.word, verdict.reason, skipped=skipped, next=to
        )
        return here.record(routed)
    if verdict.accepted_by:
        return None  # An accepted result continues with the next node.
    known = here.state.cycles.get(route_key(place.path, place.branch, path))
    cycle = known.taken + 2 if known else 2
    limits = cycle_limits(here.plan.pipeline, here.node)
    limit = max(limits.cycles or DEFAULT_CYCLES, known.limit if known else 0)
    if here.at.granted:
        limit = max(limit, cycle - 1 + here.at.granted)
    elif question := _exhausted(here, verdict, cycle, limit):
        return Ruling(question=question)
    return here.record(
        f.StageTransitioned(
            here.node.id,
            route.to,
            verdict.word,
            verdict.reason,
            cycle=cycle,
            of=limit,
            next=to,
            feedback=verdict_feedback(here, verdict),
        )
    )


def _exhausted(here: StageAt, verdict: Verdict, cycle: int, limit: int) -> Question | None:
    """Why a person is asked instead of going back. The cycle limit is reported first, then a failure that
    keeps coming back, then a stage that makes no progress."""
    limits = cycle_limits(here.plan.pipeline, here.node)
    place = visits_key(here.place.path, here.place.branch)
    if cycle > limit:
        text = f"stage {here.node.id!r} did not pass in cycle {limit} of {limit}"
        return _question(here, verdict, "cycle_limit", text)
    clusters = (known for known in here.state.clusters if known.latest == (place, here.at.run))
    most = max(clusters, key=lambda cluster: cluster.visits, default=None)
    if most is not None and most.visits >= (limits.cluster or DEFAULT_CLUSTER):
        text = f"the same failure ended {most.visits} visits: {most.signature}"
        return _question(here, verdict, "failure_cluster", text)
    known = here.state.failing.get(place)
    if known is not None and known.visits >= (limits.no_progress or DEFAULT_NO_PROGRESS):
        failures = "; ".join(known.signatures[:MAX_NAMED])
        more = f" and {len(known.signatures) - MAX_NAMED} more" if len(known.signatures) > MAX_NAMED else ""
        text = (
            f"stage {here.node.id!r} failed {known.visits} times in a row with the same failures"
            f" and no changed files: {failures}{more}"
        )
        return _question(here, verdict, "no_progress", text)
    return None


def _question(here: StageAt, verdict: Verdict, reason: str, text: str) -> Question:
    text = f"{text}. The verdict is {verdict.word!r}{_without(here)}{_why(verdict)}."
    text += " Go back once more, accept the result, or cancel the run?"
    return Question(reason, text, GRANT, grants="cycles")


def _why(verdict: Verdict) -> str:
    return f": {verdict.reason}" if verdict.reason else ""


def verdict_feedback(here: StageAt, verdict: Verdict, said: str = "") -> Feedback:
    """What the next visit is told. `said`: by the person who decided on it."""
    told = failing_text(here.failing, verdict.reason or f"The verdict is {verdict.word!r}.")
    before = here.at.feedback
    secrets: tuple[str, ...] = ()
    if before is not None and any(here.items[id].repair for id in verdict.items if id in here.items):
        # The next visit has another repair instead, which must be about the same.
        told, secrets = f"{before.text}\n\n{told}", before.secrets
    text = "\n\n".join(filter(None, (said, here.restored, told)))
    return Feedback(text, f"stage {here.node.id}", here.files, verdict.items, secrets)


def cycle_limits(pipeline: PipelineInfo, stage: StageNode) -> Limits:
    """Those of the stage, each by default that of the run's pipeline."""
    own, outer = stage.limits or Limits(), pipeline.limits or Limits()
    return Limits(
        own.cycles if own.cycles is not None else outer.cycles,
        own.no_progress if own.no_progress is not None else outer.no_progress,
        own.cluster if own.cluster is not None else outer.cluster,
    )
