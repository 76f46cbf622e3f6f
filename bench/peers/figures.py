"""The samples of all rounds become one row for each system, place and number of steps, with its target."""

from collections.abc import Iterable, Sequence
from statistics import median

from msgspec import Struct

from bench.peers.rounds import AGENTFORGE, LANGGRAPH, WITH_PROGRAMS, Sample, WorkerResult

MAX_OF_LANGGRAPH = 0.5
MAX_BYTES = 2_000
MAX_BYTES_WITH_PROGRAMS = 20_000
FLAT = 1.1


class Row(Struct, frozen=True):
    place: str
    steps: int
    system: str
    rounds: int
    ms_per_step: float
    """The median of the turns."""
    whole_ms_per_step: float
    """Of the whole run, its start, its end and its slowest turns included; the median of the rounds."""
    of_langgraph: float | None
    """The time of a turn divided by LangGraph's of the same turn; the median of the turns."""
    apparent_per_step: float
    allocated_per_step: float


class Target(Struct, frozen=True):
    what: str
    aim: str
    value: float
    met: bool


def rows(samples: Sequence[Sample]) -> list[Row]:
    """By place and steps, in the order in which they were measured first."""
    groups: dict[tuple[str, int, str], list[Sample]] = {}
    for sample in samples:
        groups.setdefault((sample.place, sample.result.steps, sample.system), []).append(sample)
    order = {place: number for number, place in enumerate(dict.fromkeys(s.place for s in samples))}
    names = {system: number for number, system in enumerate(dict.fromkeys(s.system for s in samples))}
    keys = sorted(
        groups, key=lambda key: (order[key[0]], key[2] == WITH_PROGRAMS.name, key[1], names[key[2]])
    )
    return [_row(groups[key], groups.get((*key[:2], LANGGRAPH.name), [])) for key in keys]


def _row(samples: Sequence[Sample], langgraph: Iterable[Sample]) -> Row:
    first = samples[0]
    results = [sample.result for sample in samples]
    beside = {sample.round: sample.result for sample in langgraph}
    ratios = [
        ours / theirs
        for sample in samples
        if sample.round in beside
        for ours, theirs in zip(_turns(sample.result), _turns(beside[sample.round]), strict=False)
    ]
    is_compared = first.system not in (LANGGRAPH.name, WITH_PROGRAMS.name)
    return Row(
        place=first.place,
        steps=first.result.steps,
        system=first.system,
        rounds=len(samples),
        ms_per_step=1000 * median(turn for one in results for turn in _turns(one)),
        whole_ms_per_step=1000 * median(one.seconds / one.steps for one in results),
        of_langgraph=median(ratios) if ratios and is_compared else None,
        apparent_per_step=median(one.apparent_bytes / one.steps for one in results),
        allocated_per_step=median(one.allocated_bytes / one.steps for one in results),
    )


def _turns(results: WorkerResult) -> list[float]:
    """Seconds per step of each turn but the first, in which the run is started."""
    return [turn / results.turn_steps for turn in results.turns[1:]] or [results.seconds / results.steps]


def targets(found: Sequence[Row]) -> list[Target]:
    """Of every place. Bytes are those in files; what a file system makes of them is shown beside."""
    judged = []
    for row in found:
        at = f"{row.place}, {row.steps:,} steps"
        if row.system == AGENTFORGE.name:
            if row.of_langgraph is not None:
                judged.append(
                    _target(f"time beside LangGraph: {at}", row.of_langgraph, MAX_OF_LANGGRAPH, " ×")
                )
            judged.append(_target(f"disk per step: {at}", row.apparent_per_step, MAX_BYTES, " bytes"))
        elif row.system == WITH_PROGRAMS.name:
            most = MAX_BYTES_WITH_PROGRAMS
            judged.append(_target(f"disk per program: {at}", row.apparent_per_step, most, " bytes"))
    return judged + _flat(found)


def _flat(found: Sequence[Row]) -> list[Target]:
    """Bytes per step of the longest run beside those of the shortest, at each place."""
    judged = []
    for name, what in ((AGENTFORGE.name, "disk per step"), (WITH_PROGRAMS.name, "disk per program")):
        for place in dict.fromkeys(row.place for row in found):
            here = sorted((r for r in found if (r.place, r.system) == (place, name)), key=lambda r: r.steps)
            if len(here) > 1:
                growth = here[-1].apparent_per_step / here[0].apparent_per_step
                at = f"{place}, {here[-1].steps:,} steps against {here[0].steps:,}"
                judged.append(_target(f"{what}, flat: {at}", growth, FLAT, " ×"))
    return judged


def _target(what: str, value: float, most: float, unit: str) -> Target:
    return Target(what, f"≤ {most:,g}{unit}", value, value <= most)
