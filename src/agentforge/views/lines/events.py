"""The rows of all facts, and what is printed of them: by attached terminals, logs, `tail` and the demo."""

from collections.abc import Mapping, Sequence
from datetime import datetime, tzinfo

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from agentforge.model.cursor import Cursor
from agentforge.model.event import Event
from agentforge.model.facts import FACTS, AnyFact, CheckCompleted, Fact, TaskFact
from agentforge.model.place import visits_key
from agentforge.model.plan import Items, Plan, StageNode
from agentforge.model.request import Request
from agentforge.model.state import RunState
from agentforge.views.lines import checks, deliver, files, hooks, items, iterations, requests, runs
from agentforge.views.lines.row import BRIEF_CHARS, DemoLine, Row, RunLine, ShownPlace, task_row
from agentforge.views.spending import caps_line
from agentforge.views.stage_progress import StageProgress
from agentforge.views.text import counted, one_line
from agentforge.views.verification import unverified_text

_OF_SUBJECTS = (
    *(*runs.ROWS, *iterations.ROWS, *items.ROWS, *checks.ROWS, *files.ROWS),
    *(*requests.ROWS, *hooks.ROWS, *deliver.ROWS),
)
_OF_TASKS = (task_row(fact) for fact in FACTS.values() if issubclass(fact, TaskFact))
ROWS: Mapping[type[Fact], Row] = {row.fact: row for row in (*filter(None, _OF_TASKS), *_OF_SUBJECTS)}


def row_of(fact: Fact) -> Row:
    return ROWS[type(fact)]


def run_line(event: Event, plan: Plan, state: RunState | None = None) -> RunLine | None:
    """The line for an event, or None if the event isn't shown. `state`: after the event."""
    row = row_of(event.fact)
    line = row.line(event.fact, event) if callable(row.line) else row.line
    if line is None:
        return None
    # It may be the last check that could have been used.
    unused = isinstance(event.fact, CheckCompleted) and event.fact.found and event.fact.found.unusable
    more = unverified_text(plan, state.baselines) if state and unused else ""
    return replace(line, text=line.text + more, subject=_subject(row, event, plan, state))


def ending_line(fact: Fact, stages: Sequence[StageProgress], asked: Sequence[Request] = ()) -> RunLine | None:
    """The line for the end of a run. `stages`: of a completed run; `asked`: the open requests of one that
    waits."""
    ending = row_of(fact).ending
    return ending(fact, stages, asked) if ending else None


def demo_line(event: Event) -> DemoLine | None:
    demo = row_of(event.fact).demo
    return demo(event.fact, event) if callable(demo) else demo


def _subject(row: Row, event: Event, plan: Plan, state: RunState | None) -> str:
    """`build 2/3` or `build`; inside a parallel block `claude: build 2/3`. Over items, it is the item that is
    counted: it may take several iterations."""
    cursor = event.cursor
    node = plan.by_path.get(cursor.node_path) if cursor else None
    if cursor is None or node is None or row.subject == "run":
        return ""
    stage = f"{cursor.provider}: {node.id}" if cursor.provider else node.id
    if row.subject == "stage" or not cursor.iteration or not isinstance(node, StageNode):
        return stage
    at = state.stage(cursor.provider) if state else None
    if isinstance(node.termination, Items):
        key = visits_key(cursor.node_path, cursor.provider)
        item = state.item_at(key, at.item_id) if state and at else None
        return f"{stage} {item.number}/{item.of}" if item else stage
    # Iterations that asked something don't count against the maximum.
    number = cursor.iteration - (at.asked_before if at else 0)
    return f"{stage} {number}/{max(node.termination.max, number)}"


def header_lines(plan: Plan) -> list[str]:
    """The lines printed before a run."""
    if plan.mode == "loop":
        node = plan.only_stage
        model = f" / {node.provider.model}" if node.provider.model else ""
        ends = node.termination
        return [
            f"Loop: {node.id}",
            f"Session: {plan.session.name}",
            f"Items: {ends.source}" if isinstance(ends, Items) else f"Max iterations: {ends.max}",
            f"Provider: {node.provider.type}{model}",
            *_checks(plan),
            f"Spending: {caps_line(plan)}",
        ]
    stages = " → ".join(node.id for node in plan.nodes)
    again = f", {plan.passes} times" if plan.passes > 1 else ""
    return [
        f"Pipeline: {plan.pipeline.name}",
        f"Session: {plan.session.name}",
        f"{counted(len(plan.nodes), 'stage').capitalize()}: {stages}{again}",
        f"Providers: {', '.join(_providers(plan))}",
        *_checks(plan),
        f"Spending: {caps_line(plan)}",
    ]


def _providers(plan: Plan) -> list[str]:
    """Each provider with its model once, in the order of their stages; the model may be a default."""
    chains = (choice for step in plan.steps for stage in step.stages for choice in stage.chain)
    named = (f"{choice.type} / {choice.model}" if choice.model else choice.type for choice in chains)
    return list(dict.fromkeys(named))


def _checks(plan: Plan) -> list[str]:
    """What the engine will run in the project, from the pipeline, the settings or what was found there."""
    runs = {check.name: check.run for stage in plan.stages for check in stage.checks if check.run}
    texts = (f"{name}: {one_line(run, BRIEF_CHARS)}" for name, run in runs.items())
    return [f"Checks: {'; '.join(texts)}"] if runs else []


class EventLine(Struct, frozen=True):
    """The parts of a line, so that a terminal can colour them."""

    time: str
    type: str
    details: str

    @property
    def text(self) -> str:
        return f"[{self.time}] {self.type} {self.details}".rstrip()


class _EventJson(Struct):
    seq: int
    type: str
    timestamp: datetime
    session: str
    cursor: Cursor | None
    data: AnyFact
    trace_id: str


class _OutputData(Struct):
    attempt: int
    text: str


class _OutputJson(Struct):
    type: str
    session: str
    cursor: Cursor
    data: _OutputData


def event_line(event: Event, zone: tzinfo, plan: Plan | None = None) -> EventLine:
    """`plan`: to name nodes by their ids, not by their places."""
    fact = event.fact
    row = row_of(fact)
    fields = {**_place(event.cursor, row.at), **row.details(fact)}
    if plan and (node := plan.by_path.get(str(fields.get("node")))):
        fields["node"] = one_line(node.id)
    details = " ".join(f"{name}={value}" for name, value in fields.items() if value != "")
    return EventLine(f"{event.at.astimezone(zone):%H:%M:%S}", fact.TYPE, details)


def _place(at: Cursor | None, place: ShownPlace) -> dict[str, object]:
    if at is None or place == "run":
        return {}
    fields: dict[str, object] = {"node": at.node_path}
    if place != "node":
        fields["visit"] = at.node_run
    if place == "iteration" or (place == "call" and at.iteration):
        fields["iter"] = at.iteration
    if place not in ("node", "visit"):
        fields["branch"] = at.provider or ""
    return fields


def event_json(event: Event) -> bytes:
    """The event with the log's keys; payloads stored beside the log are included."""
    return msgspec.json.encode(
        _EventJson(
            event.seq, event.fact.TYPE, event.at, event.session, event.cursor, event.fact, event.trace_id
        )
    )


def output_json(session: str, cursor: Cursor, attempt: int, text: str) -> bytes:
    """A line of an agent's output, in the shape of an event; it isn't part of the log."""
    return msgspec.json.encode(_OutputJson("output", session, cursor, _OutputData(attempt, text)))
