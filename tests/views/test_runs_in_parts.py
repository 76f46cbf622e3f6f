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
from agentforge.views.metrics import metrics_of
from agentforge.views.record import record_of
from agentforge.views.spans import event_span_id, spans_of
from agentforge.views.transitions import STOPS, Transitions

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
def test_each_transition_begins_where_the_one_before_ended(run: WildRun) -> None:
    fold = Transitions()
    found = [one for event in run.events if (one := fold.apply(event)) and one.provider is None]
    places = [None, *(one.to_stage for one in found)]
    assert places[:-1] == [one.from_stage for one in found]
    entered = [event.fact.name for event in run.events if isinstance(event.fact, f.NodeStarted)]
    if run.state.status in STOPS:
        assert places[-1] == STOPS[run.state.status]
    elif entered:
        assert places[-1] in (entered[-1], *STOPS.values())


@heavy
@given(any_wild_run())
def test_metrics_count_all_visits_and_all_tokens(run: WildRun) -> None:
    record = record_of(run.events)
    metrics = metrics_of(record)
    assert sum(one.cycles for one in metrics) == len(record.visits)
    spent = run.state.spending
    assert sum(one.tokens_used or 0 for one in metrics) == spent.input_tokens + spent.output_tokens
    assert all(one.duration_seconds >= 0 for one in metrics)
    attempts = sum(len(work.attempts) for work in record.iterations)
    assert sum(one.retries for one in metrics) <= attempts - len([w for w in record.iterations if w.attempts])


@heavy
@given(any_wild_run())
def test_every_event_belongs_to_a_span_within_its_parent(run: WildRun) -> None:
    if any(isinstance(event.fact, f.PlanChanged) for event in run.events):
        return  # A node is at its place in the present plan.
    spans = {one.span_id: one for one in spans_of(record_of(run.events))}
    plan = run.decided[0][0]
    for event in run.events:
        assert spans[event_span_id(event, plan)].start_time <= event.at
    for one in spans.values():
        parent = spans.get(one.parent_span_id or "")
        assert parent is None or parent.start_time <= one.start_time
    assert [one.parent_span_id for one in spans.values()].count(None) == 1
