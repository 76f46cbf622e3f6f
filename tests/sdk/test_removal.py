"""Deleting runs: all of it, nothing else, and completely even if it is interrupted."""

import asyncio
import os
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import ENVIRON, Gate, engine, node, pipeline, run, run_dir

from agentforge import Background, Engine, InvalidRequest, RunActive, StorageFailed, UnknownRun
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import crashes

LATER = timedelta(days=365)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def environ(project: Path) -> dict[str, str]:
    return {**ENVIRON, "XDG_STATE_HOME": str(project.parent / "state")}


def sdk(project: Path, provider: Any = None) -> Engine:
    return engine(project, provider, environ=environ(project))


def kept(project: Path) -> list[str]:
    """What the state folder holds about runs."""
    return sorted(f"{path.parent.name}/{path.name}" for path in (project.parent / "state").rglob("*.json"))


def complete(project: Path, *sessions: str) -> None:
    async def all_of_them() -> None:
        async with sdk(project) as at:
            for session in sessions:
                assert (await at.run(pipeline(), session=session)).completed

    run(all_of_them())


def names(project: Path) -> list[str]:
    return sorted(path.name for path in run_dir(project).parent.iterdir() if path.name != ".gitignore")


def test_removed_run_is_gone_with_its_proof_and_the_others_stay(project: Path) -> None:
    complete(project, "other")
    before = kept(project)
    complete(project, "s")
    assert len(kept(project)) == 2 * len(before) == 4
    assert sdk(project).remove("s")
    assert names(project) == ["other"]
    assert kept(project) == before
    with pytest.raises(UnknownRun):
        sdk(project).remove("s")
    complete(project, "s")


def test_running_run_is_refused(project: Path) -> None:
    async def scenario() -> None:
        gate = Gate()
        async with sdk(project, gate) as at:
            running = asyncio.create_task(at.run(pipeline(), session="s"))
            await gate.working.wait()
            with pytest.raises(RunActive, match="session 's' is running") as raised:
                sdk(project).remove("s")
            assert raised.value.hint == "stop it first: agentforge cancel s"
            gate.finish.set()
            assert (await running).completed

    run(scenario())
    assert names(project) == ["s"]


def test_links_and_odd_files_in_a_run_are_removed_but_not_followed(project: Path) -> None:
    complete(project, "s")
    outside = project / "precious"
    outside.mkdir()
    (outside / "file").write_text("x")
    folder = run_dir(project)
    (folder / "link").symlink_to(outside)
    (folder / "payloads").mkdir(exist_ok=True)
    (folder / "payloads" / "link").symlink_to(outside / "file")
    os.mkfifo(folder / "pipe")
    deep = folder / "deep"
    for _ in range(60):
        deep = deep / ("d" * 30)
    deep.mkdir(parents=True)
    assert sdk(project).remove("s")
    assert names(project) == []
    assert (outside / "file").read_text() == "x"


def test_run_folder_that_is_a_link_is_refused(project: Path) -> None:
    complete(project, "s")
    shutil.move(run_dir(project), project / "elsewhere")
    run_dir(project).symlink_to(project / "elsewhere")
    with pytest.raises(InvalidRequest, match="is not a run: it is a link"):
        sdk(project).remove("s")
    assert (project / "elsewhere" / "events.jsonl").exists()


@pytest.mark.parametrize("state", ["renamed", "half", "log-only", "empty"])
def test_next_removal_completes_one_that_was_killed(project: Path, state: str) -> None:
    complete(project, "other")
    before = kept(project)
    complete(project, "s")
    aside = run_dir(project).with_name(".removed.s.0123abcd")
    run_dir(project).rename(aside)
    if state != "renamed":
        for path in aside.iterdir():
            if path.name == "events.jsonl" if state == "empty" else path.name != "events.jsonl":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
    if state == "empty":
        for name in set(kept(project)) - set(before):
            (project.parent / "state" / "agentforge" / name).unlink()
    assert sdk(project).runs.sessions() == ["other"]
    assert sdk(project).runs.not_runs() == {}
    assert sdk(project).remove("other")
    assert names(project) == []
    assert kept(project) == []


