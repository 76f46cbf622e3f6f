"""A rehearsed course in words: where it parts from the past run's, and both in a few lines each."""

from collections.abc import Iterable

from msgspec import Struct

from agentforge.engine.rehearsal.course import RUN_ENDS, CourseStep, CourseStepKind, Difference, Rehearsal
from agentforge.views.text import counted, one_line

NOT_RECORDED = ", for which nothing was recorded"

_WORDS: dict[CourseStepKind, tuple[str, str]] = {
    "node_entered": ("entered {where}", "enter {where}"),
    "branch_begun": ("began {where}", "begin {where}"),
    "iteration": ("went on to iteration {n}", "go on to iteration {n}"),
    "attempt": ("asked {detail} for iteration {n}", "ask {detail} for iteration {n}"),
    "answer": ("had an answer to iteration {n}", "wait for iteration {n}"),
    "error": ("saw iteration {n} fail ({detail})", "see iteration {n} fail ({detail})"),
    "attempt_lost": ("lost attempt {k} at iteration {n}", "wait for iteration {n}"),
    "attempt_cancelled": ("ended attempt {k} at iteration {n}", "end attempt {k} at iteration {n}"),
    "judge": ("asked {detail} to judge iteration {n}", "ask {detail} to judge iteration {n}"),
    "judgment": ("had a judgment on iteration {n} ({detail})", "pass judgment on iteration {n} ({detail})"),
    "judge_lost": ("lost the judge of iteration {n}", "wait for the judge of iteration {n}"),
    "queue": ("looked at the queue after iteration {n}", "look at the queue after iteration {n}"),
    "stage_over": ("ended after iteration {n} ({detail})", "end after iteration {n} ({detail})"),
    "branch_over": ("was over for {branch} ({detail})", "be over for {branch} ({detail})"),
    "node_over": ("ended after iteration {n} ({detail})", "end after iteration {n} ({detail})"),
    "person_asked": ("asked a person ({detail})", "ask a person ({detail})"),
    "stop_requested": ("was asked to stop ({detail})", "be asked to stop ({detail})"),
    "resumed": ("was resumed", "be resumed"),
    "manifest": ("listed what all providers left", "list what all providers left"),
    "run_completed": ("completed ({detail})", "complete ({detail})"),
    "run_failed": ("failed ({detail})", "fail ({detail})"),
    "run_paused": ("paused ({detail})", "pause ({detail})"),
    "run_aborted": ("was cancelled ({detail})", "be cancelled ({detail})"),
}


def difference_words(rehearsal: Rehearsal) -> str:
    """One sentence: what the past run did, and what this pipeline would do instead."""
    found = rehearsal.difference
    if found is None:
        return "the course is the same"
    if found.why:
        return found.why
    if found.now is None:
        return (
            f"{_prefix(found.past)}the past run {_said(found.past, 0)}; this pipeline would do nothing more"
        )
    together = (found.past.stage, found.past.branch) == (found.now.stage, found.now.branch)
    was, now = _said(found.past, 0), _said(found.now, 1)
    if not together:
        was, now = f"{was}{_of(found.past)}", f"{now}{_of(found.now)}"
    prefix = _prefix(found.past) if together else ""
    return f"{prefix}the past run {was}; this pipeline would {now}{_missing(found, rehearsal)}"


class StageCourse(Struct, frozen=True):
    """What a course says about one stage, block or branch."""

    stage: str
    branch: str | None
    run: int
    iterations: int
    ended: str | None = None
    """Why; nothing if it didn't."""


def stage_courses(turns: Iterable[CourseStep]) -> list[StageCourse]:
    """Stages in the order in which they were first met."""
    found: dict[tuple[str, str | None, int], StageCourse] = {}
    for turn in turns:
        if not turn.stage or turn.what in RUN_ENDS or turn.what in _ABOUT_THE_RUN:
            continue
        key = (turn.stage, turn.branch, turn.run)
        before = found.get(key) or StageCourse(*key, 0)
        over = turn.what in ("node_over", "stage_over", "branch_over")
        iterations = max(before.iterations, turn.iteration)
        found[key] = StageCourse(*key, iterations, turn.detail if over else before.ended)
    return list(found.values())


def course_lines(turns: Iterable[CourseStep]) -> list[str]:
    """A course for people: a line for each stage, and how the run ended."""
    course = list(turns)
    lines = [_stage_line(stage) for stage in stage_courses(course)]
    end = next((turn for turn in reversed(course) if turn.what in RUN_ENDS), None)
    last = f"the run {_said(end, 0)}" if end and end is _last_of_run(course) else "the run isn't over"
    return [*lines, last]


_ABOUT_THE_RUN = frozenset({"person_asked", "stop_requested", "resumed"})


def _stage_line(stage: StageCourse) -> str:
    name = f"{stage.stage} @ {stage.branch}" if stage.branch else stage.stage
    again = f" (run {stage.run})" if stage.run > 1 else ""
    amount = f"{counted(stage.iterations, 'iteration')}, " if stage.iterations else ""
    return f"{name}{again}: {amount}{one_line(stage.ended) if stage.ended is not None else 'not over'}"


def _last_of_run(course: list[CourseStep]) -> CourseStep | None:
    """The latest turn that says whether the run goes on."""
    return next((turn for turn in reversed(course) if turn.what in RUN_ENDS or turn.what == "resumed"), None)


def _said(turn: CourseStep, form: int) -> str:
    words = _WORDS[turn.what][form]
    detail = one_line(turn.detail) or "somebody"
    where = f"stage '{turn.stage}'" + (f" for {turn.branch}" if turn.branch else "")
    said = words.format(where=where, n=turn.iteration, k=turn.attempt, branch=turn.branch, detail=detail)
    again = turn.what == "attempt" and turn.attempt > 1
    return f"{said}, attempt {turn.attempt}" if again else said


def _prefix(turn: CourseStep) -> str:
    if not turn.stage or turn.what in RUN_ENDS or turn.what == "node_entered":
        return ""
    return f"stage '{turn.stage}'{f' of {turn.branch}' if turn.branch else ''}: "


def _of(turn: CourseStep) -> str:
    """Which stage is meant, where the words don't say it."""
    named = turn.what in RUN_ENDS or "{where}" in _WORDS[turn.what][0]
    if named or not turn.stage:
        return ""
    return f" in stage '{turn.stage}'" + (f" of {turn.branch}" if turn.branch else "")


def _missing(found: Difference, rehearsal: Rehearsal) -> str:
    now = found.now
    if now is None or now.what not in ("iteration", "attempt", "judge", "queue", "node_entered"):
        return ""
    at = (now.stage, now.branch, now.iteration or 1)
    open_at = {(turn.stage, turn.branch, turn.iteration) for turn in rehearsal.unrecorded}
    return NOT_RECORDED if at in open_at else ""
