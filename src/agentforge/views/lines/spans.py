"""The spans of a run, as text."""

from collections.abc import Mapping

from agentforge.views.lines.entries import TEXT_CHARS, RunEntry, Shown
from agentforge.views.spans import Span, SpanStatus, SpanType
from agentforge.views.text import one_line, span

DEPTHS: Mapping[SpanType, int] = {"visit": 1, "iteration": 2, "check": 2, "hook": 2, "attempt": 3}
MARKS: Mapping[SpanStatus, str] = {"ok": "done", "error": "failed"}


def span_entry(one: Span, _: Shown) -> RunEntry:
    """`    check test (0af7651916cd43dd): 1.5s: 2 tests fail`"""
    took = "not finished" if one.end_time is None else span((one.end_time - one.start_time).total_seconds())
    why = f": {one_line(one.message, TEXT_CHARS)}" if one.message else ""
    title = f"{'  ' * DEPTHS.get(one.type, 0)}{one_line(one.name)} ({one.span_id}): {took}{why}"
    return RunEntry(MARKS.get(one.status, "current"), title)
