"""Gates that run checks, and what a stage concludes from them.

A check is a program that verifies the work of a stage. What it finds outranks what the agent says.
"""

from agentforge.engine.decide.requests import Question, Ruling
from agentforge.engine.decide.stage_at import StageAt, check_timeout, runtime_used_up, tightest
from agentforge.engine.decide.termination import iterations_left
from agentforge.model import facts as f
from agentforge.model.check import Check, CheckTime
from agentforge.model.failure import Failure, FailureKind
from agentforge.model.state import OUTDATED, CheckRecord, StageState, Verdict

MAX_VOID_CHECKS = 3
"""How often a check runs if the files change meanwhile."""
PASS, FAIL, REJECT = "pass", "fail", "reject"


def run_checks(here: StageAt, when: CheckTime) -> Ruling | None:
    """The next step with the checks of that time, or None if each has an outcome."""
    for check in here.node.checks:
        if check.at == when and not here.is_waived(check.name):
            ruling = _run(here, check)
            if ruling is not None:
                return ruling
    return None


def _run(here: StageAt, check: Check) -> Ruling | None:
    call, known = here.at.calls.get("check"), here.outcome_of(check)
    if call is not None and call.about == check.name:
        if call.is_given_up:
            return _lost(here, check, call.lost)
        return _start(here, check, call.number + 1)
    if known is None:
        before = next((each for each in here.at.checks if each.check == check.name), None)
        return _start(
            here,
            check,
            before.number + 1 if before and before.iteration in (OUTDATED, here.at.completed) else 1,
        )
    if known.changed and known.voids < MAX_VOID_CHECKS:
        return _start(here, check, known.number + 1)
    if known.changed:
        paths = ", ".join(known.changed[:5])
        return _error(check, f"files changed each time it ran: {paths}")
    return _error(check, known.reason) if known.status == "error" else None


def _start(here: StageAt, check: Check, number: int) -> Ruling:
    timeout = tightest(check_timeout(check), here.remaining)
    return runtime_used_up(here) or here.record(f.CheckStarted(check.name, number, timeout))


def _lost(here: StageAt, check: Check, lost: int) -> Ruling:
    text = (
        f"check {check.name!r} of stage {here.node.id!r} was lost {lost} times in a row,"
        " because the engine or the machine died. Retry?"
    )
    return Ruling(question=Question("check_lost", text, subject=check.name))


def _error(check: Check, reason: str) -> Ruling:
    return Ruling(failure=Failure(FailureKind.CHECK_ERROR, f"check {check.name!r}: {reason}"))


# -- the verdict


def verdict_of(here: StageAt) -> Verdict:
    """Checks come first, then what the agent concluded; otherwise the work passes."""
    if failed := here.failing:
        return Verdict(FAIL, "; ".join(f"check {each.check!r}: {each.reason}" for each in failed))
    return here.at.claim or Verdict(PASS)


def is_sent_back(here: StageAt) -> bool:
    """Whether the stage continues, although it was over: its work fails, and it has iterations left."""
    return verdict_of(here).word == FAIL and iterations_left(here.node.termination, here.at)


def checked_before(here: StageAt) -> Ruling | None:
    """A stage whose checks fail before its first iteration is over: no agent runs."""
    if here.at.completed or not here.node.checks:
        return None
    if ruling := run_checks(here, "start"):
        return ruling
    return concluded(here, "checks failed before the first iteration") if here.failing else None


def concluded(here: StageAt, ended: str) -> Ruling | None:
    """Record the verdict of a stage that is over; None if that is done, or if nothing depends on it."""
    verdict = verdict_of(here)
    has_verdict = here.node.checks or here.node.routes or here.node.verdicts or here.at.claim
    if here.at.verdict is not None or not has_verdict:
        return None
    failed = here.failing
    return here.record(
        f.StageVerdictReached(
            verdict.word,
            verdict.reason,
            ended,
            failing=tuple(each.check for each in failed),
            waived=here.waived,
            signatures=tuple(f"{each.check}: {text}" for each in failed for text in each.signatures),
            tree=_tree(here),
        )
    )


def _tree(here: StageAt) -> str | None:
    """The files that all checks of the work saw; None if there are no such files. A check before the first
    iteration saw the work only if the agent changed nothing."""
    seen = {each.tree for each in here.at.checks if _saw_the_work(each, here.at)}
    return seen.pop() if len(seen) == 1 else None


def _saw_the_work(check: CheckRecord, at: StageState) -> bool:
    if check.iteration == OUTDATED:
        return False
    return check.iteration == at.completed or (at.tree is not None and check.tree == at.tree)
