"""What artifacts, items and briefings add to an iteration: beside the same plan without artifacts, beside the
first items of the same run, and beside reading and encoding what a briefing is made of."""

import os
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
from msgspec.structs import replace

from agentforge.adapters.host.tree_scan import FolderTrees
from agentforge.model.artifact import Strategy
from agentforge.model.facts import IterationStarted
from agentforge.model.layout import RunLayout
from agentforge.model.place import Place
from agentforge.model.secrets import Redactor
from agentforge.model.task import PrepareTask
from agentforge.runtime.artifacts import StoredArtifacts
from agentforge.runtime.briefings import Briefings
from agentforge.runtime.tasks.call import TaskContext
from agentforge.runtime.tasks.prepare import Preparer
from agentforge.views.artifacts import run_keys
from agentforge.views.briefing import BriefingAt, BriefingFiles, briefing_parts
from agentforge.views.record import RunRecord, record_of
from bench.agents import InProcess, engine_in, in_process_pipeline
from bench.measure import Measure, beside

MAX_ARTIFACT, MAX_PREPARATION, MAX_GROWTH = 1.3, 3.0, 1.2
CEILING = 200
"""Milliseconds that preparing an iteration may take."""
READ = "reading its sources, encoding them, and making the same files"
STRATEGIES: tuple[Strategy, ...] = ("full", "minimal", "summary")
NOTES = "What was found and done about it, in some sentences of usual length. " * 4
TEXT = {"type": "string", "minLength": 1}
SCHEMA = {
    "type": "object",
    "required": ["files", "summary"],
    "properties": {
        "files": {"type": "array", "items": TEXT},
        "summary": TEXT,
        "risks": {"type": "array", "items": {"type": "object", "required": ["text"]}},
    },
}
ARTIFACT = {
    "files": ["src/slug.py", "tests/test_slug.py"],
    "summary": NOTES,
    "risks": [{"text": NOTES, "level": 2}],
}


async def artifacts(root: Path, rounds: int, per_round: int) -> list[Measure]:
    """In turns, so that noise meets both. Iterations are their events alone."""
    without: list[float] = []
    accepted: list[float] = []
    for number in range(rounds):
        without += await _iterations(root, f"bare-{number}", per_round, {})
        accepted += await _iterations(root, f"artifact-{number}", per_round, {"artifact": SCHEMA})
    floor = "the same plan without one"
    return [beside("iteration with an artifact", "µs", accepted, floor, without, maximum=MAX_ARTIFACT)]


async def _iterations(root: Path, session: str, count: int, keys: dict[str, Any]) -> list[float]:
    plan = in_process_pipeline(count)
    plan["nodes"] = [{**node, **keys} for node in plan["nodes"]]
    agent = InProcess(artifact=(lambda _: ARTIFACT) if keys else None)
    async with engine_in(root, agent) as engine:
        result = await engine.run(plan, session=session)
    assert result.iterations == count, result
    return agent.engine_seconds


# -- items


def _items(count: int) -> dict[str, Any]:
    steps = [
        {"id": f"s{number}", "title": f"Step {number}", "description": NOTES, "criteria": [NOTES]}
        for number in range(1, count + 1)
    ]
    return {"steps": steps}


def _plan(count: int, keys: dict[str, Any]) -> dict[str, Any]:
    own = {"provider": InProcess.name, "delay": 0}
    plan = {"id": "plan", "prompt": "Plan ${REQUEST}.", "runs": 1, "artifact": {"type": "object"}, **own}
    do = {
        "id": "do",
        "prompt": "Do ${ITEM}.",
        "termination": {"type": "items", "from": "plan.steps", "max": count},
        "artifact": SCHEMA,
        **own,
        **keys,
    }
    verify = {"id": "verify", "prompt": "Verify.", "runs": 1, **own}
    return {"name": "bench", "request": "required", "nodes": [plan, do, verify]}


async def _items_run(root: Path, session: str, count: int, keys: dict[str, Any]) -> list[float]:
    """What the engine takes before each item but the first."""
    made = {"plan": _items(count), "do": ARTIFACT}
    agent = InProcess(uses_files=True, artifact=lambda request: made.get(request.stage))
    async with engine_in(root, agent) as engine:
        result = await engine.run(_plan(count, keys), session=session, request="Add a function.")
    assert result.iterations == count + 2, result
    return agent.engine_seconds[1:count]


