"""All measurements: as aligned tables for people, and as JSON for tools."""

from pathlib import Path

import msgspec
from msgspec import Struct

from bench.machine import Machine
from bench.peers.figures import Row, Target, rows, targets
from bench.peers.rounds import Sample
from bench.report import table

HEADINGS = (
    "place",
    "steps",
    "system",
    "ms/step",
    "of LangGraph",
    "whole run",
    "bytes/step",
    "allocated/step",
)
NUMBERS = frozenset({"steps", "value", *HEADINGS[3:]})


class Report(Struct, frozen=True):
    machine: Machine
    seconds: float
    places: dict[str, str]
    versions: dict[str, str]
    rows: list[Row]
    targets: list[Target]
    skipped: list[str]
    missing: list[str]
    """Measurements that are missing."""
    samples: list[Sample]


def report(
    machine: Machine,
    seconds: float,
    places: dict[str, str],
    samples: list[Sample],
    skipped: list[str],
    missing: list[str],
) -> Report:
    versions = {sample.system: sample.result.version for sample in samples if sample.result.version}
    found = rows(samples)
    return Report(machine, seconds, places, versions, found, targets(found), skipped, missing, samples)


def write_json(found: Report, path: Path) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


def text(found: Report) -> str:
    facts = ", ".join(f"{name} {value}" for name, value in msgspec.structs.asdict(found.machine).items())
    versions = ", ".join(f"{system} {version}" for system, version in found.versions.items())
    places = "\n".join(f"{kind}: {about}" for kind, about in found.places.items())
    judged = [(t.what, _number(t.value), t.aim, "yes" if t.met else "NO") for t in found.targets]
    notes = [*found.skipped, *(f"missing: {what}" for what in found.missing)]
    parts = [
        f"{facts}\n{versions}\n{places}",
        table(HEADINGS, [_cells(row) for row in found.rows], NUMBERS),
        table(("target", "value", "aim", "met"), judged, NUMBERS),
        *(["\n".join(notes)] if notes else []),
        f"took {found.seconds:.0f} s",
    ]
    return "\n\n".join(parts)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        row.place,
        f"{row.steps:,}",
        row.system,
        f"{row.ms_per_step:.2f}",
        "" if row.of_langgraph is None else f"{row.of_langgraph:.2f}",
        f"{row.whole_ms_per_step:.2f}",
        f"{row.apparent_per_step:,.0f}",
        f"{row.allocated_per_step:,.0f}",
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
