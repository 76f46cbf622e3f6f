"""Describes a rehearsed course: where it diverges from the past run, and both courses in a few lines."""

from collections.abc import Iterable

from msgspec import Struct

from agentforge.engine.rehearsal.rehearse import Difference, Rehearsal
from agentforge.model.course import RUN_ENDS, CourseStep, CourseStepKind
from agentforge.views.text import counted, reason_text

NOT_RECORDED = ", which has no recorded outcome"

# What the past run did, and what this pipeline would do. Outcomes are waited for: which one comes is not
# decided by the pipeline.
_PHRASES: dict[CourseStepKind, tuple[str, str]] = {
    "node_entered": ("entered {where}", "enter {where}"),
    "branch_begun": ("started {where}", "start {where}"),
    "iteration": ("continued with iteration {n}", "continue with iteration {n}"),
    "attempt": ("started iteration {n} with {detail}", "start iteration {n} with {detail}"),
    "answer": ("completed iteration {n}", "wait for iteration {n}"),
    "error": ("failed at iteration {n} ({detail})", "fail at iteration {n} ({detail})"),
    "attempt_lost": ("lost attempt {k} of iteration {n}", "wait for iteration {n}"),
    "attempt_cancelled": ("cancelled attempt {k} of iteration {n}", "cancel attempt {k} of iteration {n}"),
    "judge": ("judged iteration {n}", "judge iteration {n}"),
    "judgment": (
        "received a judgment on iteration {n} ({detail})",
        "receive a judgment on iteration {n} ({detail})",
    ),
    "judge_lost": ("lost the judge of iteration {n}", "wait for the judge of iteration {n}"),
    "queue": ("checked the queue after iteration {n}", "check the queue after iteration {n}"),
    "items": ("planned its items ({detail})", "plan its items ({detail})"),
    "item_over": ("ended item {detail}", "end item {detail}"),
    "hook": ("called hook {detail}", "call hook {detail}"),
    "hook_answer": ("received the answer of a hook ({detail})", "wait for the answer of a hook"),
    "check": ("ran check {detail}", "run check {detail}"),
    "check_outcome": ("received the outcome of a check ({detail})", "wait for the outcome of a check"),
    "task": ("ran {detail}", "run {detail}"),
    "task_outcome": ("received an outcome ({detail})", "wait for an outcome ({detail})"),
    "verdict": ("ended with the verdict {detail}", "end with the verdict {detail}"),
    "route": ("went to {detail}", "go to {detail}"),
    "stage_over": ("ended after iteration {n} ({detail})", "end after iteration {n} ({detail})"),
    "branch_over": ("ended for {branch} ({detail})", "end for {branch} ({detail})"),
    "node_over": ("ended after iteration {n} ({detail})", "end after iteration {n} ({detail})"),
    "person_asked": ("asked a person ({detail})", "ask a person ({detail})"),
    "node_restarted": ("started over ({detail})", "start over ({detail})"),
    "restart_requested": ("was asked to start over", "be asked to start over"),
    "waived": ("skipped {detail}", "skip {detail}"),
    "stop_requested": ("was asked to stop ({detail})", "be asked to stop ({detail})"),
    "resumed": ("was resumed", "be resumed"),
    "manifest": ("wrote the manifest", "write the manifest"),
    "run_completed": ("completed ({detail})", "complete ({detail})"),
    "run_failed": ("failed ({detail})", "fail ({detail})"),
    "run_paused": ("paused ({detail})", "pause ({detail})"),
    "run_aborted": ("was cancelled ({detail})", "be cancelled ({detail})"),
}


