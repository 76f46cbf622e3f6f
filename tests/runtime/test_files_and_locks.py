"""A disk failure becomes one clear error, and the run is left as recorded."""

import asyncio
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.engine.plans import stage
from tests.sdk.projects import Gate, engine, eventually, iteration_dir, node, pipeline, run, types

from agentforge.app.runs.lock_folder import read_lock, remove_lock, write_lock
from agentforge.app.wiring import local_processes
from agentforge.model.errors import StorageFailed
from agentforge.model.layout import AttemptLayout, RunLayout
from agentforge.model.place import Place
from agentforge.model.task import AgentTask
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.runtime.attempt_folder import read_claim, read_exit, take_claim
from agentforge.runtime.conclusion import Attempted, note_attempt
from agentforge.runtime.controls import Control, drop_control, pending_controls, send_control
from agentforge.system import files
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

NOON = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)


def test_refusals_of_the_disk_name_the_path_and_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inside = str(tmp_path / "file" / "x")
    for act in (
        lambda: files.write(inside, b"x"),
        lambda: files.replace(inside, b"x"),
        lambda: files.make_dir(inside),
        lambda: files.make_dir(str(tmp_path / "file")),
        lambda: files.listing(inside),
        lambda: files.read_bytes(str(tmp_path)),
    ):
        with pytest.raises(StorageFailed, match=str(tmp_path)):
            act()


def test_missing_files_and_folders_read_as_none(tmp_path: Path) -> None:
    assert files.read_text(str(tmp_path / "none")) is None
    assert files.listing(str(tmp_path / "none")) == []
    files.write(str(tmp_path / "made" / "file"), b"\xffx")
    assert files.read_text(str(tmp_path / "made" / "file")) == "\ufffdx"


def test_disk_failure_in_mid_run_leaves_the_run_interrupted_and_resumable(tmp_path: Path) -> None:
    here = iteration_dir(tmp_path)
    calls: list[int] = []

    def breaks_its_folder(request: ExecuteRequest) -> ExecuteResult:
        calls.append(request.attempt)
        if len(calls) == 1:
            here.rename(here.with_name("away"))
            here.write_text("in the way")
            return ExecuteResult(output="said")
        return says("done")(request)

    async def main() -> None:
        async with engine(tmp_path, ScriptedProvider([breaks_its_folder])) as sdk:
            with pytest.raises(StorageFailed, match="iterations/001") as caught:
                await sdk.run(pipeline(node()), session="s")
            assert "then resume" in caught.value.hint
            assert sdk.status("s").status == "interrupted"
            here.unlink()
            here.with_name("away").rename(here)
            result = await sdk.recover("s")
            assert result is not None
            assert result.completed

    run(main())
    assert calls == [1, 2]
    assert "attempt_lost" in types(tmp_path)


# -- lock files, for people and old tools


def test_lock_file_names_the_owner_and_grants_nothing(tmp_path: Path) -> None:
    project = str(tmp_path)
    assert read_lock(project, "s") is None
    write_lock(project, "s", local_processes(), NOON)
    lock = read_lock(project, "s")
    assert lock is not None
    assert (lock.session, lock.pid, lock.started_at) == ("s", os.getpid(), NOON)
    assert lock.process is not None
    assert lock.process.pid == os.getpid()
    remove_lock(project, "s")
    remove_lock(project, "s")
    assert read_lock(project, "s") is None


def test_lock_file_of_an_older_tool_or_torn_is_not_an_obstacle(tmp_path: Path) -> None:
    locks = tmp_path / ".claude" / "locks"
    locks.mkdir(parents=True)
    (locks / "old.lock").write_text('{"session":"old","pid":1,"started_at":"2025-01-10T10:00:00Z"}')
    old = read_lock(str(tmp_path), "old")
    assert old is not None
    assert old.process is None
    (locks / "torn.lock").write_text("{")
    assert read_lock(str(tmp_path), "torn") is None

    async def main() -> None:
        async with engine(tmp_path) as sdk:
            assert (await sdk.run(pipeline(), session="torn")).completed

    run(main())
    assert not (locks / "torn.lock").exists()


# -- controls


def test_controls_are_taken_oldest_first_and_dropped_once(tmp_path: Path) -> None:
    layout = RunLayout.of(str(tmp_path), "s")
    assert pending_controls(layout) == []
    for id in ("20260115T2", "20260115T1"):
        send_control(layout, Control("pause", "x", id=id))
    assert [control.id for control in pending_controls(layout)] == ["20260115T1", "20260115T2"]
    for control in pending_controls(layout):
        drop_control(layout, control)
        drop_control(layout, control)
    assert pending_controls(layout) == []


def test_control_that_cannot_be_placed_is_a_clear_error(tmp_path: Path) -> None:
    layout = RunLayout.of(str(tmp_path), "s")
    Path(layout.root).mkdir(parents=True)
    Path(layout.control).write_text("a file, not a folder")
    with pytest.raises(StorageFailed):
        send_control(layout, Control("pause", "x", id="1"))


# -- what a supervisor leaves behind


def test_claim_is_taken_once_and_a_torn_record_is_none(tmp_path: Path) -> None:
    place = AttemptLayout(str(tmp_path / "attempt-1"))
    assert take_claim(place)
    assert not take_claim(place)
    assert read_claim(place, "m") is None
    assert read_exit(place, "m") is None
    Path(place.exit).write_text('{"status": "exi')
    assert read_exit(place, "m") is None


def test_records_of_attempts_survive_unreadable_lines(tmp_path: Path) -> None:
    layout = RunLayout.of(str(tmp_path), "s")
    here = layout.iteration("stage-00-plan", 1)
    Path(here.root).mkdir(parents=True)
    Path(here.attempts).write_text('{"attempt": 1}\nnot json\n{"no": 1}\n[]\n{"attempt": 2}\n{"attempt": 9}')
    node = stage()
    place = Place("0", 1, "stage-00-plan")
    task = AgentTask(place, node.id, 1, 3, node=node, by=node.provider, started_at=NOON)
    note_attempt(Attempted(task, here), "lost", None, NOON)
    lines = Path(here.attempts).read_text().splitlines()
    assert lines[:2] == ['{"attempt": 1}', '{"attempt": 2}']
    assert lines[2].startswith('{"attempt":3,"status":"lost"')
    assert len(lines) == 3


def test_cancelling_twice_leaves_at_once_and_the_run_is_interrupted(tmp_path: Path) -> None:
    async def main() -> None:
        gate = Gate()
        async with engine(tmp_path, gate) as sdk:
            going = asyncio.create_task(sdk.run(pipeline(), session="s"))
            await gate.working.wait()
            going.cancel()
            await eventually(lambda: "pause_requested" in types(tmp_path))
            going.cancel()
            with pytest.raises(asyncio.CancelledError):
                await going
            assert sdk.status("s").status == "interrupted"
            gate.finish.set()
            result = await sdk.recover("s")
            assert result is not None
            # The pause that the first cancel asked for is finished, not forgotten.
            assert result.status == "paused"

    run(main())
