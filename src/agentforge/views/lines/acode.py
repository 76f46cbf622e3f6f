"""What `acode` prints of a run: a line for each event that matters, with the stage in capitals.

`agentforge` has other lines (`events.py`). Both say the same of an event that is not in the table here.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agentforge.engine.decide.failure import EXHAUSTED
from agentforge.model import facts as f
from agentforge.model.artifact import ItemAt
from agentforge.model.event import Event
from agentforge.model.facts import Fact
from agentforge.model.place import visits_key
from agentforge.model.plan import PASS, Items, ParallelNode, Plan, StageNode
from agentforge.model.request import Request
from agentforge.model.result import Decision, JSONObject
from agentforge.model.state import RunState, StageState
from agentforge.views.lines.events import run_line
from agentforge.views.lines.row import LineMark, RunLine, message
from agentforge.views.lines.status import StatusRow, status_rows
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
    def node(self) -> StageNode | ParallelNode | None:
        at = self.event.cursor
        return (
            (self.plan.stage(at.node_path, at.provider) or self.plan.by_path.get(at.node_path))
            if at
            else None
        )

    @property
    def is_over_items(self) -> bool:
        return is_over_items(self.node)

    @property
    def words(self) -> StageWords | None:
        return WORDS.get(self.node.id) if self.node else None

    @property
    def stage(self) -> StageState | None:
        return self.state.stage(self.event.cursor.provider if self.event.cursor else None)

    def item(self, id: str = "") -> ItemAt | None:
        """An item of the stage, or the one that it works on."""
        at, stage = self.event.cursor, self.stage
        wanted = id or (stage.item_id if stage else "")
        return self.state.item_at(visits_key(at.node_path, at.provider), wanted) if at else None

    def say(self, text: str, mark: LineMark = "note") -> RunLine:
        """A line of the stage; of the run if the event isn't about a stage."""
        branch = f" {self.event.cursor.provider}" if self.event.cursor and self.event.cursor.provider else ""
        return RunLine(text, mark, subject=_name(f"{self.node.id}{branch}") if self.node else ORCHESTRATOR)

    def step(self, text: str, mark: LineMark = "note", id: str = "") -> RunLine:
        """A line about the current item; of a stage without items, about the stage."""
        item = self.item(id)
        return self.say(f"Step {item.number} {text}" if item else f"{text[:1].upper()}{text[1:]}", mark)

    @property
    def route(self) -> StageVisit | None:
        """The visit that sent the run back to this stage."""
        to = self.node.id if self.node else ""
        return next((one for one in reversed(self.run.summary.visits) if one.to == to), None)

    @property
    def titles(self) -> Mapping[str, str]:
        """Of the items of the stage, by id."""
        node, at = self.node, self.event.cursor
        if not isinstance(node, StageNode) or at is None:
            return {}  # In a damaged log.
        found = dict(item_titles(node, self.run.history, lambda artifact: artifact.value or {}))
        for item in self.state.items.get(visits_key(at.node_path, at.provider), {}).values():
            if item.repair:
                checks = ", ".join(map(one_line, self.route.failing)) if self.route else ""
                found[item.id] = f"Repair {checks}" if checks else "Repair what was found"
        return found


def acode_lines(event: Event, run: RunModel) -> Sequence[RunLine]:
    """The lines for an event, none if it isn't shown. `run`: after the event."""
    if run.plan is None or run.state is None:
        return ()
    here = Here(event, run, run.plan, run.state)
    lines = _LINES.get(type(event.fact), _as_elsewhere)
    return tuple(lines(here, event.fact))


_Said = Iterable[RunLine]


def _as_elsewhere(here: Here, _: Fact) -> _Said:
    line = run_line(here.event, here.plan, here.state)
    if line is None:
        return ()
    text = f"{line.text[:1].upper()}{line.text[1:]}"
    return (replace(line, text=text, subject=here.say("").subject if line.subject else ORCHESTRATOR),)


def _silent(_: Here, __: Fact) -> _Said:
    return ()


def _name(id: str) -> str:
    return one_line(id).upper()


def _overall(text: str, mark: LineMark = "note") -> RunLine:
    return RunLine(text, mark, subject=ORCHESTRATOR)


# -- stages


def _begun(here: Here, fact: f.NodeStarted) -> _Said:
    node, words = here.node, here.words
    if fact.skipped:
        return (BLANK,)  # The line of the verdict says who skips it.
    if here.is_over_items:
        return ()  # Each step has a line.
    if node is not None and node.id == PLANNER and fact.run > 1:
        return ()  # The line of the route, or of the restart, has said it.
    return BLANK, here.say(words.begun if words else "Started...", "begin")


