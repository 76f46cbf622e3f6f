"""When each part of a run was under way, and what it waited for: its spans and its waits, each below what it
belongs to, with verdicts and spending."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import chain, pairwise
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import asdict, replace

from agentforge.model.spending import MAX_UNPRICED, Spending
from agentforge.views.record import RunRecord
from agentforge.views.spans import Span, SpanStatus, SpanType, place_id, span_id, spans_of
from agentforge.views.spending import usage_json
from agentforge.views.text import counted
from agentforge.views.waits import WaitsFor
from agentforge.views.work import IterationWork

MAX_ROWS = 400
MAX_BELOW = 20
"""How many parts of a part are drawn, unless that makes too many rows."""
SHORT_WAIT = 1 / 50
"""The share of a run below which two kinds of waits aren't drawn: the pause between two iterations, and that
until a process continues the run."""
_WAITS: Mapping[WaitsFor, str] = {
    "answer": "waits for an answer",
    "limit": "waits for a limit",
    "retry": "waits for a retry",
    "cap": "waits for other attempts",
    "delay": "delay",
    "resume": "waits for a resume",
    "engine": "no engine",
}


class TimelineRow(Struct, frozen=True, kw_only=True):
    """A part of a run, a wait, or the parts that are not drawn (`more`)."""

    id: str
    """Of a part, that of its span."""
    parent: str | None
    """None: it is the run."""
    depth: int = 0
    type: SpanType | Literal["wait", "more"]
    name: str
    started_at: datetime
    ended_at: datetime
    """Of what is not over, the time of the latest event."""
    is_over: bool
    status: SpanStatus = "unset"
    verdict: str = ""
    message: str = ""
    """Of an error; of a wait: why it waited, or what was asked and answered."""
    waits_for: WaitsFor | None = None
    spending: Spending = Spending()


def timeline_of(record: RunRecord) -> list[TimelineRow]:
    """Each row is followed by those below it, in the order of their beginnings, and contains their times."""
    if (state := record.model.state) is None:
        return []
    spans = spans_of(record)
    begun = chain((one.start_time for one in spans), (one.started_at for one in record.waits))
    ended = chain((one.end_time for one in spans), (one.ended_at for one in record.waits))
    # The clock may have been set back: nothing of a run is earlier than its beginning, or later than its end.
    times = [state.updated_at, *begun, *(at for at in ended if at)]
    start, end = min(times), max(times)
    run, *others = (_of_span(one, end) for one in spans)
    run = replace(run, started_at=start, ended_at=end, spending=state.spending)
    rows = {row.id: row for row in (run, *others)}
    for at, work in record.placed():
        if at is not None and isinstance(work, IterationWork):
            id = place_id(record, "iteration", at)
            rows[id] = replace(rows[id], spending=work.spending)
    below: dict[str | None, list[TimelineRow]] = {}
    for row in (*rows.values(), *_waits(record, rows, run)):
        below.setdefault(row.parent, []).append(row)
    return _placed(run, below)


def _of_span(one: Span, now: datetime) -> TimelineRow:
    about = {key.removeprefix("agentforge."): value for key, value in one.attributes.items()}
    name, branch = one.name, f" ({about['branch']})" if about.get("branch") else ""
    if one.type == "visit":
        name = f"{about['stage']}{branch}, visit {about['visit']}"
    elif one.type == "iteration":
        name = f"iteration {about['iteration']}" + (f", {about['item']}" if about.get("item") else "")
    elif one.type == "attempt":
        name = " ".join(("attempt", f"{about['attempt']}:", about["provider"]))
    return TimelineRow(
        id=one.span_id,
        parent=one.parent_span_id,
        type=one.type,
        name=name,
        started_at=one.start_time,
        ended_at=one.end_time or now,
        is_over=one.end_time is not None,
        status=one.status,
        verdict=about.get("verdict", ""),
        message=one.message,
    )


def _waits(record: RunRecord, rows: Mapping[str, TimelineRow], run: TimelineRow) -> Iterator[TimelineRow]:
    for number, one in enumerate(record.waits):
        begins, message = one.started_at, one.message
        ends = max(begins, one.ended_at or run.ended_at)
        asked = record.requests.get(one.request)
        if asked is not None and asked.answer is not None:
            message = f"{asked.answer}, by {asked.answered_by}: {message}"
        ids = [place_id(record, kind, one.at) for kind in ("iteration", "visit")] if one.at else []
        above = (row for row in map(rows.get, ids) if row is not None)
        # What is asked before a visit, or after it, is part of the run.
        holds = (row for row in above if row.started_at <= begins <= ends <= row.ended_at)
        yield TimelineRow(
            id=span_id(record.trace_id, "wait", number),
            parent=next((row.id for row in holds), run.id),
            type="wait",
            name=_WAITS[one.waits_for],
            started_at=begins,
            ended_at=ends,
            is_over=one.ended_at is not None,
            message=message,
            waits_for=one.waits_for,
        )


def _placed(row: TimelineRow, below: Mapping[str | None, list[TimelineRow]]) -> list[TimelineRow]:
    """A row, and all below it."""
    inner = sorted(below.get(row.id, ()), key=lambda one: one.started_at)
    parts = [_placed(replace(one, depth=row.depth + 1), below) for one in inner]
    if row.type == "visit":
        row = replace(row, spending=_sum(part[0].spending for part in parts))
    return [row, *chain.from_iterable(parts)]


def _sum(spent: Iterable[Spending]) -> Spending:
    all = [asdict(one) for one in spent]
    models = tuple(dict.fromkeys(model for one in all for model in one.pop("unpriced")))
    sums = {name: sum(one[name] for one in all) for name in (all[0] if all else ())}
    return Spending(**sums, unpriced=models[:MAX_UNPRICED])


def timeline_json(row: TimelineRow) -> dict[str, Any]:
    return {
        **{name: value for name, value in asdict(row).items() if name != "spending"},
        **usage_json(row.spending),
    }


# -- what is drawn


def _is_brief(row: TimelineRow, least: timedelta) -> bool:
    """Whether it is a wait between two steps of the engine that was over at once."""
    is_short = row.is_over and row.ended_at - row.started_at <= least
    return is_short and row.waits_for in ("delay", "resume")


def drawn_rows(rows: Sequence[TimelineRow]) -> list[TimelineRow]:
    """At most MAX_ROWS: of many parts the first and the last, and one row for the others. An iteration
    with one attempt has its provider."""
    least = (rows[0].ended_at - rows[0].started_at) * SHORT_WAIT
    shown = [row for row in rows if not _is_brief(row, least)]
    half = MAX_BELOW // 2
    while len(found := list(_drawn(shown, half))) > MAX_ROWS:
        half //= 2
    return found


def _drawn(rows: Sequence[TimelineRow], half: int) -> Iterator[TimelineRow]:
    row, begin = rows[0], [n for n, one in enumerate(rows) if one.depth == rows[0].depth + 1]
    parts = [rows[start:end] for start, end in pairwise((*begin, len(rows)))]
    attempts = [part[0] for part in parts if part[0].type == "attempt"]
    if len(attempts) == 1:
        row = replace(row, name=f"{row.name}: {attempts[0].name.partition(': ')[2]}")
        parts = [part for part in parts if part[0] is not attempts[0]]
    yield row
    cut = len(parts) > 2 * half + 1
    for part in parts[:half] if cut else parts:
        yield from _drawn(part, half)
    if cut:
        yield _more([part[0] for part in parts[half : -half or None]])
        for part in parts[len(parts) - half :]:
            yield from _drawn(part, half)


def _more(rows: Sequence[TimelineRow]) -> TimelineRow:
    failed = sum(row.status == "error" for row in rows)
    types = Counter(row.type for row in rows)
    return replace(
        rows[0],
        type="more",
        name=f"{', '.join(counted(number, type) for type, number in types.items())} more",
        ended_at=max(row.ended_at for row in rows),
        is_over=all(row.is_over for row in rows),
        status="error" if failed else "unset",
        message=f"{failed:,} failed" if failed else "",
        verdict="",
        waits_for=None,
        spending=_sum(row.spending for row in rows),
    )
