"""The views of a run are written from events that are durable."""

import asyncio
from pathlib import Path

from tests.engine.plans import block, plan_of, stage, started

from agentforge.engine.decide.run import decide
from agentforge.model.layout import RunLayout
from agentforge.runtime.journal import Journal
from agentforge.runtime.state_folder import HeadKeeper
from agentforge.runtime.state_writer import StateWriter
from agentforge.testing import FakeClock
from agentforge.testing.memory_log import MemoryLog


def test_no_view_is_written_before_the_log_is_synced(tmp_path: Path) -> None:
    run = tmp_path / "project" / ".claude" / "pipeline-runs" / "s"
    run.mkdir(parents=True)
    layout = RunLayout(str(run), "s")
    journal = Journal("s", MemoryLog().open(), FakeClock())
    journal.record(started(plan_of(block("p q", stage()))))
    while facts := decide(journal.plan, journal.state).facts:
        for draft in facts:
            journal.record(draft.fact, draft.cursor)
    keeper = HeadKeeper(layout.root, {"XDG_STATE_HOME": str(tmp_path / "state")})

    def written() -> list[Path]:
        return sorted(tmp_path.rglob("*.json"))

    at_sync: list[object] = []
    journal.observe(lambda: at_sync.extend(["synced", *written()]))
    asyncio.run(StateWriter(layout, journal, keeper).write())
    assert at_sync == ["synced"]
    branches = [run / "parallel-00-duel" / "providers" / name / "state.json" for name in "pq"]
    (kept,) = (tmp_path / "state" / "agentforge" / "heads").iterdir()
    assert written() == [*branches, run / "state.json", kept]
    journal.close()
