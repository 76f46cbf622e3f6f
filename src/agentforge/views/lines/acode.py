"""What `acode` prints of a run: a line for each event that matters, with the stage in capitals.

`agentforge` has other lines (`events.py`). Both say the same of an event that is not in the table here.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.checks.feedback import END_OF_OUTPUT
from agentforge.engine.decide.failure import EXHAUSTED
from agentforge.model import facts as f
from agentforge.model.artifact import ItemAt
from agentforge.model.event import Event
from agentforge.model.facts import Fact
from agentforge.model.place import visits_key
from agentforge.model.plan import PASS, Items, ParallelNode, Plan, StageNode
from agentforge.model.result import Decision, JSONObject
from agentforge.model.state import RunState, StageState
from agentforge.views.lines.events import run_line
from agentforge.views.lines.row import LineMark, RunLine, message
from agentforge.views.lines.status import StatusRow, status_rows
from agentforge.views.orchestration import CYCLES
from agentforge.views.run_model import RunModel
from agentforge.views.status import StatusView
from agentforge.views.structured_work import item_titles
from agentforge.views.text import one_line, reason_text
from agentforge.views.visits import StageVisit

ORCHESTRATOR = "ORCHESTRATOR"
BLANK = RunLine("")
TEST = "test"
MAX_LISTED = 50
SHOWN_STATUS = frozenset({"Status", "Cycle", "Error", "Pause reason", "Question", "Answer", "Resume"})
"""The rows of `agentforge status` that `acode status` has, too."""
_EXIT_STATUS = re.compile(r"exit status \d+: ")
_REPAIR = re.compile(r"repair-\d+(-\d+)?")
_AGENT_ERROR = "Agent reported error: "


class StageWords(Struct, frozen=True):
    begun: str
    again: str = "Starting again..."
    """After a way back."""
    passed: str = ""
    failed: str = ""
    finding: str = "Issue"


WORDS: Mapping[str, StageWords] = {
    "planner": StageWords("Analyzing request...", "Adjusting plan..."),
    "verifier": StageWords(
        "Validating results...",
        passed="Verification passed ✓",
        failed="✗ Verification failed",
        finding="Check failure",
    ),
    "reviewer": StageWords("Reviewing changes...", passed="Quality check passed ✓"),
}
"""Of the stages of the preset; others, and stages over items, have general words."""
PLANNER = "planner"


def is_over_items(node: object) -> bool:
    return isinstance(node, StageNode) and isinstance(node.termination, Items)


class Here(Struct, frozen=True):
    """An event, and the run after it."""

    event: Event
    run: RunModel
    plan: Plan
    state: RunState

    @property
    def place(self) -> tuple[str, str | None]:
        """The path of the node, empty for the run, and the branch."""
        return (at.node_path, at.provider) if (at := self.event.cursor) else ("", None)

    @property
    def node(self) -> StageNode | ParallelNode | None:
        return self.plan.stage(*self.place) or self.plan.by_path.get(self.place[0])

    @property
    def words(self) -> StageWords | None:
        return WORDS.get(self.node.id) if self.node else None

    @property
    def stage(self) -> StageState | None:
        return self.state.stage(self.place[1])

    @property
    def failures(self) -> int:
        """Of the current iteration."""
        return len(self.stage.iteration.failures) if self.stage and self.stage.iteration else 0

    def item(self, id: str = "") -> ItemAt | None:
        """An item of the stage, or the one that it works on."""
        return self.state.item_at(visits_key(*self.place), id or (self.stage.item_id if self.stage else ""))

    def say(self, text: str, mark: LineMark = "note") -> RunLine:
        """A line of the stage; of the run if the event isn't about a stage."""
        names = (self.node.id, self.place[1]) if self.node else (ORCHESTRATOR,)
        return RunLine(text, mark, subject=_name(" ".join(filter(None, names))))

    def step(self, text: str, id: str = "", mark: LineMark = "failed") -> RunLine:
        """A line about the current item; of a stage without items, about the stage."""
        item = self.item(id)
        return self.say(f"Step {item.number} {text}" if item else _capital(text), mark)

    @property
    def route(self) -> StageVisit | None:
        """The visit that sent the run back to this stage."""
        to = self.node.id if self.node else ""
        return next((one for one in reversed(self.run.summary.visits) if one.to == to), None)

    @property
    def titles(self) -> Mapping[str, str]:
        """Of the items of the stage, by id."""
        if not isinstance(self.node, StageNode):
            return {}  # In a damaged log.
        found = item_titles(self.node, self.run.history, lambda artifact: artifact.value or {})
        checks = ", ".join(map(one_line, self.route.failing)) if self.route else ""
        repairs = (one for one in self.state.items.get(visits_key(*self.place), {}).values() if one.repair)
        return found | {one.id: f"Repair {checks or 'what was found'}" for one in repairs}


