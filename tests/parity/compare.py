"""A recorded case beside ours: every difference, each with the rule that explains it, if one does.

plan.json and context.json have to hold all that was recorded; state.json, manifests and the log are
compared by meaning; result.json by structure; output.md is the agent's own.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.parity import canonical, divergences
from tests.parity.canonical import Placeholders, Step, load, same_session, steps, without_times
from tests.parity.differences import MISSING, Difference, differ, structure
from tests.parity.explain import explain
from tests.parity.recorded import Case, Moment, read_events
from tests.parity.replay import Kept, Outcome, Played

ITERATION = re.compile(
    r"^(?:stage|parallel)-(\d\d)-[^/]+(?:/providers/([^/]+)/stage-\d\d-[^/]+)?/iterations/(\d+)/"
)
NODE = re.compile(r"^(?:stage|parallel)-(\d\d)-")
# Written by the shell engine for its own tools, or copied from the input.
NOT_COMPARED = re.compile(r"\.lock$|\.tmp$|^judge\.log$|^pipeline\.yaml$|^events\.jsonl$|^state\.json$")
BY_STRUCTURE = frozenset({"result.json", "status.json", "judge.json"})


@dataclass
class Report:
    case: str
    checked: int = 0
    """Files, logs and commands that were compared."""
    found: list[tuple[Difference, str | None]] = field(default_factory=list)
    """Every difference with its rule, or with none."""
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """What couldn't be played, and why."""

    @property
    def unexplained(self) -> list[Difference]:
        return [difference for difference, rule in self.found if rule is None]

    @property
    def used(self) -> list[str]:
        return sorted({rule for _, rule in self.found if rule is not None})

    def note(self, difference: Difference, rule: str | None) -> None:
        self.found.append((difference, rule))


@dataclass
class Pair:
    """One session on both sides."""

    case: Case
    session: str
    moment: Moment
    ours: Path
    recorded_names: Placeholders
    our_names: Placeholders
    recorded_events: list[dict[str, Any]]
    our_events: list[dict[str, Any]]
    is_partial: bool = False
    """Whether a later command of the session couldn't be played."""
    parted: dict[tuple[str, str], int] = field(default_factory=dict)
    """From which iteration of a node (and provider) on the two sides went different ways."""
    ended: bool = False
    """Whether they never came together again."""

    @property
    def recorded_dir(self) -> Path:
        return self.moment.run_dir(self.session)

    @property
    def recorded_plan(self) -> Any:
        return load(self.recorded_dir / "plan.json", self.recorded_names)

    @property
    def given(self) -> dict[str, set[str]]:
        about = [command for command in self.case.commands if command.session == self.session]
        names = {name for command in about for name in command.given}
        return {name: {c.given[name] for c in about if name in c.given} for name in names}

    @property
    def our_plan(self) -> Any:
        return load(self.ours / "plan.json", self.our_names)

    def part(self, step: Step, iteration: int) -> None:
        self.parted.setdefault((step.node, step.provider), iteration)

    def is_past(self, node: str, provider: str, iteration: int) -> bool:
        since = self.parted.get((node, provider), self.parted.get((node, "")))
        return iteration >= since if since is not None else self.is_after(node)

    def is_after(self, node: str) -> bool:
        return self.ended and any(int(node) > int(parted) for parted, _ in self.parted)


def compare(played: Played) -> Report:
    case = played.case
    report = Report(case.name)
    for outcome in played.outcomes:
        _command(report, outcome, played)
    for session in case.sessions():
        _session(report, played, session)
    for session in played.sessions() if case.sessions() else ():
        if not any(same_session(recorded, [session]) for recorded in case.sessions()):
            if any(o.command.session == session and o.command.rc == 0 for o in played.outcomes):
                continue  # The recording has run it, too, and didn't keep its files.
            added = Difference("sessions", session, MISSING, "a run")
            report.note(added, divergences.explain_added(session, played))
    return report


def _command(report: Report, outcome: Outcome, played: Played) -> None:
    command = outcome.command
    if outcome.rc is None:
        report.skipped.append((command.label, outcome.skipped))
        return
    report.checked += 1
    if command.rc is not None and command.rc != outcome.rc:
        difference = Difference(f"{command.label} {' '.join(command.words)}", "exit", command.rc, outcome.rc)
        report.note(difference, divergences.explain_exit(outcome, played))
    if command.positional[:1] == ["status"] and command.rc == outcome.rc == 0:
        recorded, ours = _status(command.out), _status(outcome.out)
        if recorded != ours:
            difference = Difference(f"{command.label} {' '.join(command.words)}", "Status", recorded, ours)
            report.note(difference, divergences.explain_status(outcome, recorded, ours, played))


def _status(text: str) -> str:
    word = re.search(r"^Status: (\w+)", text, re.MULTILINE)
    found = word[1] if word else ""
    return canonical.COMPLETED.get(found, found)


