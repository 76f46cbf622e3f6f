"""Many real kills: `python -m tests.crash.campaign --kills N --seed S`.

Half of them at exact calls, evenly over all there are; the rest at random moments, and again while the run
is being recovered. With more kills than there are calls, every call gets its turn. Ends with a table; any
violation makes the exit status 1 and is printed with the command that repeats it.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from tests.scratch import memory

from .case import Case, Cut, play
from .checks import violations
from .points import any_escalation, any_reattachment, any_sequence, any_time, baseline, every_case, spread
from .scenarios import SCENARIOS

WORKERS = 2
RANDOM = (any_sequence, any_sequence, any_time, any_time, any_reattachment, any_reattachment, any_escalation)


@dataclass(frozen=True)
class Judged:
    case: Case
    kills: int
    reattached: int
    lost: int
    calls: int
    """Calls of hooks that were lost."""
    asked: int
    violations: list[str]


def judge(case: Case, keep: Path | None = None) -> Judged:
    """Play one case in a temporary folder and report violations; `keep` saves the folder of a bad one."""
    base = Path(tempfile.mkdtemp(prefix="crash-", dir=memory()))
    try:
        story = play(base, case).story
        wrong = violations(story, baseline(case.scenario).state)
        if wrong and keep is not None:
            shutil.copytree(base, keep / base.name)
            wrong = [*wrong, f"kept in {keep / base.name}"]
        seen = Counter(event["type"] for event in story.events())
        types = ("attempt_reattached", "attempt_lost", "hook_lost", "request_opened")
        return Judged(case, len(story.killed), *(seen[kind] for kind in types), wrong)
    finally:
        shutil.rmtree(base)


def draw(kills: int, seed: int, only: Sequence[str] = ()) -> list[Case]:
    """The cases of a campaign, in the order in which they are played; `only` of these scenarios."""
    dice = random.Random(seed)
    cases = spread(every_case(only or SCENARIOS), max(kills // 2, 1), dice)
    while len(cases) < kills:
        any_case = dice.choice((any_sequence, any_time))
        cases.append(any_case(dice, only) if only else dice.choice(RANDOM)(dice))
    dice.shuffle(cases)
    return cases


def run(cases: list[Case], keep: Path | None, workers: int) -> list[Judged]:
    done: list[Judged] = []
    began = time.monotonic()
    with ThreadPoolExecutor(workers) as pool:
        for future in as_completed([pool.submit(judge, case, keep) for case in cases]):
            done.append(future.result())
            for wrong in done[-1].violations:
                say(f"\nVIOLATION {wrong}\n  repeat: python -m tests.crash.campaign --case '{done[-1].case}'")
            bad = sum(1 for judged in done if judged.violations)
            killed = sum(judged.kills for judged in done)
            say(
                f"\r{len(done)}/{len(cases)} runs, {killed} processes killed, {bad} bad, "
                f"{time.monotonic() - began:.0f} s ",
                end="",
            )
    say("")
    return done


def table(done: list[Judged]) -> None:
    row("scenario", "killed at", "runs", "killed", "reattached", "lost", "calls", "asked", "bad")
    rows: dict[tuple[str, str], list[Judged]] = {}
    for judged in done:
        rows.setdefault((judged.case.scenario, _where(judged.case)), []).append(judged)
    for (scenario, where), those in sorted(rows.items()):
        row(scenario, where, *_sums(those))
    row("all", "", *_sums(done))


def _where(case: Case) -> str:
    match tuple(filter(None, case.planned_kills)):
        case ():
            return "nothing"
        case (Cut() as cut,):
            return f"{cut.role} {cut.kind}" + (" after an answer" if len(case.planned_kills) > 1 else "")
        case (_,):
            return "a random moment"
        case (_, _, _, _, *_):
            return "while a person is asked"
    return "again while recovering"


def _sums(those: list[Judged]) -> list[int]:
    counted = [
        sum(getattr(judged, name) for judged in those)
        for name in ("kills", "reattached", "lost", "calls", "asked")
    ]
    return [len(those), *counted, sum(1 for judged in those if judged.violations)]


def row(scenario: str, where: str, *numbers: object) -> None:
    say(f"{scenario:13} {where:36}" + "".join(f"{number:>11}" for number in numbers))


def say(text: str, end: str = "\n") -> None:
    sys.stdout.write(text + end)
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="number of runs with kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--keep", type=Path, help="a folder for the files of runs that went wrong")
    parser.add_argument("--only", nargs="*", default=(), choices=SCENARIOS, help="names of scenarios")
    parser.add_argument("--case", help="play this one case only, as printed with a violation")
    options = parser.parse_args()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    cases = [Case.parse(options.case)] if options.case else draw(options.kills, options.seed, options.only)
    say(f"{len(cases)} runs, seed {options.seed}")
    done = run(cases, options.keep, options.workers)
    table(done)
    return 1 if any(judged.violations for judged in done) else 0


if __name__ == "__main__":
    sys.exit(main())
