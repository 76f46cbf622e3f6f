"""Where to kill: every call of an uninterrupted run, and random choices for everything else."""

import fcntl
import pickle
import random
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tests.scratch import memory

from .case import Case, CrashRun, Cut, Moment, PlannedKill
from .checks import final_state
from .killer import WHENS, WRITES
from .scenarios import SCENARIOS

SUBSETS = (
    "engine",
    "supervisor",
    "agent",
    "engine+supervisor",
    "engine+agent",
    "supervisor+agent",
    "engine+supervisor+agent",
    "engine+supervisor+agent+power",
)
WHILE_AGENTS_WORK = ("append", "spawn", "send", "signal", "claim")
WITH_SENDER = ("sender", "engine", "sender+engine", "sender+engine+supervisor+agent")
RECOVERING = (
    "append",
    "append",
    "append",
    "sync",
    "create",
    "write",
    "rename",
    "claim",
    "spawn",
    "mkdir",
    "unlink",
)


@dataclass(frozen=True)
class Baseline:
    """An uninterrupted run: its final state, and the duration and the calls of its engines."""

    state: dict[str, Any]
    turns: tuple[tuple[float, dict[tuple[str, str], int]], ...]
    """Of the engine that begins the run, then of each that a person's answer starts."""

    @property
    def counts(self) -> dict[tuple[str, str], int]:
        return self.turns[0][1]


shared_folder: Path | None = None
"""Where the processes of one test run keep their baselines, so that each is played once."""


@cache
def baseline(scenario: str) -> Baseline:
    if shared_folder is None:
        return _played(scenario)
    shared_folder.mkdir(exist_ok=True)
    with (shared_folder / scenario).open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not file.tell():
            pickle.dump(_played(scenario), file)
            file.flush()
        file.seek(0)
        found: Baseline = pickle.load(file)
        return found


def _played(scenario: str) -> Baseline:
    with tempfile.TemporaryDirectory(prefix="crash-", dir=memory()) as folder:
        run = CrashRun(Path(folder), SCENARIOS[scenario])
        story = run.play(())
        if story.trouble or story.status() != SCENARIOS[scenario].ends:
            raise RuntimeError(f"{scenario} failed without any kill: {story.status()} {story.trouble}")
        turns = ((seconds, run.counts(turn)) for turn, seconds in enumerate(run.seconds, 1))
        return Baseline(final_state(story), tuple(turns))


def cases_of(scenario: str) -> Iterator[Case]:
    """Every call of the uninterrupted run, before, after and, where bytes move, in the middle of it."""
    for turn, (_, counts) in enumerate(baseline(scenario).turns):
        for (role, kind), calls in counts.items():
            for n in range(1, calls + 1):
                for victims in _victims(role, kind):
                    for when in _whens(role, kind, victims):
                        yield Case(scenario, (*(None,) * turn, Cut(role, kind, n, when, victims)))


def _victims(role: str, kind: str) -> tuple[str, ...]:
    """While an engine is busy with other work, there is seldom another process to kill."""
    if role == "sender":
        return WITH_SENDER
    if role == "engine" and kind not in WHILE_AGENTS_WORK:
        return tuple(victims for victims in SUBSETS if "engine" in victims)
    return SUBSETS


def _whens(role: str, kind: str, victims: str) -> tuple[str, ...]:
    """Only a process that dies during a write leaves half of it."""
    return WHENS if kind in WRITES and role in victims.split("+") else ("before", "after")


def every_case(scenarios: Iterable[str] = SCENARIOS) -> list[Case]:
    return [case for scenario in scenarios for case in cases_of(scenario)]


def spread(cases: list[Case], count: int, dice: random.Random) -> list[Case]:
    """`count` of them, spread evenly over the whole list and chosen by the dice."""
    if count >= len(cases):
        return cases
    step = len(cases) / count
    return [cases[int(i * step + dice.random() * step)] for i in range(count)]


def any_time(dice: random.Random, scenarios: Iterable[str] = SCENARIOS) -> Case:
    scenario = dice.choice(sorted(scenarios))
    turn = dice.randrange(len(baseline(scenario).turns))
    return Case(scenario, (*(None,) * turn, any_moment(scenario, dice, turn)))


def any_moment(scenario: str, dice: random.Random, turn: int = 0) -> Moment:
    victims = dice.choice(
        (*SUBSETS, "engine", "engine")
    )  # Alone more often: then its agent is reattached to.
    return Moment(round(dice.uniform(0.0, baseline(scenario).turns[turn][0]), 3), victims)


def any_sequence(dice: random.Random, scenarios: Iterable[str] = SCENARIOS) -> Case:
    """A kill, and one or two more while the run is being recovered."""
    scenario = dice.choice(sorted(scenarios))
    first = Case(scenario, (any_moment(scenario, dice),))
    if dice.random() < 0.7:
        first = dice.choice(list(cases_of(scenario)))
    return Case(
        scenario,
        (*first.planned_kills, *(_while_recovering(scenario, dice) for _ in range(dice.randint(1, 2)))),
    )


def any_reattachment(dice: random.Random) -> Case:
    """The engine alone dies while its agent works; and perhaps the one that reattaches to it, too."""
    scenario = dice.choice(("plain", "retry", "stage", "delay", "pause"))
    notes = baseline(scenario).counts["agent", "note"]
    orphan = Cut("agent", "note", dice.randint(1, notes), "after", "engine")
    second = Cut(
        "engine", dice.choice(("append", "sync", "rename")), dice.randint(1, 2), _any_when(dice), "engine"
    )
    return Case(scenario, (orphan, second) if dice.random() < 0.4 else (orphan,))


def any_escalation(dice: random.Random) -> Case:
    """Three agents lost in a row, so that a person is asked; another kill while asking and answering."""
    lost = Cut("agent", "note", 1, "after", "engine+supervisor+agent")
    asking = Cut("engine", dice.choice(("append", "sync", "rename", "unlink")), 1, _any_when(dice), "engine")
    kind = dice.choice(("append", "link", "create", "sync", "unlink", "write", "rename"))
    answering = Cut("engine", kind, dice.randint(1, 3), _any_when(dice), "engine")
    return Case(dice.choice(("plain", "delay")), (lost, lost, lost, *dice.sample((asking, answering), 2)))


def _any_when(dice: random.Random) -> str:
    return dice.choice(("before", "after"))


def _while_recovering(scenario: str, dice: random.Random) -> PlannedKill:
    if dice.random() < 0.3:
        return any_moment(scenario, dice)
    kind = dice.choice(RECOVERING)
    victims = dice.choice(SUBSETS)
    return Cut("engine", kind, dice.randint(1, 6), dice.choice(_whens("engine", kind, victims)), victims)
