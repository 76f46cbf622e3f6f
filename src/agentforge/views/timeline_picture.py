"""The timeline of a run as SVG: a row for each part, with a bar from its beginning to its end."""

from collections.abc import Iterator, Sequence
from html import escape

from agentforge.model.status import status_text
from agentforge.views.lines.timeline import timeline_mark, timeline_text
from agentforge.views.text import one_line
from agentforge.views.timeline import TimelineRow, drawn_rows
from agentforge.views.timeline_scale import Scale

COLUMN, ROW, PAD = 7.3, 20.0, 16.0
"""Of a character, a row, and the edge of the picture."""
LABELS, BARS, TEXTS = 300.0, 640.0, 400.0
HEAD = 3 * ROW
TICKS = 8
MIN_BAR = 2.0
STYLE = (
    ":root{color-scheme:light dark;--page:#fff;--text:#111827;--dim:#6b7280;--line:#e5e7eb;--done:#15803d;"
    "--failed:#b91c1c;--wait:#d97706;--current:#1d4ed8}"
    "@media(prefers-color-scheme:dark){:root{--page:#0d1117;--text:#e5e7eb;--dim:#9ca3af;--line:#30363d;"
    "--done:#3fb950;--failed:#f85149;--wait:#d29922;--current:#58a6ff}}"
    "text{font:12px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:var(--text)}"
    ".page{fill:var(--page)}.head{font-weight:bold}.dim{fill:var(--dim)}path{stroke:var(--line)}"
    ".done{fill:var(--done)}.failed{fill:var(--failed)}.wait{fill:var(--wait);fill-opacity:.6}"
    ".current,.stopped{fill:var(--current)}.note{fill:var(--dim)}"
)
"""Light or dark, as the viewer is."""


def timeline_svg(rows: Sequence[TimelineRow], status: str) -> str:
    """The picture as the text of an SVG file; `status`: of the run, as it is shown."""
    drawn, scale = drawn_rows(rows), Scale(rows)
    run, wide, high = rows[0], LABELS + BARS + TEXTS + 2 * PAD, HEAD + ROW * len(drawn) + 2 * PAD
    began = f"began {run.started_at:%Y-%m-%d %H:%M:%S} UTC"
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{high:g}"'
            f' viewBox="0 0 {wide:g} {high:g}" role="img" aria-labelledby="title about">',
            f'<title id="title">Timeline of {escape(one_line(run.name))}</title>',
            f'<desc id="about">{escape(f"{began}, {timeline_text(run)}")}</desc>',
            f'<style>{STYLE}</style><rect class="page" width="{wide:g}" height="{high:g}"/>',
            _text(PAD, 0, _short(f"{run.name}: {status_text(status)}", wide), "head"),
            _text(PAD, 1, began, "dim"),
            *_axis(scale, high),
            *(part for n, row in enumerate(drawn) for part in _row(n, row, scale, status)),
            "</svg>\n",
        )
    )


def _axis(scale: Scale, high: float) -> Iterator[str]:
    free = 0.0
    for tick in scale.ticks(TICKS):
        x, text = PAD + LABELS + BARS * tick.at, f"≈ {tick.text}" if tick.is_cut else tick.text
        if not tick.is_cut:
            yield f'<path d="M{x:.1f} {HEAD + PAD:g}V{high - PAD:g}"/>'
        if x >= free:
            yield _text(x, 2, text, "dim")
            free = x + COLUMN * (len(text) + 1)


def _row(number: int, row: TimelineRow, scale: Scale, status: str) -> Iterator[str]:
    begins, ends = BARS * scale.at(row.started_at), BARS * scale.at(row.ended_at)
    length, mark, text = max(MIN_BAR, ends - begins), timeline_mark(row, status), timeline_text(row)
    indent, y = 2 * COLUMN * row.depth, PAD + HEAD + ROW * number
    yield f"<g><title>{escape(f'{one_line(row.name)}: {text}')}</title>"
    yield _text(PAD + indent, number + 3, _short(row.name, LABELS - indent))
    yield (
        f'<rect class="{mark}" x="{PAD + LABELS + begins:.1f}" y="{y + 4:g}" width="{length:.1f}"'
        f' height="{ROW - 8:g}" rx="2"/>'
    )
    yield f"{_text(PAD + LABELS + BARS + PAD, number + 3, _short(text, TEXTS - PAD), 'dim')}</g>"


def _text(x: float, row: int, text: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text x="{x:.1f}" y="{PAD + ROW * (row + 0.7):g}"{style}>{escape(text)}</text>'


def _short(text: str, wide: float) -> str:
    return one_line(text, int(wide / COLUMN) - 1)
