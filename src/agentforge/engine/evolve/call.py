"""Applies events to a task between two iterations of a stage, of whatever kind: a judge, a check.

Its start, its end on request, its loss, and an outcome from which nothing else follows. What an outcome means
for the stage is up to its kind (`stage`, `checks`).
"""

from msgspec.structs import replace

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.state import StageState, TaskState
from agentforge.model.status import TaskStatus


def evolve_call(at: StageState, event: Event, fact: f.TaskFact) -> StageState:
    known = at.calls.get(fact.KIND)
    if isinstance(fact, f.TaskStarted):
        # Only losses of the same task are in a row: another check has its own.
        lost = known.lost if known and known.about == fact.about else 0
        call = TaskState(
            fact.attempt, TaskStatus.RUNNING, event.at, lost, about=fact.about, timeout=fact.timeout
        )
        return replace(at, calls={**at.calls, fact.KIND: call})
    if known is None or fact.MOVES_TO is None:
        # A damaged log may lack the start. There is nothing to wait for then, and the gate starts it again.
        return at
    if isinstance(fact, f.TaskLost):
        return replace(at, calls={**at.calls, fact.KIND: known.as_lost(started=fact.started)})
    outcome = {"failure": fact.failure} if isinstance(fact, f.TaskOutcome) else {}
    return with_call(at, fact.KIND, status=fact.MOVES_TO, **outcome)


def with_call(at: StageState, kind: str, **changes: object) -> StageState:
    known = at.calls.get(kind)
    return at if known is None else replace(at, calls={**at.calls, kind: replace(known, **changes)})


def without_call(at: StageState, kind: str) -> StageState:
    if kind not in at.calls:
        return at
    return replace(at, calls={other: call for other, call in at.calls.items() if other != kind})