def _over(here: Here, fact: f.NodeCompleted) -> _Said:
    if fact.overridden_by:
        return _as_elsewhere(here, fact)
    is_told = here.words is not None or here.is_over_items or fact.verdict not in ("", PASS)
    return () if is_told else (here.say("Complete", "done"),)


def _verdict(here: Here, fact: f.StageVerdictReached) -> _Said:
    words = here.words
    if fact.skipped_by:
        yield from _as_elsewhere(here, fact)
    elif fact.verdict != PASS and here.is_over_items:
        return  # The steps that failed have their lines.
    elif fact.verdict != PASS:
        yield from (
            here.say(f"{words.finding if words else 'Issue'}: {text}", "failed")
            for text in _found(here, fact)
        )
        if words is None or words.failed:
            yield here.say(words.failed if words else f"✗ Verdict {one_line(fact.verdict)}", "failed")
    elif words is not None and words.passed:
        visit = next(
            (one for one in here.run.summary.visits if here.node and one.stage == here.node.id), None
        )
        # The line of the check has said it.
        if not any(run.check == TEST and run.status == "pass" for run in (visit.checks if visit else ())):
            yield here.say(words.passed, "done")


def _found(here: Here, fact: f.StageVerdictReached) -> Iterator[str]:
    """What the agent found; failing checks have their own lines."""
    at = here.event.cursor
    if fact.failing or at is None:
        return
    artifact = here.run.history.artifacts_of(at.node_path, at.provider).latest if at.iteration else None
    listed = list(_issues(artifact.value or {})) if artifact else []
    yield from map(message, listed[:MAX_LISTED] or filter(None, [fact.reason]))
    if more := len(listed[MAX_LISTED:]):
        yield f"and {more:,} more"


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
    words = WORDS.get(fact.to) or StageWords("")
    yield BLANK
    text = f"Cycle {fact.cycle}/{fact.of}: {words.again}"
    yield RunLine(text, "begin", subject=_name(fact.to))


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
    node = here.node
    source = node.sources.items if isinstance(node, StageNode) and node.sources else None
    planner = here.plan.by_path.get(source.path) if source else None
    subject = _name(planner.id) if planner else here.say("").subject
    if fact.added and len(fact.added) == len(fact.items):
        yield RunLine(f"Created {len(fact.items):,}-step plan:", subject=subject)
        listed = fact.items[:MAX_LISTED]
        yield from (RunLine(f"  {numbers[one.id]}. {titles.get(one.id) or one.id}") for one in listed)
        if more := len(fact.items) - len(listed):
            yield RunLine(f"  and {more:,} more")
        return
    # A plan never has the steps of repairs.
    dropped = tuple(id for id in fact.dropped if not _REPAIR.fullmatch(id))
    changes = {"Added": fact.added, "Changed": fact.changed, "Dropped": dropped}
    for what, ids in changes.items():
        yield from (
            RunLine(f"{what} step: {titles.get(id) or id}", subject=subject) for id in ids[:MAX_LISTED]
        )


def _iteration(here: Here, fact: f.IterationStarted) -> _Said:
    item, stage = here.item(fact.item), here.stage
    if not fact.item or item is None:
        return
    if here.event.cursor and here.event.cursor.iteration == 1 and not (stage and stage.feedback):
        yield BLANK
    title = (here.titles.get(item.id) or item.id).rstrip(".")
    yield here.say(f"Step {item.number}: {title}...", "begin")


def _iteration_over(here: Here, fact: f.IterationCompleted) -> _Said:
    # What was done has its line at the end of the step or of the stage.
    return _as_elsewhere(here, fact) if fact.decision is Decision.ASK else ()


def _item_over(here: Here, fact: f.ItemEnded) -> _Said:
    if fact.status == "done":
        return (here.step("complete", "done", fact.item),)
    return (here.step(f"failed: {message(fact.reason)}" if fact.reason else "failed", "failed", fact.item),)


# -- the ladder: retries of a step, retries of its stage, a person


def _failed(here: Here, fact: f.ErrorOccurred) -> _Said:
    stage = here.stage
    if stage is not None and stage.stage_retries:
        return (here.step("failed again", "failed"),)
    if _failures(stage) > 1:
        return ()  # The line of the retry before it says that it is retried.
    return (here.step(f"failed: {message(fact.message.removeprefix(_AGENT_ERROR))}", "failed"),)


