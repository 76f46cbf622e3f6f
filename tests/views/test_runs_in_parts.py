"""Properties of the transitions, spans and metrics of whole runs, and of damaged logs."""

from datetime import UTC
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.engine.any_log import any_log
from tests.engine.any_run import WildRun, any_wild_run
from tests.sampling import heavy

from agentforge.model import facts as f
from agentforge.model.event import Event
from agentforge.model.status import RunStatus
from agentforge.views.lines.entries import Shown
from agentforge.views.lines.metrics import metrics_entry, metrics_lines
from agentforge.views.lines.spans import span_entry
from agentforge.views.lines.timeline import timeline_lines
from agentforge.views.metrics import StageMetrics, metrics_of
from agentforge.views.record import RunRecord, record_of
from agentforge.views.run_model import RunModel
from agentforge.views.spans import Span, event_span_id, spans_of
from agentforge.views.timeline import MAX_ROWS, drawn_rows, timeline_of
from agentforge.views.timeline_picture import timeline_svg
from agentforge.views.timeline_scale import Scale
from agentforge.views.transitions import STOPS, StageTransition, Transitions

SHOWN = Shown("/runs/auth", "running", UTC)


@given(any_log)
def test_parts_of_any_log(log: list[Event]) -> None:
    record, fold = record_of(log), Transitions()
    for event in log:
        fold.apply(event)
        event_span_id(event, fold.run.plan)
    check_tree(spans_of(record))
    assert all(metrics_entry(one, SHOWN).rows for one in metrics_of(record))
    assert list(metrics_lines(metrics_of(record)))
    check_timeline(record)


@heavy
@given(any_wild_run())
def test_parts_of_any_run_fit_together(run: WildRun) -> None:
    fold = Transitions()
    check_chain(run, [one for event in run.events if (one := fold.apply(event)) and one.provider is None])
    record = record_of(run.events)
    check_sums(run, record, metrics_of(record))
    check_timeline(record)
    check_tree(spans_of(record))
    ids, plans = {one.span_id for one in spans_of(record)}, RunModel()
    for event in run.events:
        before = plans.plan
        plans.apply(event)
        is_new_plan = isinstance(event.fact, f.PlanChanged)
        assert event_span_id(event, before if is_new_plan else plans.plan) in ids


def check_tree(found: list[Span]) -> None:
    """One root; every parent is there, and contains what is below it."""
    by_id = {one.span_id: one for one in found}
    assert len(by_id) == len(found)
    assert [one.type for one in found if one.parent_span_id is None] == ["run"]
    for one in found:
        parent = by_id[one.parent_span_id] if one.parent_span_id else one
        assert parent.start_time <= one.start_time
        assert parent.end_time is None or (one.end_time is not None and one.end_time <= parent.end_time)
        assert one.end_time is None or one.start_time <= one.end_time
        assert all(by_id[link].start_time <= one.start_time for link in one.links)
        assert one.end_time is not None or not one.is_settled
        span_entry(one, SHOWN)


@heavy
@given(any_wild_run(), st.data())
def test_what_is_settled_stays_as_it_is(run: WildRun, data: st.DataObject) -> None:
    """Whatever follows: new plans, and nodes that are gone and return, too."""
    check_cut(run.events, data.draw(st.integers(1, len(run.events))))


def check_cut(events: list[Event], cut: int) -> None:
    part, whole = record_of(events[:cut]), record_of(events)
    found = {one.span_id: one for one in spans_of(whole)}
    assert {one.span_id for one in spans_of(part)} <= found.keys()
    assert part.model.state is not None
    if part.model.state.status is not RunStatus.FAILED:
        # Of spans that begin at the same time, either may be the one before.
        settled = [replace(one, links=()) for one in spans_of(part) if one.is_settled]
        assert settled == [replace(found[one.span_id], links=()) for one in settled]


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


def check_timeline(record: RunRecord) -> None:
    """It has each span and each wait once, within the times of what it belongs to, and can be drawn."""
    rows = timeline_of(record)
    known = {row.id: row for row in rows}
    assert {one.span_id for one in spans_of(record)} <= known.keys()
    assert len(rows) == len(known) == len(spans_of(record)) + len(record.waits)
    for row in rows[1:]:
        above = known[row.parent or ""]
        assert row.depth == above.depth + 1
        assert above.started_at <= row.started_at <= row.ended_at <= above.ended_at
    scale, times = Scale(rows), sorted(time for row in rows for time in (row.started_at, row.ended_at))
    places = [scale.at(time) for time in times]
    assert places == sorted(places)
    assert 0 <= places[0] <= places[-1] <= 1.000001
    assert 0 < len(drawn_rows(rows)) <= MAX_ROWS
    assert all(line.bar for line in [*timeline_lines(rows, "running", 80)][1:])
    ElementTree.fromstring(timeline_svg(rows, "running"))
