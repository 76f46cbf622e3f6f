"""The files of one folder: links are followed inside it, and no more is read or left than was asked for."""

import os
from pathlib import Path

import pytest

from agentforge.system.confined import ConfinedFolder
from agentforge.system.folders import OutsideRoot, draft_name


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work" / "a").mkdir(parents=True)
    return tmp_path / "work"


def test_absolute_link_below_a_folder_is_resolved_from_the_root(work: Path) -> None:
    (work / "b").mkdir()
    (work / "b" / "file").write_text("of b")
    (work / "a" / "link").symlink_to(work / "b" / "file")
    with ConfinedFolder(str(work)) as folder:
        assert folder.read("a/link", 100) == (b"of b", 4)


def test_link_to_a_folder_whose_name_begins_like_that_of_the_root_leads_outside(
    work: Path, tmp_path: Path
) -> None:
    (tmp_path / "work-2").mkdir()
    (tmp_path / "work-2" / "file").write_text("theirs")
    (work / "link").symlink_to(tmp_path / "work-2" / "file")
    with ConfinedFolder(str(work)) as folder, pytest.raises(OutsideRoot):
        folder.read("link", 100)


def test_no_more_is_read_than_was_asked_for(work: Path) -> None:
    (work / "file").write_bytes(b"0123456789")
    with ConfinedFolder(str(work)) as folder:
        assert folder.read("file", 3) == (b"012", 10)


def test_only_drafts_of_the_same_owner_are_removed(work: Path) -> None:
    ours, theirs = draft_name("file", "aaaaaaaa"), draft_name("file", "bbbbbbbb")
    for name in (ours, theirs):
        (work / name).touch()
    with ConfinedFolder(str(work)) as folder:
        folder.write("file", b"new", owner="aaaaaaaa")
    assert sorted(os.listdir(work)) == sorted(["a", "file", theirs])


def test_failed_write_leaves_the_old_content_and_no_draft(work: Path) -> None:
    (work / "file").write_text("old")
    with ConfinedFolder(str(work)) as folder, pytest.raises(TypeError):
        folder.write("file", "no bytes")  # type: ignore[arg-type]
    assert sorted(os.listdir(work)) == ["a", "file"]
    assert (work / "file").read_text() == "old"
