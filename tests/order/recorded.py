"""A crash run whose system calls are recorded and judged."""

from pathlib import Path

from tests.crash.case import Case, CrashRun
from tests.crash.scenarios import SCENARIOS

from .rules import complaints, read_trace


def recorded(base: Path, case: str, source: Path | None = None) -> CrashRun:
    """Play a case, with another source than the installed one if it is given."""
    played = Case.parse(case)
    run = CrashRun(base, SCENARIOS[played.scenario])
    if source is not None:
        run.also = {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    run.play(played.planned_kills)
    return run


def judged(run: CrashRun) -> list[str]:
    return complaints(read_trace(run.story.trace), run.story.log)
