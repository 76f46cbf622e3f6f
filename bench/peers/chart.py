"""A small bar chart of a report, as SVG: time per step at each place, and bytes per step."""

from collections.abc import Sequence
from html import escape

from bench.peers.figures import Row
from bench.peers.rounds import AGENTFORGE, WITH_PROGRAMS

LEFT, BARS, RIGHT = 130, 360, 110
BAR, GAP, HEADING = 16, 6, 30
OURS, OTHERS = "#1f6feb", "#8b949e"


def svg(rows: Sequence[Row]) -> str:
    """Of the longest runs."""
    in_process = [row for row in rows if row.system != WITH_PROGRAMS.name]
    longest = max(row.steps for row in in_process)
    shown = [row for row in in_process if row.steps == longest]
    places = dict.fromkeys(row.place for row in shown)
    panels = [
        (
            f"ms per step, {place}, {longest:,} steps",
            [(r.system, r.ms_per_step, 2) for r in shown if r.place == place],
        )
        for place in places
    ]
    first = next(iter(places))
    disk = [(row.system, row.allocated_per_step, 0) for row in shown if row.place == first]
    panels.append((f"bytes on disk per step, {first}, {longest:,} steps", disk))
    parts: list[str] = []
    top = 10
    for title, bars in panels:
        parts.append(f'<text x="10" y="{top + 18}" font-weight="bold">{escape(title)}</text>')
        top += HEADING
        most = max(value for _, value, _ in bars)
        for name, value, digits in bars:
            parts += _bar(top, name, value / most, f"{value:,.{digits}f}")
            top += BAR + GAP
        top += GAP
    width = LEFT + BARS + RIGHT
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{top}" viewBox="0 0 {width} {top}" '
        'font-family="sans-serif" font-size="12" fill="#24292f">'
    )
    return "\n".join([head, f'<rect width="{width}" height="{top}" fill="#ffffff"/>', *parts, "</svg>", ""])


def _bar(top: int, name: str, part: float, value: str) -> list[str]:
    length = max(1, round(BARS * part))
    colour = OURS if name == AGENTFORGE.name else OTHERS
    return [
        f'<text x="{LEFT - 8}" y="{top + 12}" text-anchor="end">{escape(name)}</text>',
        f'<rect x="{LEFT}" y="{top}" width="{length}" height="{BAR}" fill="{colour}"/>',
        f'<text x="{LEFT + length + 6}" y="{top + 12}">{value}</text>',
    ]
