"""The measures as an aligned table for people, and as JSON for tools."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.long_runs import Stretch
from bench.machine import Machine
from bench.measure import Measure

HEADINGS = ("measure", "value", "floor", "ratio", "aim", "met", "what the floor is")
NUMBERS = frozenset(
    {"value", "floor", "ratio", "iterations", "disk bytes/iteration", "Python bytes alive", "resident bytes"}
)


class Report(Struct, frozen=True):
    machine: Machine
    quick: bool
    seconds: float
    measures: list[Measure]
    growth: list[Stretch]


def write_json(report: Report, path: Path) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n")


def text(report: Report) -> str:
    facts = ", ".join(f"{name} {value}" for name, value in msgspec.structs.asdict(report.machine).items())
    growth = [
        (f"{s.to:,}", f"{s.bytes_per_iteration:,.0f}", f"{s.python_bytes:,}", f"{s.rss_bytes:,}")
        for s in report.growth
    ]
    parts = [
        facts,
        table(HEADINGS, [_cells(measure) for measure in report.measures]),
        table(("iterations", "disk bytes/iteration", "Python bytes alive", "resident bytes"), growth),
        f"took {report.seconds:.0f} s{' (quick: too few samples to judge by)' if report.quick else ''}",
    ]
    return "\n\n".join(parts)


def _cells(measure: Measure) -> tuple[str, ...]:
    return (
        measure.name,
        _quantity(measure.value, measure.unit),
        "" if measure.floor_value is None else _quantity(measure.floor_value, measure.unit),
        "" if measure.ratio is None else _ratio(measure.ratio),
        measure.aim or "",
        "" if measure.met is None else "yes" if measure.met else "NO",
        measure.floor or "",
    )


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.4f}"


def _quantity(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.1f} {unit}"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: frozenset[str] = NUMBERS) -> str:
    """Names and words to the left, the columns `numbers` to the right."""
    widths = [max(len(row[i]) for row in (headings, *rows)) for i in range(len(headings))]
    lines = []
    for row in (headings, ["-" * width for width in widths], *rows):
        cells = [
            cell.rjust(width) if heading in numbers else cell.ljust(width)
            for heading, cell, width in zip(headings, row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