def _session(report: Report, played: Played, session: str) -> None:
    moment = played.case.last_of(session)
    assert moment is not None
    ours = same_session(session, played.sessions())
    if ours is None:
        if not any(o.command.session == session and o.rc is None for o in played.outcomes):
            missing = Difference("sessions", session, "a run", MISSING)
            report.note(missing, divergences.explain_missing(session, played))
        return
    pair = Pair(
        case=played.case,
        session=session,
        moment=moment,
        ours=played.run_dir(ours),
        recorded_names=Placeholders("@PROJECT@", session),
        our_names=Placeholders(str(played.project), ours),
        recorded_events=moment.events(session),
        our_events=read_events(played.run_dir(ours) / "events.jsonl"),
        is_partial=any(o.command.session == session and o.by_hand for o in played.outcomes),
    )
    if pair.recorded_events:
        report.checked += 1
        _events(report, pair)
    for path in sorted(pair.recorded_dir.rglob("*")):
        if path.is_file() and not NOT_COMPARED.search(path.name):
            _file(report, pair, str(path.relative_to(pair.recorded_dir)))
    _states(report, pair, [kept for kept in played.kept if kept.session == ours])


def _events(report: Report, pair: Pair) -> None:
    recorded, ours = steps(pair.recorded_events), steps(pair.our_events)
    at = 0
    while at < max(len(recorded), len(ours)):
        left, right = _at(recorded, at), _at(ours, at)
        if left == right:
            at += 1
            continue
        if pair.is_partial:
            pair.part(*_place(recorded, ours, at))
            pair.ended = True
            return
        divergence = divergences.explain_divergence(recorded, ours, at, pair)
        where = Difference(f"{pair.session} events.jsonl", "", str(left or MISSING), str(right or MISSING))
        report.note(where, divergence.rule if divergence else None)
        pair.part(*_place(recorded, ours, at))
        rejoined = divergence.rejoin(recorded, ours, at) if divergence else None
        if rejoined is None:
            pair.ended = True
            return
        (recorded, ours), at = rejoined, 0


def _at(found: list[Step], index: int) -> Step | None:
    return found[index] if index < len(found) else None


def _place(recorded: list[Step], ours: list[Step], at: int) -> tuple[Step, int]:
    """Where the two sides parted, and from which iteration on."""
    known = [
        step for step in (_at(recorded, at), _at(ours, at), *reversed(recorded[:at])) if step and step.node
    ]
    here = known[0] if known else Step("", "0", 0)
    if here.iteration:
        return here, here.iteration
    done = [s.iteration for s in recorded[:at] if (s.node, s.provider) == (here.node, here.provider)]
    return here, max(done, default=0) + 1


def _file(report: Report, pair: Pair, inside: str) -> None:
    if _is_past(pair, inside):
        return
    where, ours = f"{pair.session} {inside}", pair.ours / inside
    if not ours.is_file():
        missing = Difference(where, "", "a file", MISSING)
        report.note(missing, explain(missing, pair))
        return
    report.checked += 1
    for difference in _compared(pair, inside, where):
        report.note(difference, explain(difference, pair))


def _is_past(pair: Pair, inside: str) -> bool:
    """Whether the file belongs to a part of the run that the two sides don't share."""
    if place := ITERATION.search(inside):
        return pair.is_past(str(int(place[1])), place[2] or "", int(place[3]))
    node = NODE.search(inside)
    if node is None:
        return False
    number = str(int(node[1]))
    return pair.is_after(number) or any(parted == number for parted, _ in pair.parted)


def _compared(pair: Pair, inside: str, where: str) -> list[Difference]:
    path, ours = pair.recorded_dir / inside, pair.ours / inside
    if path.name == "output.md":
        return []
    if path.suffix == ".md":
        return list(differ(where, path.read_text(), pair.our_names.put(ours.read_text())))
    left, right = load(path, pair.recorded_names), load(ours, pair.our_names)
    if path.name in BY_STRUCTURE:
        return list(differ(where, structure(left), structure(right)))
    return list(differ(where, without_times(left), without_times(right)))


def _states(report: Report, pair: Pair, kept: list[Kept]) -> None:
    """state.json at every recorded moment that our run came through, too."""
    for moment in pair.case.moments:
        path = moment.run_dir(pair.session) / "state.json"
        if not path.is_file():
            continue
        recorded = steps(moment.events(pair.session))
        same = next((state for state in reversed(kept) if steps(state.events) == recorded), None)
        if same is not None:
            report.checked += 1
            _state(report, pair, load(path, pair.recorded_names), same, f"{pair.session} state.json")
            for branch in sorted(moment.run_dir(pair.session).glob("parallel-*/providers/*/state.json")):
                _branch(report, pair, branch, moment, same is kept[-1])


def _state(report: Report, pair: Pair, recorded: Any, kept: Kept, where: str) -> None:
    stage = next(
        (e["data"].get("stage", "") for e in pair.recorded_events if e["type"] == "session_start"), ""
    )
    folders = sorted(path.name for path in pair.ours.iterdir() if NODE.match(path.name))
    left = canonical.renamed_state(without_times(recorded), stage, folders)
    right = canonical.our_state(without_times(json.loads(pair.our_names.put(kept.state))))
    for difference in differ(where, left, right):
        report.note(difference, explain(difference, pair))


def _branch(report: Report, pair: Pair, path: Path, moment: Moment, is_last: bool) -> None:
    inside = str(path.relative_to(moment.run_dir(pair.session)))
    ours = load(pair.ours / inside, pair.our_names)
    if not is_last:
        return
    report.checked += 1
    recorded = canonical.renamed_branch(without_times(load(path, pair.recorded_names)))
    for difference in differ(f"{pair.session} {inside}", recorded, without_times(ours)):
        report.note(difference, explain(difference, pair))
