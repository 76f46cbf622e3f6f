"""How people see one kind of fact. Each has one row, in the file of its subject, or the row of every task
(`task_row`); `events.py` has them all."""

# What `tail`, a terminal, the logs and the demo say of a fact is changed together, so it stands together.
# Rows are data, not a `match` over all facts, so that each is beside the other text about its subject.
# mypy can't find a missing one; a test does.

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar

from msgspec import Struct

from agentforge.model.event import Event
from agentforge.model.facts import Fact, TaskEnding, TaskFact, TaskLost, TaskOutcome, TaskStarted
from agentforge.model.request import Request
from agentforge.views.stage_progress import StageProgress
from agentforge.views.text import one_line, reason_text, span

BRIEF_CHARS = 80
TEXT_CHARS = 160
MESSAGE_CHARS = 400

LineLevel = Literal["info", "warn", "error"]
LineMark = Literal["begin", "done", "failed", "wait", "note", "warning", "back", "onward"]
ShownPlace = Literal["run", "node", "visit", "branch", "iteration", "call"]
"""How precisely `tail` says where it happened. A `call` of a hook names the iteration if it is in one."""
LineSubject = Literal["run", "stage", "iteration"]
Details = Mapping[str, object]
DemoLine = tuple[Literal["stage", "work", "done", "reattached", "lost"], str]
F = TypeVar("F", bound=Fact)


class RunLine(Struct, frozen=True):
    text: str
    mark: LineMark = "note"
    level: LineLevel = "info"
    subject: str = ""
    """The stage and iteration; empty for the run as a whole."""

    @property
    def words(self) -> str:
        return f"{self.subject} {self.text}" if self.subject else self.text


class Row(Struct, frozen=True):
    fact: type[Fact]
    at: ShownPlace
    subject: LineSubject
    """What its line is about."""
    details: Callable[[Any], Details]
    """Its fields in `tail`; those that are empty are left out."""
    line: Callable[[Any, Event], RunLine | None] | RunLine | None
    """Its line on attached terminals and in the logs, without the subject; None: people needn't see it."""
    ending: Callable[[Any, Sequence[StageProgress], Sequence[Request]], RunLine] | None
    """The line for the end of a run, in the logs only: terminals print their own conclusion."""
    demo: Callable[[Any, Event], DemoLine] | DemoLine | None
    """Its line in `agentforge demo`."""


def row(
    fact: type[F],
    at: ShownPlace = "run",
    *,
    subject: LineSubject | None = None,
    details: Callable[[F], Details] = lambda _: {},
    line: Callable[[F, Event], RunLine | None] | RunLine | None = None,
    ending: Callable[[F, Sequence[StageProgress], Sequence[Request]], RunLine] | None = None,
    demo: Callable[[F, Event], DemoLine] | DemoLine | None = None,
) -> Row:
    # Not the constructor of Row: there, mypy would not compare these functions with the type of the fact.
    return Row(fact, at, subject or _SUBJECTS[at], details, line, ending, demo)


def task_row(fact: type[TaskFact]) -> Row | None:
    """Of the start, the end on request, the outcome or the loss of a task, if its kind says nothing else."""
    if issubclass(fact, TaskStarted):
        return row(
            fact, "iteration", details=_task, line=lambda x, _: RunLine(f"running {_name(x)}", "begin")
        )
    if issubclass(fact, TaskEnding):
        return row(
            fact,
            "iteration",
            details=lambda x: {**_task(x), "reason": quoted(x.reason)},
            line=lambda x, _: RunLine(
                f"stopping {_name(x)}: {one_line(x.reason, TEXT_CHARS)}", "wait", "warn"
            ),
        )
    if issubclass(fact, TaskLost):
        return row(
            fact,
            "iteration",
            details=_task,
            line=lambda x, _: RunLine(f"lost {_name(x)} (try {x.attempt})", "wait", "warn"),
        )
    if issubclass(fact, TaskOutcome):
        return row(fact, "iteration", details=_outcome, line=lambda x, _: _ended(x))
    return None


def _task(fact: TaskFact) -> Details:
    return {fact.KIND: one_line(fact.label), "attempt": fact.attempt}


def _outcome(fact: TaskOutcome) -> Details:
    return {
        **_task(fact),
        "status": fact.leads_to,
        "error": quoted(fact.failure.message if fact.failure else ""),
    }


def _ended(fact: TaskOutcome) -> RunLine:
    if fact.failure is None:
        return RunLine(f"completed {_name(fact)}", "done")
    return RunLine(f"{_name(fact)} failed: {message(fact.failure.message)}", "failed", "error")


def _name(fact: TaskFact) -> str:
    return one_line(fact.named)


_SUBJECTS: Mapping[ShownPlace, LineSubject] = {
    "run": "run",
    "node": "stage",
    "visit": "stage",
    "branch": "stage",
    "iteration": "iteration",
    "call": "iteration",
}


def quoted(text: str, limit: int = TEXT_CHARS) -> str:
    shown = one_line(text, limit)
    return f'"{shown}"' if shown else ""


def quoted_reason(reason: str) -> str:
    return quoted(reason_text(reason), BRIEF_CHARS)


def message(text: str) -> str:
    return one_line(text, MESSAGE_CHARS)


def listed(names: Sequence[str]) -> str:
    return ",".join(map(one_line, names))


def utc(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%SZ}"


def wait(until: datetime, event: Event) -> str:
    return span((until - event.at).total_seconds())