def describe_difference(rehearsal: Rehearsal) -> str:
    """One sentence: what the past run did, and what this pipeline would do instead."""
    found = rehearsal.difference
    if found is None:
        return "the course is the same"
    if found.why:
        return found.why
    if found.now is None:
        return f"{_prefix(found.past)}the past run {_phrase(found.past, 0)}; this pipeline would stop here"
    together = (found.past.stage, found.past.branch) == (found.now.stage, found.now.branch)
    was, now = _phrase(found.past, 0), _phrase(found.now, 1)
    if not together:
        was, now = f"{was}{_of(found.past)}", f"{now}{_of(found.now)}"
    prefix = _prefix(found.past) if together else ""
    return f"{prefix}the past run {was}; this pipeline would {now}{_missing(found, rehearsal)}"


class StageCourse(Struct, frozen=True):
    """The course of one stage, block or branch."""

    stage: str
    branch: str | None
    visit: int
    iterations: int
    ended: str | None = None
    """The reason, or None if it didn't end."""


def stage_courses(steps: Iterable[CourseStep]) -> list[StageCourse]:
    """Stages in order of first appearance."""
    found: dict[tuple[str, str | None, int], StageCourse] = {}
    for step in steps:
        if not step.stage or step.what in RUN_ENDS or step.what in _ABOUT_THE_RUN:
            continue
        key = (step.stage, step.branch, step.visit)
        before = found.get(key) or StageCourse(*key, 0)
        over = step.what in ("node_over", "stage_over", "branch_over")
        iterations = max(before.iterations, step.iteration)
        found[key] = StageCourse(*key, iterations, step.detail if over else before.ended)
    return list(found.values())


def course_lines(steps: Iterable[CourseStep]) -> list[str]:
    """A course for people: a line for each stage, and how the run ended."""
    course = list(steps)
    lines = [_stage_line(stage) for stage in stage_courses(course)]
    last = next((step for step in reversed(course) if step.what in RUN_ENDS or step.what == "resumed"), None)
    is_over = last is not None and last.what in RUN_ENDS
    return [*lines, f"the run {_phrase(last, 0)}" if last and is_over else "the run has not ended"]


_ABOUT_THE_RUN = frozenset({"person_asked", "stop_requested", "restart_requested", "waived", "resumed"})


def _stage_line(stage: StageCourse) -> str:
    name = f"{stage.stage} @ {stage.branch}" if stage.branch else stage.stage
    again = f", visit {stage.visit}" if stage.visit > 1 else ""
    amount = f"{counted(stage.iterations, 'iteration')}, " if stage.iterations else ""
    return f"{name}{again}: {amount}{reason_text(stage.ended) if stage.ended is not None else 'not ended'}"


def _phrase(step: CourseStep, form: int) -> str:
    phrase = _PHRASES[step.what][form]
    detail = reason_text(step.detail) or "an unknown provider"
    where = f"stage '{step.stage}'" + (f" for {step.branch}" if step.branch else "")
    text = phrase.format(where=where, n=step.iteration, k=step.attempt, branch=step.branch, detail=detail)
    again = step.what == "attempt" and step.attempt > 1
    return f"{text}, attempt {step.attempt}" if again else text


def _prefix(step: CourseStep) -> str:
    if not step.stage or step.what in RUN_ENDS or step.what == "node_entered":
        return ""
    return f"stage '{step.stage}'{f' of {step.branch}' if step.branch else ''}: "


def _of(step: CourseStep) -> str:
    """The stage, if the phrase doesn't name it."""
    named = step.what in RUN_ENDS or "{where}" in _PHRASES[step.what][0]
    if named or not step.stage:
        return ""
    return f" in stage '{step.stage}'" + (f" of {step.branch}" if step.branch else "")


def _missing(found: Difference, rehearsal: Rehearsal) -> str:
    now = found.now
    if now is None or now.what not in ("iteration", "attempt", "judge", "queue", "hook", "node_entered"):
        return ""
    at = (now.stage, now.branch, now.iteration or 1)
    open_at = {(step.stage, step.branch, step.iteration) for step in rehearsal.unrecorded}
    return NOT_RECORDED if at in open_at else ""
