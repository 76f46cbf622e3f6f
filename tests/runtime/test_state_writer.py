"""The views of a run are written from events that are durable."""

import asyncio
from pathlib import Path

from tests.engine.plans import block, plan_of, stage, started

from agentforge.engine.decide.run import decide
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.layout import RunLayout
from agentforge.runtime.journal import Journal
from agentforge.runtime.state_folder import HeadKeeper
from agentforge.runtime.view_files import StateWriter
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


def test_a_change_of_a_branch_is_written_at_once(tmp_path: Path) -> None:
    """Other changes at most once a second."""
    run = tmp_path / "project" / ".claude" / "pipeline-runs" / "s"
    run.mkdir(parents=True)
    journal = Journal("s", MemoryLog().open(), FakeClock())
    journal.record(started(plan_of(block("p q", stage()))))
    writer = StateWriter(
        RunLayout(str(run), "s"), journal, HeadKeeper(str(run), {"XDG_STATE_HOME": str(tmp_path / "state")})
    )
    entered = f.NodeStarted("duel", "0", kind="parallel", providers=("p", "q"))
    journal.record(entered, Cursor("0", 1, 0))
    for provider in ("p", "q"):
        journal.record(f.ProviderStarted(provider, ("plan",)), Cursor("0", 1, 0, provider))
        asyncio.run(writer.write_if_due())
    branch = run / "parallel-00-duel" / "providers" / "q" / "state.json"
    assert branch.exists()
    written = branch.stat().st_mtime_ns
    journal.record(f.ProviderCompleted("q", "failed", "no way"), Cursor("0", 1, 0, "q"))
    asyncio.run(writer.write_if_due())
    assert branch.stat().st_mtime_ns > written
    journal.close()
