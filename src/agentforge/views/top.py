"""The data of `top`: a row for each run of a project, which is also its JSON output, and its cells."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from agentforge.model.artifact import ItemAt
from agentforge.model.request import Request
from agentforge.model.status import status_text
from agentforge.views.lines.requests import answerers_text
from agentforge.views.lines.status import running_check_text
from agentforge.views.spending import CapView, cap_of_run
from agentforge.views.status import StatusView
from agentforge.views.text import cost, one_line, reason_text, span, width

ORDER = ("running", "awaiting_approval", "paused", "interrupted", "failed")
"""The statuses that come first; those of ended runs follow."""
FLEXIBLE = (0, 2, 5, 6)
"""The columns whose texts may be shortened."""
MIN_WIDTH = 10
HEADS = ("SESSION", "STATUS", "STAGE", "ITER", "ELAPSED", "COST", "WAITS FOR")


class TopRow(Struct, frozen=True):
    session: str
    status: str
    stage: str = ""
    iteration: int = 0
    iterations_max: int = 0
    iterations_asked: int = 0
    attempt: int = 0
    duration_seconds: float = 0.0
    waited_seconds: float = 0.0
    cost_usd: float | None = None
    unpriced_models: tuple[str, ...] = ()
    waits_for: str = ""
    requests: tuple[Request, ...] = ()
    """The open ones."""
    item: ItemAt | None = None
    """The one that the stage works on."""
    cap: CapView | None = None
    """What the run may cost."""

    @property
    def status_text(self) -> str:
        return status_text(self.status, self.requests)

    @property
    def cells(self) -> tuple[str, ...]:
        """As text, in the order of HEADS."""
        return (
            self.session,
            self.status_text,
            self.stage,
            self._progress,
            span(self.duration_seconds - self.waited_seconds),
            self.cap.text if self.cap else cost(self.cost_usd or 0.0, self.unpriced_models),
            self.waits_for,
        )

    @property
    def _progress(self) -> str:
        if self.item is not None:
            return f"{self.item.number}/{self.item.of}"
        number = self.iteration - self.iterations_asked
        return f"{number}/{self.iterations_max}" if self.iterations_max else ""


def top_row(view: StatusView, now: datetime) -> TopRow:
    return TopRow(
        view.session,
        view.status,
        view.node.id if view.node else "",
        view.iteration,
        view.iterations_max,
        view.iterations_asked,
        view.attempt,
        view.duration_seconds,
        view.waited_seconds,
        view.cost_usd,
        view.unpriced_models,
        waits_for(view, now),
        view.requests,
        view.item,
        cap_of_run(view.caps, "cost_usd"),
    )


def in_order(rows: Iterable[TopRow]) -> list[TopRow]:
    """Unfinished runs first; otherwise the order stays."""
    rank = {status: number for number, status in enumerate(ORDER)}
    return sorted(rows, key=lambda row: rank.get(row.status, len(ORDER)))


def column_widths(lines: Sequence[Sequence[str]], room: int) -> list[int]:
    """The width of each column, `room` in total with a blank after each. Long texts are
    shortened, the longest first; if that is not enough, the last columns are left out."""
    widths = [max(width(line[number]) for line in lines) for number in range(len(HEADS))]
    while sum(widths) + len(widths) > room:
        longest = max(FLEXIBLE, key=lambda number: widths[number] if number < len(widths) else 0)
        if widths[longest] > MIN_WIDTH:
            widths[longest] -= 1
        elif len(widths) > 1:
            del widths[-1]
        else:
            break
    return widths


def totals(rows: Sequence[TopRow]) -> str:
    """`2 running, 1 paused · $0.42`"""
    counts = Counter(row.status_text for row in rows)
    parts = [", ".join(f"{count} {status}" for status, count in counts.items())]
    unpriced = sorted({model for row in rows for model in row.unpriced_models})
    if spent := cost(sum(row.cap.spent if row.cap else row.cost_usd or 0.0 for row in rows), unpriced):
        parts.append(spent)
    return " · ".join(parts)


def waits_for(view: StatusView, now: datetime) -> str:
    """What has to happen before the run continues; empty if it has ended."""
    match view.status:
        case "running":
            return _while_running(view, now)
        case "paused" | "awaiting_approval" if view.answered and not view.program_hooks:
            return "recover: answered, not continued"
        case "paused" | "awaiting_approval" if not view.answered and (question := _question(view, now)):
            return question
        case _ if view.program_hooks:
            return "the program that registers its hooks"
        case "interrupted":
            return "recover"
        case "failed":
            return f"resume: {view.failure.type}" if view.failure else "resume"
        case "paused" | "awaiting_approval":
            return f"resume: {reason_text(view.pause.reason if view.pause else '')}"
        case _:
            return ""


def _while_running(view: StatusView, now: datetime) -> str:
    for call in view.hooks:
        if call.status != "asking":
            return f"hook {one_line(call.hook)}, {span((now - call.since).total_seconds())}"
    if view.running_check:
        return running_check_text(view.running_check, now)
    for wait in view.waiting:
        return f"{wait.provider}, another {span((wait.until - now).total_seconds())}"
    if question := _question(view, now):
        return question
    if view.node is None:
        return ""
    if any(stage.mark == "current" and stage.branches for stage in view.stages):
        return f"agents ({view.node.provider})"
    again = f", attempt {view.attempt}" if view.attempt > 1 else ""
    return f"agent ({view.node.provider}){again}" if view.attempt else ""


def _question(view: StatusView, now: datetime) -> str:
    """`a person, 5m: Ship it?`"""
    if not view.requests:
        return ""
    first, more = view.requests[0], len(view.requests) - 1
    since = span((now - first.opened_at).total_seconds())
    others = f" (and {more} more)" if more else ""
    return f"{answerers_text(first)}, {since}: {one_line(first.question)}{others}"
