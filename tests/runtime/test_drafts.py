"""Drafts that a crash left are removed when the next engine acquires the run."""

from pathlib import Path

from agentforge.model.layout import RunLayout
from agentforge.runtime.left_files import remove_run_drafts
from agentforge.system.folders import draft_name


def test_drafts_are_removed_wherever_an_engine_may_have_written(tmp_path: Path) -> None:
    root = tmp_path / "s"
    branch = root / "parallel-01-duel" / "run-002" / "providers" / "claude"
    removed = [
        root,
        root / "payloads",
        root / "stage-00-plan" / "iterations" / "010",
        root / "control",
        branch,
    ]
    removed += [branch / "stage-00-draft" / "iterations" / "002"]
    kept = [
        root / "stage-00-plan" / "iterations" / "001",
        root / "stage-00-plan" / "iterations" / "010" / "attempt-1",
    ]
    for folder in (*removed, *kept, root / "stage-00-plan" / "iterations" / "009"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / draft_name("a")).touch()
        (folder / "a").touch()
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / draft_name("a")).touch()
    (root / "link").symlink_to(outside)
    remove_run_drafts(RunLayout(str(root), "s"))
    assert [len(list(folder.glob("*.tmp"))) for folder in removed] == [0] * len(removed)
    assert [len(list(folder.glob("*.tmp"))) for folder in kept] == [1] * len(kept)
    assert len(list(outside.iterdir())) == 1
    assert all((folder / "a").exists() for folder in removed)


def test_missing_run_folder_has_no_drafts(tmp_path: Path) -> None:
    remove_run_drafts(RunLayout(str(tmp_path / "s"), "s"))
    assert list(tmp_path.iterdir()) == []
