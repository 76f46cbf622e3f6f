"""Files that a dead engine left are repaired by the next command that reads the run."""

import fcntl
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.privileges import permissions_count

from agentforge import Runs
from agentforge.model.layout import lock_file
from agentforge.ports.provider import ExecuteRequest, ExecuteResult
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import crashes, says
from agentforge.views.files.state import SNAPSHOT_VERSION

from .projects import ENVIRON, cut_log, engine, load, node, pipeline, run, run_dir, types

LOOKS: dict[str, Callable[[Engine], Any]] = {
    "status": lambda made: made.status("s"),
    "list": lambda made: made.list(),
    "inspect": lambda made: made.inspect("s"),
    "tail": lambda made: list(made.tail("s").news()),
}


def stopped(project: Path, *, ends: str = "completed") -> Engine:
    """A stopped run whose engine was killed before it updated state.json and removed its lock file."""
    left: dict[Path, bytes] = {}

    def act(request: ExecuteRequest) -> ExecuteResult:
        for path in (run_dir(project) / "state.json", Path(lock_file(str(project), "s"))):
            left[path] = path.read_bytes()
        return (says("done") if ends == "completed" else crashes())(request)

    made = engine(project, ScriptedProvider([act]))
    run(made.start(made.compile(pipeline(node(retry={"max_attempts": 1})), session="s")))
    for path, content in left.items():
        path.write_bytes(content)
    return engine(project)


def is_repaired(project: Path, status: str = "completed") -> bool:
    state = load(run_dir(project) / "state.json")
    is_current = state["status"] == status and state["event_offset"] == len(types(project))
    return is_current and not Path(lock_file(str(project), "s")).exists()


@pytest.mark.parametrize("look", LOOKS)
def test_who_looks_at_a_stopped_run_repairs_its_files(tmp_path: Path, look: str) -> None:
    made = stopped(tmp_path)
    before = (run_dir(tmp_path) / "events.jsonl").read_bytes()
    LOOKS[look](made)
    assert is_repaired(tmp_path)
    assert (run_dir(tmp_path) / "events.jsonl").read_bytes() == before


@pytest.mark.parametrize("look", LOOKS)
def test_who_looks_at_a_stopped_run_with_a_damaged_log_changes_nothing_of_it(
    tmp_path: Path, look: str
) -> None:
    """A person decides about the damage first. The log still has the length and the end that were kept."""
    made = stopped(tmp_path)
    log, state = run_dir(tmp_path) / "events.jsonl", run_dir(tmp_path) / "state.json"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join((*lines[:2], b"x" * (len(lines[2]) - 1) + b"\n", *lines[3:])))
    before = log.read_bytes(), state.read_bytes()
    LOOKS[look](made)
    assert (log.read_bytes(), state.read_bytes()) == before


def test_who_looks_at_a_stopped_run_with_a_torn_end_records_its_repair(tmp_path: Path) -> None:
    made = stopped(tmp_path)
    log = run_dir(tmp_path) / "events.jsonl"
    before = log.read_bytes()
    log.write_bytes(before + b'{"seq":')
    made.status("s")
    assert types(tmp_path)[-2:] == ["session_complete", "log_repaired"]
    assert is_repaired(tmp_path)
    assert (log.with_name(f"events.jsonl.torn-{len(before)}")).read_bytes() == b'{"seq":'


def test_the_runs_of_an_engine_are_looked_at_without_a_repair(tmp_path: Path) -> None:
    made = stopped(tmp_path)
    assert made.runs.info("s").status == "completed"
    assert not is_repaired(tmp_path)


def test_status_of_the_look_that_repairs_is_up_to_date(tmp_path: Path) -> None:
    made = stopped(tmp_path, ends="failed")
    info = made.status("s")
    assert info.state_file_seq == info.state.seq
    assert is_repaired(tmp_path, "failed")


