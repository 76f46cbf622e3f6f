"""The time of `status`, from the start of the program to its end."""

import sys
from pathlib import Path
from statistics import median

from bench import floors
from bench.long_logs import long_run
from bench.measure import Measure

MAX_MS = 150.0
SHORT = 50


def status(root: Path, longest: int, rounds: int) -> list[Measure]:
    """For a short log, a long one, and the long one without state.json, so that all of it is read."""
    short, long = long_run(root, SHORT), long_run(root, longest)
    floor, spent = _rounds(root, (short.session, long.session), rounds)
    Path(long.state).unlink()
    bare_floor, bare = _rounds(root, (long.session,), max(2, rounds // 4))
    return [
        _measure(f"status, {SHORT} events", spent[0], floor, has_aim=True),
        _measure(f"status, {longest:,} events", spent[1], floor, has_aim=True),
        _measure(f"status, {longest:,} events, no state.json", bare[0], bare_floor, has_aim=False),
    ]


def _rounds(root: Path, sessions: tuple[str, ...], rounds: int) -> tuple[list[float], list[list[float]]]:
    floor: list[float] = []
    spent: list[list[float]] = [[] for _ in sessions]
    for _ in range(rounds):
        floor.append(floors.start_python())
        for session, seconds in zip(sessions, spent, strict=True):
            seconds.append(floors.run(_argv(session), cwd=root))
    return floor, spent


def _argv(session: str) -> list[str]:
    program = Path(sys.executable).with_name("agentforge")
    return [str(program), "status", session]


def _measure(name: str, seconds: list[float], floor: list[float], *, has_aim: bool) -> Measure:
    value, least = median(seconds) * 1000, median(floor) * 1000
    aim = f"≤ {MAX_MS:g} ms" if has_aim else None
    met = value <= MAX_MS if has_aim else None
    return Measure(name, "ms", value, floors.PYTHON, least, value / least, aim, met)
