"""The proof that a run was started here: what it recognises, and what it doesn't."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.runtime.test_head_keeper import environ, project_of
from tests.sdk.projects import engine, pipeline, run, run_dir

from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.runtime.run_proof import RunOrigin, RunProof
from agentforge.runtime.state_folder import StateFolder
from agentforge.sdk.engine import Engine


def completed(project: Path, home: Path) -> str:
    async def main(sdk: Engine) -> str:
        async with sdk:
            await sdk.run(pipeline(), session="s")
            return sdk.runs.run_id("s")

    return run(main(engine(project, environ=environ(home))))


def origin(project: Path, home: Path, run_id: str) -> RunOrigin:
    folder = run_dir(project)
    return RunProof(str(folder), environ(home)).origin(run_id, JsonlLog(folder / "events.jsonl"))


def rewritten(log: Path, content: bytes) -> None:
    """As another file; the old one is kept, so that its inode isn't reused."""
    os.rename(log, log.with_name("old"))
    log.write_bytes(content)


def test_run_is_from_here_and_another_id_is_foreign(tmp_path: Path) -> None:
    project, home = project_of(tmp_path), tmp_path / "home"
    run_id = completed(project, home)
    assert origin(project, home, run_id).kind == "here"
    assert origin(project, home, "another").kind == "foreign"
    assert origin(project, home, "").kind == "foreign"
    assert origin(project, tmp_path / "other-home", run_id).kind == "foreign"


def test_restored_log_counts_only_if_it_ends_where_the_log_ended(tmp_path: Path) -> None:
    project, home = project_of(tmp_path), tmp_path / "home"
    run_id = completed(project, home)
    log = run_dir(project) / "events.jsonl"
    content = log.read_bytes()
    rewritten(log, content)
    assert origin(project, home, run_id).kind == "restored"
    log.write_bytes(content + b"{}\n")
    assert origin(project, home, run_id).kind == "replaced"
    log.write_bytes(b"".join(content.splitlines(keepends=True)[:-1]))
    assert origin(project, home, run_id).kind == "replaced"
    log.write_bytes(content.replace(b'"s"', b'"t"', 1))
    assert origin(project, home, run_id).kind == "replaced"


def test_log_that_was_replaced_and_got_the_same_inode_is_not_from_here(tmp_path: Path) -> None:
    """As after a pull of a repository that contains the log, with more events than were written here."""
    project, home = project_of(tmp_path), tmp_path / "home"
    run_id = completed(project, home)
    log = run_dir(project) / "events.jsonl"
    content = log.read_bytes()
    log.unlink()
    log.write_bytes(content + b"{}\n")
    assert origin(project, home, run_id).kind == "replaced"
    log.unlink()
    log.write_bytes(content)
    assert origin(project, home, run_id).kind == "restored"


def test_moved_run_is_recognised_also_on_another_disk(tmp_path: Path) -> None:
    project, home = project_of(tmp_path), tmp_path / "home"
    run_id = completed(project, home)
    moved = project.rename(tmp_path / "moved")
    assert origin(moved, home, run_id) == RunOrigin("moved", str(run_dir(project)))
    log = run_dir(moved) / "events.jsonl"
    rewritten(log, log.read_bytes())
    assert origin(moved, home, run_id).kind == "moved"
    log.write_bytes(log.read_bytes() + b"{}\n")
    assert origin(moved, home, run_id).kind == "copied"


def test_copy_is_not_moved_while_the_original_is_there(tmp_path: Path) -> None:
    project, home = project_of(tmp_path), tmp_path / "home"
    run_id = completed(project, home)
    copy = shutil.copytree(project, tmp_path / "copy")
    assert origin(copy, home, run_id) == RunOrigin("copied", str(run_dir(project)))


def test_nothing_is_kept_in_the_project_or_in_a_relative_folder(tmp_path: Path) -> None:
    folder = str(run_dir(tmp_path))
    assert StateFolder(folder, {"XDG_STATE_HOME": str(tmp_path.parent)}).problem == ""
    inside = StateFolder(folder, {"XDG_STATE_HOME": str(tmp_path / "state")})
    assert "is inside the project" in inside.problem
    assert "is an absolute path" in StateFolder(folder, {"HOME": "home"}).problem


def test_what_is_kept_follows_a_moved_run(tmp_path: Path) -> None:
    project, home = project_of(tmp_path), tmp_path / "home"
    run_id = completed(project, home)
    moved = project.rename(tmp_path / "moved")
    RunProof(str(run_dir(moved)), environ(home)).move(run_id, str(run_dir(project)))
    assert origin(moved, home, run_id).kind == "here"
    kept = [path.parent.name for path in (home / "agentforge").rglob("*.json")]
    assert sorted(kept) == ["heads", "runs"]


def test_damaged_proof_proves_nothing(tmp_path: Path) -> None:
    project, home = project_of(tmp_path), tmp_path / "home"
    run_id = completed(project, home)
    for proof in (home / "agentforge" / "runs").iterdir():
        proof.write_text("{torn")
    assert origin(project, home, run_id).kind == "foreign"


WATCH = """
import os, sys
from agentforge.runtime.run_proof import RunProof
from agentforge.runtime.state_folder import StateFolder
folder, home = sys.argv[1:]
environ = {"HOME": home}
path = StateFolder(folder, environ).path("runs", "id")
RunProof(folder, environ).store("id")
gone = []
sys.addaudithook(lambda name, _: gone.append(name) if not os.path.lexists(path) else None)
RunProof(folder, environ).store("id")
print(gone)
"""


def test_proof_that_is_stored_again_is_there_at_every_moment(tmp_path: Path) -> None:
    project, home = project_of(tmp_path), tmp_path / "home"
    run_dir(project).mkdir(parents=True)
    argv = [sys.executable, "-c", WATCH, str(run_dir(project)), str(home)]
    watched = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)
    assert watched.stdout == "[]\n"
