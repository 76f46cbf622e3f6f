"""loop-completions.json: one entry for each finished single-stage run, also with concurrent writers."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.engine.plans import event, plan_of, stage, started

from agentforge.app.runs.completions import Completion, add_completion, completion_of
from agentforge.engine.evolve.run import evolve
from agentforge.model.status import RunStatus

NOON = datetime(2026, 1, 15, 12, 0, 0, 5, tzinfo=UTC)


def entry(session: str = "a") -> Completion:
    return Completion(session, "tidy", "complete", NOON.replace(microsecond=0))


def written(project: Path) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads((project / ".claude" / "loop-completions.json").read_text())
    return found


def test_repeated_loop_completion_is_recorded_once(tmp_path: Path) -> None:
    assert add_completion(str(tmp_path), entry())
    assert not add_completion(str(tmp_path), entry())
    assert written(tmp_path) == [
        {"session": "a", "type": "tidy", "status": "complete", "completed_at": "2026-01-15T12:00:00Z"}
    ]


def test_concurrent_loop_completions_are_all_recorded(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: add_completion(str(tmp_path), entry(name)), names))
    assert sorted(found["session"] for found in written(tmp_path)) == sorted(names)


def test_loop_completions_that_are_not_a_list_are_archived(tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "loop-completions.json"
    path.parent.mkdir()
    path.write_text("{")
    assert add_completion(str(tmp_path), entry())
    assert len(written(tmp_path)) == 1
    assert path.with_name("loop-completions.json.unreadable").read_text() == "{"


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        (RunStatus.COMPLETED, "Completed 3 iterations (max: 3)", "complete"),
        (RunStatus.COMPLETED, "max_iterations", "max_iterations"),
        (RunStatus.FAILED, None, "failed"),
        (RunStatus.ABORTED, "requested", None),
        (RunStatus.RUNNING, None, None),
    ],
)
def test_loop_completion_status(status: RunStatus, reason: str | None, expected: str | None) -> None:
    plan = plan_of(stage("tidy"), mode="loop")
    at = None if status is RunStatus.RUNNING else NOON
    state = replace(
        evolve(None, event(1, started(plan))), status=status, completion_reason=reason, completed_at=at
    )
    found = completion_of(plan, state)
    assert (found.status if found else None) == expected
    assert completion_of(plan_of(stage("tidy")), state) is None


def git(folder: Path, *arguments: str) -> str:
    call = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(call, check=True, capture_output=True, text=True).stdout


@pytest.mark.parametrize("owned", ["", "/settings.local.json\n"])
@pytest.mark.parametrize("is_worktree", [False, True])
def test_nothing_of_the_completions_is_an_untracked_file(
    tmp_path: Path, owned: str, is_worktree: bool
) -> None:
    """Also if the project has a `.gitignore` of its own in that folder."""
    project = tmp_path / "project"
    git(tmp_path, "init", "-q", "project")
    git(project, "commit", "-q", "--allow-empty", "-m", "first")
    if is_worktree:
        git(project, "worktree", "add", "-q", "--detach", str(tmp_path / "other"))
        project = tmp_path / "other"
    path = project / ".claude" / "loop-completions.json"
    path.parent.mkdir()
    path.write_text("{")
    if owned:
        path.with_name(".gitignore").write_text(owned)
        git(project, "add", ".claude/.gitignore")
        git(project, "commit", "-q", "-m", "ours")
    for session in ("a", "b"):
        add_completion(str(project), replace(entry(), session=session))
    assert git(project, "status", "--porcelain", "--untracked-files=all") == ""
    assert {path.name for path in path.parent.iterdir()} >= {".gitignore", f"{path.name}.unreadable"}