def acode_lines(event: Event, run: RunModel) -> Sequence[RunLine]:
    """The lines for an event, none if it isn't shown. `run`: after the event."""
    if run.plan is None or run.state is None:
        return ()
    here = Here(event, run, run.plan, run.state)
    return tuple(_LINES.get(type(event.fact), _as_elsewhere)(here, event.fact))


_Said = Iterable[RunLine]


def _as_elsewhere(here: Here, _: Fact) -> _Said:
    if line := run_line(here.event, here.plan, here.state):
        subject = here.say("").subject if line.subject else ORCHESTRATOR
        yield replace(line, text=_capital(line.text), subject=subject)


def _name(id: str) -> str:
    return one_line(id).upper()


def _capital(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _overall(text: str, mark: LineMark) -> _Said:
    return BLANK, RunLine(text, mark, subject=ORCHESTRATOR)


def _at_most(texts: Sequence[str]) -> list[str]:
    more = len(texts) - MAX_LISTED
    return [*texts[:MAX_LISTED], *([f"and {more:,} more"] if more > 0 else [])]


# -- stages


def _begun(here: Here, fact: f.NodeStarted) -> _Said:
    if fact.skipped:
        return (BLANK,)  # The line of the verdict says who skips it.
    # Each step has a line; of the planner, the line of the route, or of the restart, has said it.
    if is_over_items(here.node) or (fact.name == PLANNER and fact.run > 1):
        return ()
    return BLANK, here.say(here.words.begun if here.words else "Started...", "begin")


def _over(here: Here, fact: f.NodeCompleted) -> _Said:
    if fact.overridden_by:
        return _as_elsewhere(here, fact)
    is_told = here.words is not None or is_over_items(here.node) or fact.verdict not in ("", PASS)
    return () if is_told else (here.say("Complete", "done"),)


def _verdict(here: Here, fact: f.StageVerdictReached) -> _Said:
    words = here.words or StageWords("", failed=f"✗ Verdict {one_line(fact.verdict)}")
    if fact.skipped_by:
        yield from _as_elsewhere(here, fact)
    elif fact.verdict != PASS:
        if is_over_items(here.node):
            return  # The steps that failed have their lines.
        yield from (here.say(f"{words.finding}: {text}", "failed") for text in _found(here, fact))
        if words.failed:
            yield here.say(words.failed, "failed")
    elif words.passed:
        own = (one.checks for one in here.run.summary.visits if here.node and one.stage == here.node.id)
        # The line of the check has said it.
        if not any(run.check == TEST and run.status == "pass" for run in next(own, ())):
            yield here.say(words.passed, "done")


def _found(here: Here, fact: f.StageVerdictReached) -> Iterable[str]:
    """What the agent found; failing checks have their own lines."""
    at = here.event.cursor
    if fact.failing or at is None:
        return ()
    artifact = here.run.history.artifacts_of(*here.place).latest if at.iteration else None
    found = list(_issues(artifact.value or {})) if artifact else []
    return map(message, _at_most(found or list(filter(None, [fact.reason]))))


def _issues(artifact: JSONObject) -> Iterator[str]:
    """Of a verification report the checks that fail, of a review the issues of all dimensions."""
    checks, dimensions = artifact.get("checks"), artifact.get("dimensions")
    for check in checks if isinstance(checks, list) else ():
        if isinstance(check, dict) and check.get("status") == "fail":
            said = (check.get("name"), check.get("reason"))
            if texts := [text for text in said if isinstance(text, str) and text]:
                yield ": ".join(texts)
    for dimension in dimensions.values() if isinstance(dimensions, dict) else ():
        issues = dimension.get("issues") if isinstance(dimension, dict) else None
        yield from (issue for issue in (issues if isinstance(issues, list) else ()) if isinstance(issue, str))


def _routed(here: Here, fact: f.StageTransitioned) -> _Said:
    if not fact.cycle:
        yield from _as_elsewhere(here, fact)
        return
    node = next((step.node for step in here.plan.steps if step.node.id == fact.to), None)
    if fact.to == PLANNER:
        yield here.say("Requesting re-plan", "back")
    if is_over_items(node):
        return  # The steps that are done again have the number of the cycle.
    again = WORDS.get(fact.to, StageWords("")).again
    yield BLANK
    yield RunLine(f"Cycle {fact.cycle}/{fact.of}: {again}", "begin", subject=_name(fact.to))


# -- steps


def _planned(here: Here, fact: f.ItemsPlanned) -> _Said:
    stage, titles, numbers = here.stage, here.titles, {item.id: at for at, item in enumerate(fact.items, 1)}
    if stage is not None and stage.feedback is not None:
        again = ", ".join(str(numbers[id]) for id in (*fact.reopened, fact.repair) if id in numbers)
        yield BLANK
        if (visit := here.route) and again:
            steps = f"Step{'s' if ',' in again else ''} {again}"
            yield here.say(f"Retry {visit.cycle - 1}/{visit.of}: {steps}", "back")
        yield here.say("Adjusting based on feedback...")
        return
    sources = here.node.sources if isinstance(here.node, StageNode) else None
    source = sources.items if sources else None
    planner = here.plan.by_path.get(source.path) if source else None
    subject = _name(planner.id) if planner else here.say("").subject
    if fact.added and len(fact.added) == len(fact.items):
        yield RunLine(f"Created {len(fact.items):,}-step plan:", subject=subject)
        listed = [f"{number}. {titles.get(id) or id}" for id, number in numbers.items()]
        yield from (RunLine(f"  {text}") for text in _at_most(listed))
        return
    # A plan never has the steps of repairs.
    dropped = tuple(id for id in fact.dropped if not _REPAIR.fullmatch(id))
    for what, ids in {"Added": fact.added, "Changed": fact.changed, "Dropped": dropped}.items():
        for id in ids[:MAX_LISTED]:
            yield RunLine(f"{what} step: {titles.get(id) or id}", subject=subject)


def _iteration(here: Here, fact: f.IterationStarted) -> _Said:
    item, stage = here.item(fact.item), here.stage
    if not fact.item or item is None:
        return
    if here.event.cursor and here.event.cursor.iteration == 1 and not (stage and stage.feedback):
        yield BLANK
    title = (here.titles.get(item.id) or item.id).rstrip(".")
    yield here.say(f"Step {item.number}: {title}...", "begin")


def _item_over(here: Here, fact: f.ItemEnded) -> _Said:
    if fact.status == "done":
        return (here.step("complete", fact.item, "done"),)
    return (here.step(f"failed: {message(fact.reason)}" if fact.reason else "failed", fact.item),)


# -- the ladder: retries of a step, retries of its stage, a person


def _failed(here: Here, fact: f.ErrorOccurred) -> _Said:
    if here.stage is not None and here.stage.stage_retries:
        return (here.step("failed again"),)
    if here.failures > 1:
        return ()  # The line of the retry before it says that it is retried.
    return (here.step(f"failed: {message(fact.message.removeprefix(_AGENT_ERROR))}"),)


def _stage_retried(here: Here, fact: f.StageRetried) -> _Said:
    if fact.number == 1:
        yield from _limit_reached(here)
    yield from _overall(f"Stage retry {fact.number}/{fact.of}...", "wait")
    if fact.number == 1:
        item = here.item()
        yield here.say(f"Retrying from step {item.number}..." if item else "Retrying...")


def _limit_reached(here: Here) -> _Said:
    if here.failures > 1:
        yield here.say("Step retry limit reached" if here.item() else "Retry limit reached", "wait")


def _asked(here: Here, fact: f.RequestOpened) -> _Said:
    if fact.reason == EXHAUSTED:
        if here.stage is not None and not here.stage.stage_retries:
            yield from _limit_reached(here)
        yield from _overall("Task aborted", "failed")
    elif fact.reason == CYCLES:
        yield from _overall("Cycle limit reached", "wait")
    else:
        yield from _as_elsewhere(here, fact)


# -- checks


def _checking(here: Here, fact: f.CheckStarted) -> _Said:
    if not fact.baseline:  # Before the first agent: it says nothing about the work.
        yield here.say(f"Running {'tests' if fact.check == TEST else one_line(fact.check)}...", "begin")


def _checked(here: Here, fact: f.CheckCompleted) -> _Said:
    if fact.baseline and not (fact.found and fact.found.unusable):
        return ()
    if fact.baseline or fact.changed or fact.status not in ("pass", "fail"):
        return _as_elsewhere(here, fact)
    name = _capital(one_line(fact.check))
    if fact.status == "pass":
        return (here.say("All tests passed ✓" if fact.check == TEST else f"{name} passed ✓", "done"),)
    why = fact.signatures[0] if fact.signatures else fact.reason
    if begin := _EXIT_STATUS.match(why):
        # The end of the output without the marks in place of numbers, if the next iteration is told it.
        output = fact.feedback.partition(END_OF_OUTPUT)[2]
        why = output.strip().rpartition("\n")[2] or why[begin.end() :]
    return (here.say(f"{name} failure: {message(why)}", "failed"),)


# -- the run


def _paused(here: Here, fact: f.SessionPaused | f.AwaitingApproval) -> _Said:
    asked = here.state.open_requests
    why = reason_text(fact.reason) if isinstance(fact, f.SessionPaused) else "approval required"
    if any(request.kind == "escalation" for request in asked):
        why = "Human intervention required"
    then = "Use 'acode resume' after fixing the issue." if asked else "Use 'acode resume' to continue."
    if any(request.resumes_with is None for request in asked):
        then = "It continues when it is answered."
    yield RunLine(f"Session paused: {why}", "wait", subject=ORCHESTRATOR)
    yield from (BLANK, RunLine(f"⚠ Session paused. {then}", "wait"))


_LINES: Mapping[type[Fact], Callable[[Here, Any], _Said]] = {
    f.NodeStarted: _begun,
    f.NodeCompleted: _over,
    f.StageCompleted: _over,
    f.StageVerdictReached: _verdict,
    f.StageTransitioned: _routed,
    f.ItemsPlanned: _planned,
    f.IterationStarted: _iteration,
    f.AttemptStarted: lambda *_: (),
    # What was done has its line at the end of the step or of the stage.
    f.IterationCompleted: lambda here, x: _as_elsewhere(here, x) if x.decision is Decision.ASK else (),
    f.ItemEnded: _item_over,
    f.ErrorOccurred: _failed,
    f.RetryScheduled: lambda here, x: [here.say(f"Retry {x.attempt - 1}/{x.of - 1}...", "wait")],
    f.StageRetried: _stage_retried,
    f.RequestOpened: _asked,
    f.CheckStarted: _checking,
    f.CheckCompleted: _checked,
    f.SessionCompleted: lambda *_: (BLANK, RunLine("✓ Task complete", "done")),
    f.SessionFailed: lambda _, x: _overall(
        f"Task failed: {message(x.message.removeprefix(_AGENT_ERROR))}", "failed"
    ),
    f.SessionAborted: lambda _, x: _overall(f"Task cancelled: {reason_text(x.reason)}", "failed"),
    f.SessionPaused: _paused,
    f.AwaitingApproval: _paused,
}


def acode_status_rows(view: StatusView, now: datetime, zone: tzinfo) -> list[StatusRow]:
    """The rows of `acode status`: where the run is, and what a person can do."""
    node, item = view.node, view.item
    stage = "COMPLETE" if view.status == "completed" or node is None else _name(node.id)
    rows = [StatusRow("Session", view.session), StatusRow("Stage", stage)]
    if item is not None:
        rows.append(StatusRow("Progress", f"Step {item.number}/{item.of}"))
    elif node is not None:
        rows.append(StatusRow("Progress", f"Stage {node.index + 1}/{node.count}"))
    return rows + [row for row in status_rows(view, now, zone) if row.label in SHOWN_STATUS]
