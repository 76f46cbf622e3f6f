"""The picture of a pipeline as SVG: nodes from top to bottom, routes back on the right, routes forward on the
left."""

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import Literal

from msgspec import Struct

from agentforge.model.plan import Plan
from agentforge.views.graph import GraphNode, GraphRoute, graph, run_hooks
from agentforge.views.lines.plan import check_subject, graph_hook_line, node_title, people_lines, route_line
from agentforge.views.text import one_line, width

COLUMN, LINE, PAD, GAP, LANE = 7.3, 18.0, 10.0, 30.0, 16.0
"""Of a character, a row of text, the edge of a box, the space between boxes, and lines beside each other."""
MAX_TEXT = 80
COLOURS = {
    "next": "#4b5563",
    "back": "#b45309",
    "skip": "#1d4ed8",
    "ask": "#6d28d9",
    "fail": "#b91c1c",
    "end": "#15803d",
    "check": "#374151",
}
STYLE = (
    "text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace}"
    ".title{font-weight:bold;fill:#111827}"
    "rect{fill:#fff;stroke:#9ca3af;rx:6px}.group{fill:#f3f4f6}"
    "path{fill:none;stroke-width:1.5}"
)


class PictureText(Struct, frozen=True):
    text: str
    colour: str
    route: GraphRoute | None = None


class PictureBox(Struct, frozen=True):
    """A node; `top` is its place in the column."""

    node: GraphNode
    top: float
    texts: tuple[PictureText, ...]
    inner: "PictureColumn | None" = None

    @property
    def width(self) -> float:
        texts = max((width(text.text) for text in self.texts), default=0)
        own = max(width(_title(self.node)) * 1.05, texts) * COLUMN + 2 * PAD
        return max(own, self.inner.width + 2 * PAD if self.inner else 0.0)

    @property
    def height(self) -> float:
        inner = self.inner.height + 2 * PAD if self.inner else 0.0
        return LINE * (1 + len(self.texts)) + 2 * PAD + inner

    @property
    def entry(self) -> float:
        """Where routes arrive."""
        return self.top + PAD + LINE / 2

    def exit(self, row: int) -> float:
        return self.entry + LINE * (row + 1)


class PictureArc(Struct, frozen=True):
    """A route that isn't to the next node, in a lane beside the boxes."""

    side: Literal["back", "skip"]
    begin: float
    end: float
    lane: int


class PictureColumn(Struct, frozen=True):
    boxes: tuple[PictureBox, ...]
    arcs: tuple[PictureArc, ...]

    @property
    def body(self) -> float:
        return max((box.width for box in self.boxes), default=0.0)

    @property
    def width(self) -> float:
        return self.margin("skip") + self.body + self.margin("back")

    @property
    def height(self) -> float:
        last = self.boxes[-1:]
        return sum(box.top + box.height for box in last)

    def margin(self, side: str) -> float:
        """The room for the lanes of a side."""
        return LANE * max((arc.lane + 2 for arc in self.arcs if arc.side == side), default=0)


def graph_svg(plan: Plan) -> str:
    """The picture as the text of an SVG file."""
    column = _column(graph(plan))
    name = one_line(plan.pipeline.name, MAX_TEXT)
    hooks = [_short(graph_hook_line(hook)) for hook in run_hooks(plan)]
    wide = max(column.width, *(width(text) * COLUMN for text in (name, *hooks))) + 2 * PAD
    head = LINE * (1 + len(hooks))
    high = column.height + head + 3 * PAD
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{high:g}"'
            f' viewBox="0 0 {wide:g} {high:g}" role="img">',
            f"<title>{escape(name)}</title><style>{STYLE}</style><defs>",
            *(
                f'<marker id="{action}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7"'
                f' markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" style="fill:{COLOURS[action]}"/>'
                "</marker>"
                for action in ("next", "back", "skip")
            ),
            f'</defs><rect width="{wide:g}" height="{high:g}" style="stroke:none"/>',
            _text(PAD, PAD + LINE * 0.7, name, "#111827", "title"),
            *(
                _text(PAD, PAD + LINE * (row + 0.7), text, COLOURS["check"])
                for row, text in enumerate(hooks, 1)
            ),
            *_drawn(column, PAD, 2 * PAD + head),
            "</svg>\n",
        )
    )