def test_removal_that_another_process_is_busy_with_is_left_to_it(project: Path) -> None:
    complete(project, "s", "other")
    log = sdk(project).runs.log("s")
    with log.hold():
        aside = run_dir(project).with_name(".removed.s.0123abcd")
        run_dir(project).rename(aside)
        assert sdk(project).remove("other")
        assert names(project) == [aside.name]


def test_removed_run_is_gone_with_its_references_unless_another_copy_has_them(project: Path) -> None:
    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(project), *words], check=True, capture_output=True, text=True)
        return done.stdout.strip()

    git("init", "-q")
    complete(project, "other", "s")
    tree = git("write-tree")
    for session in ("other", "s"):
        git("update-ref", f"refs/agentforge/{sdk(project).inspect(session).state.run_id}/1", tree)
    kept = git("for-each-ref", "refs/agentforge")
    shutil.copytree(run_dir(project), run_dir(project, "copy"))
    assert sdk(project).remove("copy")
    assert git("for-each-ref", "refs/agentforge") == kept
    assert sdk(project).remove("s")
    other = sdk(project).inspect("other").state.run_id
    assert git("for-each-ref", "--format=%(refname)", "refs/agentforge") == f"refs/agentforge/{other}/1"


def test_copy_of_a_run_is_removed_without_the_proof_of_the_original(project: Path) -> None:
    complete(project, "s")
    before = kept(project)
    shutil.copytree(run_dir(project), run_dir(project, "copy"))
    assert sdk(project).remove("copy")
    assert kept(project) == before
    assert sdk(project).outdated(datetime.now(UTC) + LATER).own[0].session == "s"


def test_archived_run_is_removed_with_its_proof(project: Path) -> None:
    complete(project, "s")

    async def again() -> None:
        async with sdk(project) as at:
            await at.run(pipeline(), session="s", force=True)

    run(again())
    (archived,) = [name for name in names(project) if name != "s"]
    at = sdk(project)
    assert {row.session for row in at.outdated(datetime.now(UTC) + LATER).own} == {"s", archived}
    assert at.remove(archived)
    assert len(kept(project)) == 2
    at.refuse_untrusted("s")


def test_only_own_completed_and_cancelled_runs_of_that_age_are_outdated(project: Path) -> None:
    complete(project, "done")

    async def others() -> None:
        async with sdk(project, ScriptedProvider([crashes()])) as at:
            await at.run(pipeline(node(retry={"max_attempts": 1})), session="failed")
        gate = Gate()
        async with sdk(project, gate) as at:
            running = asyncio.create_task(at.run(pipeline(), session="cancelled"))
            await gate.working.wait()
            await at.cancel("cancelled")
            await running

    run(others())
    shutil.copytree(run_dir(project, "done"), run_dir(project, "foreign"))
    at, now = sdk(project), datetime.now(UTC)
    assert at.outdated(now - timedelta(days=1)).own == ()
    found = at.outdated(now + LATER)
    assert {row.session for row in found.own} == {"done", "cancelled"}
    assert [row.session for row in found.foreign] == ["foreign"]
    assert not at.remove("done", ended_before=now - timedelta(days=1))
    assert at.remove("done", ended_before=now + LATER)
    assert not at.remove("failed", ended_before=now + LATER)


def test_status_in_a_changed_cache_does_not_make_a_run_outdated(project: Path) -> None:
    async def fails() -> None:
        async with sdk(project, ScriptedProvider([crashes()])) as at:
            await at.run(pipeline(node(retry={"max_attempts": 1})), session="s")

    run(fails())
    state = run_dir(project) / "state.json"
    text = state.read_text()
    assert '"failed"' in text
    state.write_text(text.replace('"failed"', '"completed"'))
    assert sdk(project).outdated(datetime.now(UTC) + LATER).own == ()


def test_unreadable_run_and_one_that_did_not_start_can_be_removed(project: Path) -> None:
    complete(project, "s")
    (run_dir(project) / "events.jsonl").write_text("garbage\n")
    at = sdk(project)
    assert at.remove("s")
    Background(at.runs).record_failure("never", StorageFailed("disk full"))
    assert at.remove("never")
    assert at.runs.stopped() == []
