"""A crash run whose system calls are recorded and judged."""

from pathlib import Path

from tests.crash.case import Case, CrashRun
from tests.crash.scenarios import HOOKED, SCENARIOS, SCRIPT, Scenario

from .rules import complaints, read_trace

LARGE = Scenario("large", f"  - {{id: work, prompt: 'do {'x' * 70_000}', runs: 1}}\n")
"""Its plan doesn't fit into a line of the log."""
SHOWN = Scenario(
    "shown",
    "  - {id: work, prompt: one, runs: 1, approve: true}\nviews: [escalations]\n",
    replies=(("approve",),),
)
"""Its requests are shown in files outside its folder."""
ONCE = Scenario("once", "  - {id: work, prompt: one, runs: 2, semantics: at_most_once}\n")
PAUSED = Scenario(
    "paused",
    HOOKED,
    hooks=f"  iteration_end: {SCRIPT.replace('{', '{on_lost: pause, ', 1)}\n",
)
"""A person is asked before its script is repeated."""
PLAYED = {**SCENARIOS, "large": LARGE, "shown": SHOWN, "once": ONCE, "paused": PAUSED}


def recorded(base: Path, case: str, source: Path | None = None, *, has_earlier_run: bool = False) -> CrashRun:
    """Play a case, with another source than the installed one if it is given, and in a project that has the
    folder of an earlier run if asked."""
    played = Case.parse(case)
    run = CrashRun(base, PLAYED[played.scenario])
    if source is not None:
        run.also = {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    if has_earlier_run:
        earlier = run.story.log.parent.parent
        earlier.mkdir(parents=True)
        (earlier / ".gitignore").write_text("*\n")
    run.play(played.planned_kills)
    return run


def judged(run: CrashRun) -> list[str]:
    return complaints(read_trace(run.story.trace), run.story.log)
