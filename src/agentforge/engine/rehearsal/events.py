"""What of a run's events is its course. Waits, timers and what is only about the log are left out."""

from agentforge.engine.node_identity import NodeKey
from agentforge.engine.rehearsal.course import CourseStep, CourseStepKind
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.task import CheckTask, HookTask, TaskKind, Wait, Work

_TASKS: dict[TaskKind, CourseStepKind] = {
    "prepare": "iteration",
    "agent": "attempt",
    "judge": "judge",
    "queue": "queue",
    "manifest": "manifest",
    "hook": "hook",
    "check": "check",
}


def step_of_fact(fact: f.AnyFact, place: NodeKey | None, cursor: Cursor | None) -> CourseStep | None:
    """The course step of a fact, or None."""
    found = _in_node(fact) or _in_iteration(fact) or _of_hook(fact) or _of_check(fact) or _of_run(fact)
    if found is None:
        return None
    what, attempt, detail = found
    iteration = cursor.iteration if cursor and what not in _WITHOUT_ITERATION else 0
    if isinstance(fact, f.NodeCompleted | f.StageCompleted):
        iteration = fact.iterations
    return CourseStep(what, *_where(place, cursor), iteration, attempt, detail)


def step_of_work(work: Work, place: NodeKey | None) -> CourseStep | None:
    """The course step that running this work leads to, or None."""
    if isinstance(work, Wait):
        return None
    detail = work.hook.id if isinstance(work, HookTask) else ""
    detail = work.check.name if isinstance(work, CheckTask) else detail
    return CourseStep(_TASKS[work.KIND], *_where(place, work.cursor), work.iteration, work.attempt, detail)


_WITHOUT_ITERATION = frozenset(
    {
        "node_entered",
        "branch_begun",
        "branch_over",
        "manifest",
        "stop_requested",
        "restart_requested",
        "check_waived",
        "resumed",
    }
)

_Found = tuple[CourseStepKind, int, str] | None


def _in_node(fact: f.AnyFact) -> _Found:
    match fact:
        case f.NodeStarted(kind="parallel", providers=providers):
            return "node_entered", 0, ", ".join(providers)
        case f.NodeStarted():
            return "node_entered", 0, ""
        case f.NodeCompleted(reason=reason):
            return "node_over", 0, reason
        case f.NodeRestarted(cause=cause):
            return "node_restarted", 0, cause
        case f.ProviderStarted():
            return "branch_begun", 0, ""
        case f.ProviderCompleted(status=status):
            return "branch_over", 0, status
        case f.StageCompleted(reason=reason):
            return "stage_over", 0, reason
        case f.ManifestWritten():
            return "manifest", 0, ""
        case f.QueueChecked(remaining=remaining):
            return "queue", 0, str(remaining)
        case _:
            return None


def _in_iteration(fact: f.AnyFact) -> _Found:
    match fact:
        case f.IterationStarted():
            return "iteration", 0, ""
        case f.AttemptStarted(attempt=attempt, provider=provider):
            return "attempt", attempt, provider
        case f.IterationCompleted(attempt=attempt, decision=decision):
            return "answer", attempt, decision.value
        case f.ErrorOccurred(attempt=attempt, kind=kind):
            return "error", attempt, kind.value
        case f.AttemptLost(attempt=attempt):
            return "attempt_lost", attempt, ""
        case f.AttemptCancelled(attempt=attempt):
            return "attempt_cancelled", attempt, ""
        case f.JudgeStarted(attempt=attempt):
            # Who judges depends on the machine, not on the definition.
            return "judge", attempt, ""
        case f.JudgeCompleted(status="success", attempt=attempt, result=result):
            return "judgment", attempt, "stop" if result.stop else "continue"
        case f.JudgeCompleted(status=status, attempt=attempt):
            return "judgment", attempt, status
        case f.JudgeLost(attempt=attempt):
            return "judge_lost", attempt, ""
        case _:
            return None


def _of_hook(fact: f.AnyFact) -> _Found:
    match fact:
        case f.HookStarted(attempt=attempt, hook=hook):
            return "hook", attempt, hook
        case f.HookCompleted(attempt=attempt, action=action):
            return "hook_answer", attempt, action
        case f.HookFailed(attempt=attempt):
            return "hook_answer", attempt, "failed"
        case f.HookTimedOut(attempt=attempt):
            return "hook_answer", attempt, "timeout"
        case f.HookLost(attempt=attempt):
            return "hook_answer", attempt, "lost"
        case _:
            return None


def _of_check(fact: f.AnyFact) -> _Found:
    match fact:
        case f.CheckStarted(attempt=attempt, check=check):
            return "check", attempt, check
        case f.CheckCompleted(attempt=attempt, check=check, status=status, changed=changed):
            return "check_outcome", attempt, f"{check}: {'void' if changed else status}"
        case f.CheckLost(attempt=attempt, check=check):
            return "check_outcome", attempt, f"{check}: lost"
        case f.StageVerdictReached(verdict=verdict, waived=waived):
            return "verdict", 0, f"{verdict} (waived: {', '.join(waived)})" if waived else verdict
        case f.StageTransitioned(to=to):
            return "route", 0, to or "the end"
        case _:
            return None


def _of_run(fact: f.AnyFact) -> _Found:
    match fact:
        case f.RequestOpened(reason=reason):
            return "person_asked", 0, reason
        case f.PauseRequested(reason=reason) | f.CancelRequested(reason=reason):
            return "stop_requested", 0, reason
        case f.RestartRequested():
            return "restart_requested", 0, ""
        case f.CheckWaived(check=check):
            return "check_waived", 0, check
        case f.SessionResumed() | f.SessionRecovered(by="person"):
            return "resumed", 0, ""
        case f.SessionCompleted(reason=reason):
            return "run_completed", 0, reason
        case f.SessionPaused(reason=reason):
            return "run_paused", 0, reason
        case f.AwaitingApproval():
            return "run_paused", 0, "waiting for an answer"
        case f.SessionAborted(reason=reason):
            return "run_aborted", 0, reason
        case f.SessionFailed(kind=kind):
            return "run_failed", 0, kind.value
        case _:
            return None


def _where(place: NodeKey | None, cursor: Cursor | None) -> tuple[str, str | None, int]:
    name = place.name if place else ""
    return (name, cursor.provider, cursor.node_run) if cursor else (name, None, 1)