@pytest.mark.parametrize("what", ["lock", "state", "missing state", "garbage"])
def test_each_of_the_files_is_repaired_alone(tmp_path: Path, what: str) -> None:
    made = stopped(tmp_path)
    state = run_dir(tmp_path) / "state.json"
    if what == "lock":
        made.tidy()
        Path(lock_file(str(tmp_path), "s")).write_text("{")
    else:
        Path(lock_file(str(tmp_path), "s")).unlink()
    if what == "missing state":
        state.unlink()
    if what == "garbage":
        state.write_text("[")
    made.status("s")
    assert is_repaired(tmp_path)


def test_a_run_that_an_engine_drives_is_left_alone(tmp_path: Path) -> None:
    made = stopped(tmp_path)
    with (run_dir(tmp_path) / "events.jsonl").open() as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        assert made.status("s").status == "completed"
        assert Path(lock_file(str(tmp_path), "s")).exists()
    assert load(run_dir(tmp_path) / "state.json")["status"] == "running"


def test_an_interrupted_run_is_left_to_recovery(tmp_path: Path) -> None:
    made = stopped(tmp_path)
    lines = (run_dir(tmp_path) / "events.jsonl").read_bytes().splitlines(keepends=True)
    cut_log(tmp_path, lines[:-1])
    assert made.status("s").status == "interrupted"
    assert Path(lock_file(str(tmp_path), "s")).exists()


def test_a_run_that_was_not_started_here_is_left_alone(tmp_path: Path) -> None:
    stopped(tmp_path)
    stranger = engine(tmp_path, environ={**ENVIRON, "XDG_STATE_HOME": str(tmp_path.parent / "stranger")})
    assert stranger.status("s").status == "completed"
    assert not is_repaired(tmp_path)
    assert Path(lock_file(str(tmp_path), "s")).exists()


def test_a_log_that_was_shortened_keeps_the_head_that_tells(tmp_path: Path) -> None:
    made = engine(tmp_path, ScriptedProvider([crashes(), says("done")]))
    run(made.start(made.compile(pipeline(node(retry={"max_attempts": 1})), session="s")))
    log = run_dir(tmp_path) / "events.jsonl"
    failed = log.read_bytes()
    run(made.resume("s"))
    log.write_bytes(failed)
    assert made.status("s").status == "failed"
    assert load(run_dir(tmp_path) / "state.json")["status"] == "completed"
    head = next(
        found
        for path in Path(ENVIRON["XDG_STATE_HOME"]).glob("agentforge/heads/*.json")
        if (found := load(path))["run_id"] == made.status("s").state.run_id
    )
    assert head["head"]["length"] > len(failed)


def test_an_archived_run_is_left_as_it_is(tmp_path: Path) -> None:
    made = stopped(tmp_path)
    archived = run_dir(tmp_path, "s.20260115-120000-000000")
    shutil.move(run_dir(tmp_path), archived)
    assert [row.session for row in made.list()] == [archived.name]
    assert load(archived / "state.json")["status"] == "running"


def test_a_folder_that_cannot_be_written_is_shown_as_it_is(tmp_path: Path) -> None:
    made = stopped(tmp_path)
    run_dir(tmp_path).chmod(0o500)
    with permissions_count():
        shown = made.status("s")
    assert shown.status == "completed"
    assert not is_repaired(tmp_path)
    run_dir(tmp_path).chmod(0o700)
    made.status("s")
    assert is_repaired(tmp_path)


@pytest.mark.parametrize(
    ("change", "is_used"),
    [
        ({}, True),
        ({"version": SNAPSHOT_VERSION + 1}, False),
        ({"version": None}, False),
        ({"summary": 7}, False),
    ],
)
def test_snapshot_of_another_version_or_shape_is_ignored(
    tmp_path: Path, change: dict[str, Any], *, is_used: bool
) -> None:
    """A false snapshot shows whether `status` used it or read the log."""
    run(engine(tmp_path, ScriptedProvider([says("done")])).run(pipeline(node()), session="s"))
    content = load(run_dir(tmp_path) / "state.json")
    content["snapshot"]["state"]["completion_reason"] = "false"
    content["snapshot"] |= change
    (run_dir(tmp_path) / "state.json").write_bytes(msgspec.json.encode(content))
    shown = Runs(str(tmp_path)).info("s").state.completion_reason
    assert (shown == "false") is is_used
