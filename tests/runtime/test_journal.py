"""The journal: facts checked, timed and made durable before anything happens because of them."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from tests.adapters.failing_disk import FailingDisk
from tests.engine.plans import NOON, block, plan_of, stage, started

from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.adapters.log.writer import Buffering
from agentforge.model import facts as f
from agentforge.model.cursor import Cursor
from agentforge.model.errors import IllegalMove, LogCorrupt
from agentforge.model.state import MAX_NOTES_BYTES
from agentforge.runtime.journal import Journal
from agentforge.testing import FakeClock
from agentforge.testing.memory_log import MemoryLog

PLAN = plan_of(stage())


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def journal(clock: FakeClock) -> Iterator[Journal]:
    journal = Journal("auth", MemoryLog().open(), clock)
    yield journal
    journal.close()


def test_events_are_numbered_timed_and_carry_the_run_s_id(journal: Journal, clock: FakeClock) -> None:
    journal.record(started(PLAN), Cursor("0", 0, 0))
    clock.advance(5)
    journal.record(f.PauseRequested("lunch"))
    asyncio.run(journal.sync())
    assert journal.state.seq == 2
    assert journal.state.updated_at == NOON + timedelta(seconds=5)
    assert journal.plan == PLAN
    assert journal.state.run_id == "0af7651916cd43dd"


def test_timestamps_never_go_backwards(journal: Journal, clock: FakeClock) -> None:
    journal.record(started(PLAN))
    clock.set(NOON - timedelta(hours=1))
    journal.record(f.PauseRequested("lunch"))
    assert journal.state.updated_at == NOON


def test_time_that_passes_counts_while_the_clock_is_behind_the_log(
    journal: Journal, clock: FakeClock
) -> None:
    journal.record(started(PLAN))
    clock.set(NOON - timedelta(hours=1))
    clock.advance(60)
    assert journal.now() == NOON + timedelta(seconds=60)
    clock.set(NOON + timedelta(hours=1))
    assert journal.now() == NOON + timedelta(hours=1)


@pytest.mark.parametrize("clock_after", [NOON - timedelta(days=365), NOON])
def test_a_wait_lasts_its_own_length_when_the_clock_was_ahead(clock_after: datetime) -> None:
    clock = FakeClock()
    journal = Journal("auth", MemoryLog().open(), clock)
    journal.record(started(PLAN))
    due = journal.now() + timedelta(seconds=3)
    clock.set(clock_after)
    asyncio.run(journal.sleep_until(due))
    assert clock.waits == [3]
    journal.close()


@pytest.mark.parametrize("seconds", [0.001, 3.0, 31.0, 5 * 3600.0])
def test_a_wait_lasts_to_its_end_although_the_clock_returns_early(
    journal: Journal, clock: FakeClock, seconds: float
) -> None:
    due = journal.now() + timedelta(seconds=seconds)
    asyncio.run(journal.sleep_until(due))
    assert journal.now() == due


def test_a_wait_ends_when_the_clock_jumps_past_its_end(journal: Journal, clock: FakeClock) -> None:
    due = journal.now() + timedelta(hours=3)
    clock.set(due)
    asyncio.run(journal.sleep_until(due))
    assert clock.waits == []


def test_timestamps_do_not_go_backwards_across_engines(clock: FakeClock) -> None:
    log = MemoryLog()
    first = Journal("auth", log.open(), clock)
    first.record(started(PLAN))
    first.close()
    later = Journal("auth", log.open(), FakeClock(NOON - timedelta(days=1)))
    later.record(f.SessionRecovered(1, "here"))
    assert later.state.updated_at == NOON
    later.close()


def test_illegal_move_is_refused_and_nothing_recorded(journal: Journal) -> None:
    with pytest.raises(IllegalMove, match="session_complete before session_start"):
        journal.record(f.SessionCompleted("done"))
    journal.record(started(PLAN))
    journal.record(f.SessionCompleted("done"))
    with pytest.raises(IllegalMove):
        journal.record(f.SessionCompleted("again"))
    assert journal.state.seq == 2


def test_empty_log_has_neither_state_nor_plan(journal: Journal) -> None:
    with pytest.raises(LogCorrupt, match="has no readable event") as caught:
        _ = journal.state
    assert "--force" in caught.value.hint
    with pytest.raises(LogCorrupt, match="has no readable plan"):
        _ = journal.plan


def test_observers_hear_of_events_once_they_are_durable(journal: Journal) -> None:
    heard: list[int] = []
    journal.observe(lambda: heard.append(journal.writer.health.events_buffered))
    journal.record(started(PLAN))
    assert heard == []
    asyncio.run(journal.sync())
    assert heard == [0]


def test_observers_hear_of_what_the_end_of_a_journal_makes_durable(clock: FakeClock) -> None:
    journal = Journal("auth", MemoryLog().open(), clock)
    heard: list[int] = []
    journal.observe(lambda: heard.append(journal.writer.health.events_buffered))
    journal.record(started(PLAN))
    journal.close()
    assert heard == [0]


def test_what_was_written_without_waiting_is_synced_before_an_act(tmp_path: Path, clock: FakeClock) -> None:
    """With a buffer of one every event is written at once, and none of them is durable yet."""
    disk = FailingDisk()
    log = JsonlLog(tmp_path / "events.jsonl", Buffering(events=1), disk=disk, mounts=tuple)
    journal = Journal("auth", log.open(), clock)
    journal.record(started(PLAN))
    assert journal.writer.health.events_buffered == 0
    before = disk.calls.count("sync")
    asyncio.run(journal.sync())
    assert disk.calls.count("sync") == before + 1
    journal.close()


def test_facts_that_no_act_waits_for_are_flushed_in_time(clock: FakeClock) -> None:
    seconds = [0.0]
    log = MemoryLog(flush_seconds=1.0, monotonic=lambda: seconds[0])
    journal = Journal("auth", log.open(), clock)
    heard: list[str] = []
    journal.observe(lambda: heard.append("news"))
    journal.record(started(PLAN))
    journal.flush_if_due()
    assert heard == []
    seconds[0] = 1.5
    journal.flush_if_due()
    assert heard == ["news"]
    assert journal.writer.health.events_buffered == 0
    journal.close()


def test_move_is_legal_or_not_where_it_is_recorded(journal: Journal) -> None:
    here = Cursor("0.0", 1, 1, "claude")
    journal.record(started(plan_of(block("claude codex", stage()))), Cursor("0", 0, 0))
    providers = ("claude", "codex")
    journal.record(f.NodeStarted("duel", "0", kind="parallel", providers=providers), Cursor("0", 1, 0))
    journal.record(f.IterationStarted("plan", "plan", "claude", "opus", "0"), here)
    journal.record(f.AttemptStarted(1, 2, "claude", "opus"), here)
    with pytest.raises(IllegalMove):
        journal.record(f.AttemptStarted(2, 2, "claude", "opus"), here)
    journal.record(f.AttemptStarted(1, 2, "codex", "opus"), Cursor("0.0", 1, 1, "codex"))


def test_notes_that_no_longer_fit_are_counted(journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
    journal.record(started(PLAN))
    half = "x" * (MAX_NOTES_BYTES // 2 - 10)
    for text in (half, half, half, "x" * (MAX_NOTES_BYTES - 10)):
        journal.record(f.NoteAdded(text, "me"))
    said = f"the oldest notes no longer fit into the context ({MAX_NOTES_BYTES} bytes in total): dropped"
    assert caplog.messages == [f"{said} 1", f"{said} 2"]
    assert len(journal.state.notes) == 1
