"""How long a person waits for `status`: the whole program, from start to end."""

import sys
from pathlib import Path
from statistics import median

from bench import floors
from bench.long_logs import write_run
from bench.measure import Measure

AT_MOST_MS = 150.0


def status(root: Path, longest: int, rounds: int) -> list[Measure]:
    """For a short log, a long one, and a long one whose state.json is gone, so that all of it is read."""
    short = write_run(root, "status-short", 50).session
    long = write_run(root, "status-long", longest).session
    bare = write_run(root, "status-bare", longest)
    Path(bare.state).unlink()
    spent: dict[str, list[float]] = {short: [], long: [], bare.session: []}
    floor: list[float] = []
    for _ in range(rounds):
        floor.append(floors.start_python())
        for session, seconds in spent.items():
            seconds.append(floors.run(_argv(session), cwd=root))
    return [
        _measure("status, 50 events", spent[short], floor, has_aim=True),
        _measure(f"status, {longest:,} events", spent[long], floor, has_aim=True),
        _measure(f"status, {longest:,} events, no state.json", spent[bare.session], floor, has_aim=False),
    ]


def _argv(session: str) -> list[str]:
    program = Path(sys.executable).with_name("agentforge")
    return [str(program), "status", session]


def _measure(name: str, seconds: list[float], floor: list[float], *, has_aim: bool) -> Measure:
    value, least = median(seconds) * 1000, median(floor) * 1000
    aim = f"≤ {AT_MOST_MS:g} ms" if has_aim else None
    met = value <= AT_MOST_MS if has_aim else None
    return Measure(name, "ms", value, floors.PYTHON, least, value / least, aim, met)