def _column(nodes: Sequence[GraphNode]) -> PictureColumn:
    boxes: list[PictureBox] = []
    top = 0.0
    for node in nodes:
        inner = _column(node.nodes) if node.nodes else None
        boxes.append(PictureBox(node, top, tuple(_texts(node)), inner))
        top += boxes[-1].height + GAP
    return PictureColumn(tuple(boxes), tuple(_arcs(boxes)))


def _texts(node: GraphNode) -> Iterator[PictureText]:
    for line in people_lines(node):
        yield PictureText(_short(line), COLOURS["ask"])
    for check in node.checks:
        yield PictureText(_short(f"check {check.name}: {check_subject(check)}"), COLOURS["check"])
    for hook in node.hooks:
        yield PictureText(_short(graph_hook_line(hook)), COLOURS["check"])
    for route in node.routes:
        if route.action != "next":
            yield PictureText(_short(route_line(route, node.limits)), COLOURS[route.action], route)


def _arcs(boxes: Sequence[PictureBox]) -> Iterator[PictureArc]:
    """The shortest ones are next to the boxes."""
    entries = {box.node.id: box.entry for box in boxes}
    found: list[PictureArc] = []
    for box in boxes:
        for row, text in enumerate(box.texts):
            if text.route and text.route.to and text.route.action in ("back", "skip"):
                side: Literal["back", "skip"] = "back" if text.route.action == "back" else "skip"
                found.append(PictureArc(side, box.exit(row), entries[text.route.to], 0))
    placed: list[PictureArc] = []
    for arc in sorted(found, key=lambda arc: abs(arc.end - arc.begin)):
        taken = {other.lane for other in placed if other.side == arc.side and _overlap(arc, other)}
        # The shortest get the lanes next to the boxes, so that arcs that contain each other don't cross.
        lane = next(lane for lane in range(len(found)) if lane not in taken)
        placed.append(PictureArc(arc.side, arc.begin, arc.end, lane))
    yield from placed


def _overlap(one: PictureArc, other: PictureArc) -> bool:
    return max(min(one.begin, one.end), min(other.begin, other.end)) <= min(
        max(one.begin, one.end), max(other.begin, other.end)
    )


def _drawn(column: PictureColumn, x: float, y: float) -> Iterator[str]:
    """The elements of a column with its corner at that point."""
    left, right = x + column.margin("skip"), x + column.margin("skip") + column.body
    for box in column.boxes:
        yield from _box(box, left, y + box.top, column.body)
    for box, following in pairwise(column.boxes):
        if any(route.action == "next" for route in box.node.routes):
            begin, end = y + box.top + box.height, y + following.top
            yield _path(f"M{left + 24:g} {begin:g}V{end - 1:g}", "next")
    for arc in column.arcs:
        edge, way = (right, 1) if arc.side == "back" else (left, -1)
        lane = edge + way * LANE * (arc.lane + 1)
        yield _path(
            f"M{edge:g} {y + arc.begin:g}H{lane:g}V{y + arc.end:g}H{edge + way:g}",
            arc.side,
        )


def _box(box: PictureBox, x: float, y: float, wide: float) -> Iterator[str]:
    group = ' class="group"' if box.inner else ""
    yield f'<rect{group} x="{x:g}" y="{y:g}" width="{wide:g}" height="{box.height:g}"/>'
    baseline = y + PAD + LINE * 0.7
    yield _text(x + PAD, baseline, _title(box.node), "#111827", "title")
    for row, text in enumerate(box.texts, 1):
        yield _text(x + PAD, baseline + LINE * row, text.text, text.colour)
    if box.inner:
        yield from _drawn(box.inner, x + PAD, y + 2 * PAD + LINE * (1 + len(box.texts)))


def _title(node: GraphNode) -> str:
    return _short(node_title(node))


def _short(text: str) -> str:
    return one_line(text, MAX_TEXT)


def _text(x: float, y: float, text: str, colour: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else f' fill="{colour}"'
    return f'<text x="{x:g}" y="{y:g}"{style}>{escape(text)}</text>'


def _path(line: str, action: str) -> str:
    return f'<path d="{line}" stroke="{COLOURS[action]}" marker-end="url(#{action})"/>'