def _failures(stage: StageState | None) -> int:
    return len(stage.iteration.failures) if stage and stage.iteration else 0


def _retried(here: Here, fact: f.RetryScheduled) -> _Said:
    return (here.say(f"Retry {fact.attempt - 1}/{fact.of - 1}...", "wait"),)


def _stage_retried(here: Here, fact: f.StageRetried) -> _Said:
    if fact.number == 1:
        yield from _limit_reached(here)
    yield BLANK
    yield _overall(f"Stage retry {fact.number}/{fact.of}...", "wait")
    if fact.number == 1:
        item = here.item()
        yield here.say(f"Retrying from step {item.number}..." if item else "Retrying...")


def _limit_reached(here: Here) -> _Said:
    if _failures(here.stage) > 1:
        yield here.say("Step retry limit reached" if here.item() else "Retry limit reached", "wait")


def _asked(here: Here, fact: f.RequestOpened) -> _Said:
    if fact.reason == EXHAUSTED:
        if here.stage is not None and not here.stage.stage_retries:
            yield from _limit_reached(here)
        yield BLANK
        yield _overall("Task aborted", "failed")
    elif fact.reason == "cycle_limit":
        yield BLANK
        yield _overall("Cycle limit reached", "wait")
    else:
        yield from _as_elsewhere(here, fact)


# -- checks


def _checking(here: Here, fact: f.CheckStarted) -> _Said:
    if fact.baseline:
        return ()  # Before the first agent: it says nothing about the work.
    return (here.say(f"Running {'tests' if fact.check == TEST else one_line(fact.check)}...", "begin"),)


def _checked(here: Here, fact: f.CheckCompleted) -> _Said:
    if fact.baseline and not (fact.found and fact.found.unusable):
        return ()
    if fact.baseline or fact.changed or fact.status not in ("pass", "fail"):
        return _as_elsewhere(here, fact)
    name = one_line(fact.check)
    name = f"{name[:1].upper()}{name[1:]}"
    if fact.status == "pass":
        return (here.say("All tests passed ✓" if fact.check == TEST else f"{name} passed ✓", "done"),)
    why = _EXIT_STATUS.sub("", fact.signatures[0], count=1) if fact.signatures else fact.reason
    return (here.say(f"{name} failure: {message(why)}", "failed"),)


# -- the run


def _paused(here: Here, fact: f.SessionPaused | f.AwaitingApproval) -> _Said:
    asked = here.state.open_requests
    why = reason_text(fact.reason) if isinstance(fact, f.SessionPaused) else "approval required"
    if any(request.kind == "escalation" for request in asked):
        why = "Human intervention required"
    yield _overall(f"Session paused: {why}", "wait")
    yield from (BLANK, RunLine(f"⚠ Session paused. {_then(asked)}", "wait"))


def _then(asked: Sequence[Request]) -> str:
    if not asked:
        return "Use 'acode resume' to continue."
    if all(request.resumes_with is not None for request in asked):
        return "Use 'acode resume' after fixing the issue."
    return "It continues when it is answered."


def _completed(_: Here, __: f.SessionCompleted) -> _Said:
    return BLANK, RunLine("✓ Task complete", "done")


def _run_failed(_: Here, fact: f.SessionFailed) -> _Said:
    return BLANK, _overall(f"Task failed: {message(fact.message.removeprefix(_AGENT_ERROR))}", "failed")


def _cancelled(_: Here, fact: f.SessionAborted) -> _Said:
    return BLANK, _overall(f"Task cancelled: {reason_text(fact.reason)}", "failed")


_LINES: Mapping[type[Fact], Callable[[Here, Any], _Said]] = {
    f.NodeStarted: _begun,
    f.NodeCompleted: _over,
    f.StageCompleted: _over,
    f.StageVerdictReached: _verdict,
    f.StageTransitioned: _routed,
    f.ItemsPlanned: _planned,
    f.IterationStarted: _iteration,
    f.AttemptStarted: _silent,
    f.IterationCompleted: _iteration_over,
    f.ItemEnded: _item_over,
    f.ErrorOccurred: _failed,
    f.RetryScheduled: _retried,
    f.StageRetried: _stage_retried,
    f.RequestOpened: _asked,
    f.CheckStarted: _checking,
    f.CheckCompleted: _checked,
    f.SessionCompleted: _completed,
    f.SessionFailed: _run_failed,
    f.SessionAborted: _cancelled,
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
