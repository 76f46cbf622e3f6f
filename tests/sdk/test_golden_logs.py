"""Complete logs of today's format: they can be read, and the same decisions follow from them."""

from collections import deque

import pytest
from tests.views.test_runs_in_parts import check_cut, check_tree

from agentforge.adapters.log.jsonl_log import JsonlLog, verify
from agentforge.engine.decide.run import decide
from agentforge.model import facts as f
from agentforge.model.event import Draft, Event
from agentforge.views.record import record_of
from agentforge.views.run_model import RunModel
from agentforge.views.spans import spans_of

from .golden_logs import GOLDEN, RUNS

FROM_OUTSIDE = (
    f.PauseRequested,
    f.CancelRequested,
    f.RequestAnswered,
    f.SessionResumed,
    f.SessionRecovered,
    f.IterationStarted,
    f.ManifestWritten,
    f.IterationCompleted,
    f.WorkerCompleted,
    f.ErrorOccurred,
    f.TimerFired,
    f.AttemptLost,
    f.AttemptCancelled,
)
"""What people, agents and clocks do; everything else is decided."""


def events_of(name: str) -> list[Event]:
    path = GOLDEN / f"{name}.jsonl"
    report = verify(path)
    assert report.is_intact
    assert report.torn is None
    return list(JsonlLog(path).reader().events())


@pytest.mark.parametrize("name", RUNS)
def test_log_leads_to_the_decisions_that_it_records(name: str) -> None:
    events = events_of(name)
    run = RunModel()
    run.apply(events[0])
    decided: deque[Draft] = deque()
    for event in events[1:]:
        assert run.plan is not None
        assert run.state is not None
        if not isinstance(event.fact, FROM_OUTSIDE):
            # All facts of a decision are recorded before the next one.
            decided = decided or deque(decide(run.plan, run.state).facts)
            assert Draft(event.fact, event.cursor) == decided.popleft(), f"event {event.seq}"
        run.apply(event)
    assert not decided
    assert run.state is not None
    assert run.state.status in ("completed", "aborted")


@pytest.mark.parametrize("name", RUNS)
def test_spans_of_every_part_of_a_log_stay_as_they_are(name: str) -> None:
    events = events_of(name)
    for cut in range(1, len(events) + 1):
        check_tree(spans_of(record_of(events[:cut])))
        check_cut(events, cut)
    assert all(one.is_settled for one in spans_of(record_of(events)))


def test_golden_logs_have_the_format_of_today() -> None:
    for name in RUNS:
        started = events_of(name)[0].fact
        assert isinstance(started, f.SessionStarted)
        assert started.format == f.LOG_FORMAT