async def items(root: Path, rounds: int, count: int) -> list[Measure]:
    """The last items beside the first ones of the same runs, of as many rounds."""
    measures = []
    for name, keys in (("", {}), (", focused", {"context_strategy": "focused"})):
        first: list[float] = []
        last: list[float] = []
        for number in range(rounds):
            session = f"items-{number}-{len(keys)}"
            seconds = await _items_run(root, session, count, keys)
            # Item 10 and its neighbours: a single one says nothing.
            first += seconds[4:14]
            last += seconds[-10:]
        title = f"item {count:,} of {count:,}{name}"
        measures.append(beside(title, "µs", last, "item 10 of the same runs", first, maximum=MAX_GROWTH))
    return measures


# -- the context of one iteration


async def preparations(root: Path, rounds: int, count: int) -> list[Measure]:
    """The context of the stage after the items, by strategy."""
    session = "prepared"
    await _items_run(root, session, count, {})
    async with engine_in(root) as engine:
        record = record_of(engine.events(session))
    context = _Context(root, RunLayout.of(str(root), session), record)
    measures = []
    for strategy in STRATEGIES:
        spent: list[float] = []
        least: list[float] = []
        for number in range(rounds):
            spent.append(context.prepare(strategy, number))
            least.append(context.read_and_encode(strategy, number))
        name = f"context after {count:,} items, {strategy}"
        measures.append(beside(name, "ms", spent, READ, least, maximum=MAX_PREPARATION, ceiling=CEILING))
    return measures


class _Context:
    """Prepares the last iteration of a run again."""

    def __init__(self, root: Path, layout: RunLayout, record: RunRecord) -> None:
        plan, state, history = record.model.plan, record.model.state, record.model.history
        assert plan is not None
        assert state is not None
        self._layout = layout
        self._record = record
        self._folder = root / "sources"
        keys = run_keys(state.started_at, state.run_id, state.user_request)
        self._stored = StoredArtifacts(plan, layout, history, keys)
        trees = FolderTrees(str(root), layout.trees, Redactor(()))
        briefings = Briefings(layout, lambda: record, trees, lambda _: 0)
        tasks = TaskContext(str(root), layout, plan, state.run_id, environment={})
        self._names: list[str] = []
        self._preparer = Preparer(tasks, history, stored=self._stored, briefings=briefings)
        step = plan.steps[-1]
        self._task = PrepareTask(
            Place(step.path, 1, step.dir), "verify", 1, node=step.stages[0], user_request=state.user_request
        )

    def prepare(self, strategy: Strategy, number: int) -> float:
        node = replace(self._task.node, context_strategy=strategy)
        place = replace(self._task.place, folder=f"{self._task.place.folder}-{strategy}")
        task = replace(self._task, node=node, place=place, iteration=number + 1)
        began = perf_counter()
        fact = self._preparer.do(task)
        took = perf_counter() - began
        assert isinstance(fact, IterationStarted), fact
        self._names = os.listdir(self._layout.iteration(place.folder, task.iteration).root)
        return took

    def read_and_encode(self, strategy: Strategy, number: int) -> float:
        """What the strategy chooses from: the files are read, and what is in memory is encoded. As many
        files are made as an iteration has: on some file systems a new file takes longer than all else."""
        at, outputs = BriefingAt(path=self._task.place.path), list[str]()

        def named(path: str) -> str:
            outputs.append(path)
            return ""

        listing = BriefingFiles(named, lambda *_: ())
        briefing_parts(strategy, self._record, at, listing)
        folder = self._folder / f"{strategy}-{number}"
        began = perf_counter()
        for path in outputs:
            Path(self._layout.absolute(path)).read_bytes()
        content = msgspec.json.encode(self._stored.input(self._task).merged)
        if strategy in ("minimal", "summary"):
            content += msgspec.json.encode(self._record.iterations)
        folder.mkdir(parents=True)
        for name in self._names:
            (folder / name).write_bytes(content)
            content = b""
        return perf_counter() - began
