"""Properties of the transitions, spans and metrics of whole runs, and of damaged logs."""

from datetime import UTC

from hypothesis import given
from tests.engine.any_log import any_log
from tests.engine.any_run import WildRun, any_wild_run
from tests.sampling import heavy

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.views.lines.entries import Shown
from agentforge.views.lines.metrics import metrics_entry, metrics_lines
from agentforge.views.lines.spans import span_entry
from agentforge.views.metrics import StageMetrics, metrics_of
from agentforge.views.record import RunRecord, record_of
from agentforge.views.spans import event_span_id, spans_of
from agentforge.views.transitions import STOPS, StageTransition, Transitions

SHOWN = Shown("/runs/auth", "running", UTC)


@given(any_log)
def test_parts_of_any_log(log: list[Event]) -> None:
    record, fold = record_of(log), Transitions()
    for event in log:
        fold.apply(event)
        event_span_id(event, fold.run.plan)
    ids = {one.span_id for one in spans_of(record)}
    for one in spans_of(record):
        assert one.parent_span_id is None or one.parent_span_id in ids
        span_entry(one, SHOWN)
    assert all(metrics_entry(one, SHOWN).rows for one in metrics_of(record))
    assert list(metrics_lines(metrics_of(record)))


@heavy
@given(any_wild_run())
def test_parts_of_any_run_fit_together(run: WildRun) -> None:
    fold = Transitions()
    check_chain(run, [one for event in run.events if (one := fold.apply(event)) and one.provider is None])
    record = record_of(run.events)
    check_sums(run, record, metrics_of(record))
    # A node is at its place in the present plan, so ids that were given before may be of another place.
    if not any(isinstance(event.fact, f.PlanChanged) for event in run.events):
        ids = {one.span_id for one in spans_of(record)}
        assert {event_span_id(event, record.model.plan) for event in run.events} <= ids


def check_chain(run: WildRun, found: list[StageTransition]) -> None:
    """Each begins where the one before ended, and the last where the run is."""
    places = [None, *(one.to_stage for one in found)]
    assert places[:-1] == [one.from_stage for one in found]
    if run.state.status in STOPS:
        assert places[-1] == STOPS[run.state.status]
    nodes = [event for event in run.events if event.cursor is None or event.cursor.provider is None]
    entered = [event.fact.name for event in nodes if isinstance(event.fact, f.NodeStarted)]
    assert not entered or places[-1] in (entered[-1], *STOPS.values())


def check_sums(run: WildRun, record: RunRecord, metrics: list[StageMetrics]) -> None:
    """The metrics have all visits, all tokens and no attempt twice."""
    assert sum(one.cycles for one in metrics) == len(record.visits)
    spent = run.state.spending
    assert sum(one.tokens_used or 0 for one in metrics) == spent.input_tokens + spent.output_tokens
    assert all(one.duration_seconds >= 0 for one in metrics)
    further = sum(max(0, len(work.attempts) - 1) for work in record.iterations)
    assert sum(one.retries for one in metrics) <= further
