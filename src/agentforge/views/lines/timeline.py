"""The timeline of a run, as text: a row for each part, with a bar from its beginning to its end."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from agentforge.views.text import cost, counted, one_line, padded, shortened, span, width
from agentforge.views.timeline import TimelineRow, drawn_rows
from agentforge.views.timeline_scale import Scale

MESSAGE_CHARS = 200
MIN_BAR, MAX_COLUMNS = 10, 140
TICK_COLUMNS = 9
"""How far the times above the bars are from each other, at least."""
TONES = {"done": "good", "failed": "bad", "wait": "warn", "note": "dim"}
"""Of a bar, by the mark of its row."""


class TimelineLine(Struct, frozen=True):
    mark: str
    """Empty: the times above the bars."""
    label: str
    before: str
    bar: str
    tone: str
    after: str


def timeline_count(rows: Sequence[TimelineRow]) -> str:
    """When the run began, and what it took."""
    run = rows[0]
    return f"began {run.started_at:%Y-%m-%d %H:%M:%S} UTC, {timeline_text(run)}"


def timeline_mark(row: TimelineRow, status: str) -> str:
    """`status`: of the run, as it is shown."""
    if row.type == "wait":
        return "wait"
    if row.status != "unset":
        return "failed" if row.status == "error" else "done"
    if row.is_over:
        return "note"
    return "current" if status == "running" else "stopped"


def timeline_text(row: TimelineRow) -> str:
    """`1m 34s, pass, $0.12, 2,450 tokens: what failed`"""
    took = span((row.ended_at - row.started_at).total_seconds())
    spent, tokens = row.spending, row.spending.input_tokens + row.spending.output_tokens
    parts = (
        took if row.is_over else f"{took} so far",
        row.verdict,
        cost(spent.cost_usd, spent.unpriced),
        counted(tokens, "token") if tokens else "",
    )
    why = f": {row.message}" if row.message else ""
    return one_line(f"{', '.join(part for part in parts if part)}{why}", MESSAGE_CHARS)


def timeline_lines(rows: Sequence[TimelineRow], status: str, columns: int) -> Iterator[TimelineLine]:
    """`rows`: all of the run, in lines of as many columns; `status`: of the run, as it is shown."""
    drawn, scale = drawn_rows(rows), Scale(rows)
    heads = [f"{'  ' * row.depth}{one_line(row.name)}" for row in drawn]
    texts = [timeline_text(row) for row in drawn]
    # The mark, and what is between the columns.
    room = min(columns, MAX_COLUMNS) - 6
    named = min(max(map(width, heads)), room // 3)
    said = min(max(map(width, texts)), room // 3)
    wide = max(MIN_BAR, room - named - said)
    yield TimelineLine("", " " * named, "", _axis(scale, wide), "dim", "")
    for row, head, text in zip(drawn, heads, texts, strict=True):
        begins = min(int(scale.at(row.started_at) * wide), wide - 1)
        length = max(1, round(scale.at(row.ended_at) * wide) - begins)
        mark = timeline_mark(row, status)
        bar = ("░" if row.type == "wait" else "█") * length
        after = " " * (wide - begins - length)
        tone = TONES.get(mark, "busy")
        label = padded(shortened(head, named), named)
        yield TimelineLine(mark, label, " " * begins, bar, tone, f"{after}  {shortened(text, said)}")


def _axis(scale: Scale, wide: int) -> str:
    axis = ""
    for tick in scale.ticks(max(1, wide // TICK_COLUMNS)):
        begins, text = int(tick.at * wide), f"≈{tick.text}" if tick.is_cut else tick.text
        if begins >= len(axis) + bool(axis) and begins + width(text) <= wide:
            axis += " " * (begins - len(axis)) + text
    return axis
