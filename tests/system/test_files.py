"""Files below a project: each function on real files, and its errors."""

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.privileges import permissions_count

from agentforge.model.errors import StorageFailed
from agentforge.system import files
from agentforge.system.confined import ConfinedFolder
from agentforge.system.folders import draft_name, drafted, open_folder

_FULL = """
import os, sys
from agentforge.system import files
from agentforge.model.errors import StorageFailed

folder = sys.argv[1]
open(f"{folder}/kept", "wb").write(b"old")
acts = {
    "write": lambda: files.write(f"{folder}/a", bytes(2 << 20)),
    "append": lambda: files.append(f"{folder}/a", bytes(2 << 20)),
    "replace": lambda: files.replace(f"{folder}/kept", bytes(2 << 20)),
    "place": lambda: files.place(f"{folder}/once", bytes(2 << 20)),
}
for name, act in acts.items():
    try:
        act()
    except StorageFailed as error:
        print(name, error.message.removeprefix(folder), "->", error.hint)
    files.remove(f"{folder}/a")
print(sorted(os.listdir(folder)), open(f"{folder}/kept", "rb").read())
"""


def refused(act: Callable[[], object]) -> StorageFailed:
    with pytest.raises(StorageFailed) as caught:
        act()
    return caught.value


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


# -- writing


def test_write_makes_a_new_file_and_truncates_an_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a"
    files.write(str(path), b"a longer text")
    files.write(str(path), b"short")
    assert path.read_bytes() == b"short"


def test_write_makes_a_folder_that_was_removed(tmp_path: Path) -> None:
    files.write(str(tmp_path / "x" / "y" / "a"), b"1")
    assert (tmp_path / "x" / "y" / "a").read_bytes() == b"1"


def test_replace_leaves_no_draft_and_another_inode(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        files.replace(str(path), b"new")
        assert reader.read() == b"old"
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["a"]


def test_a_folder_in_the_way_of_a_file_is_moved_aside(tmp_path: Path) -> None:
    for name, write in (("a", files.write), ("b", files.replace)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kept").touch()
        write(str(tmp_path / name), b"new")
        assert (tmp_path / name).read_bytes() == b"new"
    aside = [name for name in names(tmp_path) if name not in ("a", "b")]
    assert [name[0] for name in aside] == ["a", "b"]
    assert [names(tmp_path / name) for name in aside] == [["kept"], ["kept"]]


def test_move_puts_a_folder_in_the_way_aside(tmp_path: Path) -> None:
    (tmp_path / "old" / "result.json" / "x").mkdir(parents=True)
    (tmp_path / "result.json").write_bytes(b"1")
    files.move(str(tmp_path / "result.json"), str(tmp_path / "old" / "result.json"))
    assert (tmp_path / "old" / "result.json").read_bytes() == b"1"
    assert len(names(tmp_path / "old")) == 2


def test_leftover_drafts_are_recognised_and_removed(tmp_path: Path) -> None:
    left = draft_name("state.json")
    assert drafted(left) == "state.json"
    assert [drafted(name) for name in (".state.json.tmp", "state.json", ".hidden")] == [None] * 3
    for name in (left, ".state.json.tmp", "state.json"):
        (tmp_path / name).touch()
    other = draft_name("other")
    (tmp_path / other).touch()
    files.remove_drafts(str(tmp_path), "other")
    assert sorted([".state.json.tmp", "state.json", left]) == names(tmp_path)
    files.remove_drafts(str(tmp_path))
    assert names(tmp_path) == [".state.json.tmp", "state.json"]


def test_place_is_once_and_leaves_no_draft(tmp_path: Path) -> None:
    path = tmp_path / "a"
    assert files.place(str(path), b"first")
    assert not files.place(str(path), b"second")
    assert path.read_bytes() == b"first"
    assert names(tmp_path) == ["a"]


def test_place_does_not_replace_a_dangling_link(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "elsewhere")
    assert not files.place(str(tmp_path / "a"), b"x")
    assert names(tmp_path) == ["a"]


def test_create_is_exclusive(tmp_path: Path) -> None:
    path = tmp_path / "claim"
    assert files.create(str(path))
    assert path.read_bytes() == b""
    path.write_bytes(b"taken")
    assert not files.create(str(path))
    assert path.read_bytes() == b"taken"


def test_append_adds_to_the_end(tmp_path: Path) -> None:
    for line in (b"1\n", b"2\n"):
        files.append(str(tmp_path / "a"), line)
    assert (tmp_path / "a").read_bytes() == b"1\n2\n"


def test_make_dir_returns_whether_it_is_new(tmp_path: Path) -> None:
    assert files.make_dir(str(tmp_path / "x" / "y"))
    assert not files.make_dir(str(tmp_path / "x" / "y"))
    assert files.make_dir(str(tmp_path / "x" / "z"))


def test_remove_of_a_missing_file_does_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    files.remove(str(tmp_path / "a"))
    files.remove(str(tmp_path / "a"))
    assert names(tmp_path) == []


def test_move_works_for_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "a").write_bytes(b"1")
    files.move(str(tmp_path / "run"), str(tmp_path / "run.aside"))
    files.move(str(tmp_path / "run.aside" / "a"), str(tmp_path / "b"))
    assert names(tmp_path) == ["b", "run.aside"]


def test_lock_is_held_by_one_at_a_time_and_stays_on_disk(tmp_path: Path) -> None:
    path, order = str(tmp_path / "lock"), list[str]()

    def second() -> None:
        with files.locked(path):
            order.append("second")

    other = threading.Thread(target=second)
    with files.locked(path):
        other.start()
        other.join(0.1)  # It must not get in; there is no condition to await.
        order.append("first")
    other.join()
    assert order == ["first", "second"]
    assert os.path.exists(path)


# -- reading


def test_read_of_a_missing_file_is_none(tmp_path: Path) -> None:
    assert files.read_bytes(str(tmp_path / "a")) is None
    assert files.read_text(str(tmp_path / "a")) is None
    assert files.listing(str(tmp_path / "a")) == []
    assert files.read_part(str(tmp_path / "a"), 0, 9) == (b"", 0)
    assert "a is missing" in refused(lambda: files.move(str(tmp_path / "a"), str(tmp_path / "b"))).hint


def test_text_has_invalid_bytes_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xffx")
    assert files.read_text(str(tmp_path / "a")) == "\ufffdx"
    assert files.read_bytes(str(tmp_path / "a")) == b"\xffx"


def test_read_is_bounded(tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    files.write(path, b"12345")
    assert files.read_bytes(path, 5) == b"12345"
    assert "5 bytes exceed the limit of 4" in refused(lambda: files.read_bytes(path, 4)).message


def test_sparse_file_of_any_size_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    os.truncate(path, files.MAX_BYTES + 1)
    assert "exceed the limit" in refused(lambda: files.read_bytes(str(path))).message


def test_file_that_the_user_names_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert files.read_named(str(tmp_path / "link")) == b"1"
    assert files.read_named(str(tmp_path / "none")) is None
    assert "link is a link" in refused(lambda: files.read_bytes(str(tmp_path / "link"))).message


@pytest.mark.parametrize(
    ("begin", "most", "found"),
    [
        (0, 4, (b"0123", 0)),
        (7, 4, (b"789", 7)),
        (-3, 9, (b"789", 7)),
        (-99, 4, (b"0123", 0)),
        (99, 4, (b"", 99)),
    ],
)
def test_part_of_a_file(tmp_path: Path, begin: int, most: int, found: tuple[bytes, int]) -> None:
    files.write(str(tmp_path / "a"), b"0123456789")
    assert files.read_part(str(tmp_path / "a"), begin, most) == found


def test_listing_returns_the_names(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).touch()
    assert sorted(files.listing(str(tmp_path))) == ["a", "b"]


def test_part_of_a_folder_is_empty(tmp_path: Path) -> None:
    assert files.read_part(str(tmp_path), 0, 9) == (b"", 0)


def test_sync_raises_oserror(tmp_path: Path) -> None:
    closed = open_folder(str(tmp_path))
    os.close(closed)
    with pytest.raises(OSError, match="Bad file descriptor"):
        files.sync(closed)
    with pytest.raises(FileNotFoundError):
        files.sync_directory(str(tmp_path / "none"))


# -- what the system refuses


def test_file_in_the_place_of_a_folder_is_named_with_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    inside = str(tmp_path / "file" / "x")
    acts: list[Callable[[], object]] = [
        lambda: files.write(inside, b"x"),
        lambda: files.replace(inside, b"x"),
        lambda: files.place(inside, b"x"),
        lambda: files.create(inside),
        lambda: files.append(inside, b"x"),
        lambda: files.make_dir(inside),
        lambda: files.make_dir(str(tmp_path / "file")),
        lambda: files.remove(inside),
        lambda: files.move(inside, str(tmp_path / "y")),
        lambda: files.locked(inside).__enter__(),
        lambda: files.read_bytes(inside),
        lambda: files.listing(inside),
    ]
    for act in acts:
        error = refused(act)
        assert str(tmp_path / "file") in error.message
        assert "has this path" in error.hint


def test_missing_folder_is_reported_as_missing(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "s"
    acts: list[Callable[[], object]] = [
        lambda: files.replace(str(run / "stage" / "state.json"), b"x"),
        lambda: files.place(str(run / "stage" / "1.json"), b"x"),
        lambda: files.create(str(run / "stage" / "claim")),
        lambda: files.append(str(run / "stage" / "cassette"), b"x"),
    ]
    for act in acts:
        error = refused(act)
        assert error.hint.startswith(f"the folder {tmp_path / 'runs'} is missing: restore it")
        assert "space" not in error.hint


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (errno.ENOSPC, "free some space"),
        (errno.EDQUOT, "quota"),
        (errno.EROFS, "read-only"),
        (errno.EACCES, "permissions"),
        (errno.EPERM, "permissions"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EIO, "check the disk"),
        (errno.ENOENT, "a file or folder is missing"),
    ],
)
def test_hint_fits_the_error(code: int, hint: str) -> None:
    def act() -> None:
        with files.storage("/project/a"):
            raise OSError(code, os.strerror(code))

    error = refused(act)
    assert error.message == f"/project/a: {os.strerror(code)}"
    assert hint in error.hint


def test_only_errors_of_the_system_are_translated() -> None:
    with pytest.raises(ValueError, match="another"), files.storage("/project/a"):
        raise ValueError("another")


def test_folder_without_permission_is_reported(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with permissions_count():
        error = refused(lambda: files.write(str(tmp_path / "closed" / "a"), b"x"))
    assert "permissions" in error.hint


def test_full_file_system_is_reported_and_leaves_no_drafts(tmp_path: Path) -> None:
    mount = 'mount -t tmpfs -o size=1m tmpfs "$1"'
    unshare = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c"]
    try:
        probe = subprocess.run([*unshare, mount, "sh", tmp_path], capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("program: `unshare` not found")
    if probe.returncode:
        pytest.skip(f"privileges: no mounts in a user namespace here: {probe.stderr.decode().strip()}")
    run = [*unshare, f'{mount} && exec "$2" -c "$3" "$1"', "sh", str(tmp_path), sys.executable, _FULL]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    *said, left = done.stdout.splitlines()
    full = "No space left on device -> free some space, then resume the run"
    assert said == [
        f"write /a: {full}",
        f"append /a: {full}",
        f"replace /kept: {full}",
        f"place /once: {full}",
    ]
    assert left == "['kept'] b'old'"


# -- JSON


def test_json_for_people_and_for_lines() -> None:
    assert files.pretty({"a": [1]}) == b'{\n  "a": [\n    1\n  ]\n}\n'
    assert files.compact({"a": [1]}) == b'{"a":[1]}\n'


def test_what_one_write_did_not_take_is_written_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:3]))
    files.append(str(tmp_path / "a"), b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_a_locked_file_gets_another_content_and_stays_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_bytes(b"a longer text")
    inode = path.stat().st_ino
    descriptor = files.lock_shared(str(path))
    for content in (b"short", b"a text again", b""):
        files.overwrite(descriptor, content)
        assert (path.read_bytes(), path.stat().st_ino) == (content, inode)
    os.close(descriptor)


OVERWRITE = """
import resource, sys
from agentforge.system import files
from agentforge.model.errors import StorageFailed
descriptor = files.lock_shared(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (6, 6))
try:
    files.overwrite(descriptor, b"0123456789")
except StorageFailed as error:
    print(error.message)
"""


def test_overwriting_as_much_of_a_locked_file_as_fits_is_an_error(tmp_path: Path) -> None:
    """The system writes a part, without an error, and refuses the rest."""
    argv = [sys.executable, "-B", "-c", OVERWRITE, str(tmp_path / "lock")]
    said = subprocess.run(argv, check=True, timeout=60, capture_output=True, text=True).stdout
    assert said == "can't write a lock file: File too large\n"


def test_a_lock_that_another_process_keeps_is_waited_for_with_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.1)
    path = str(tmp_path / "x.lock")
    with (
        files.locked(path),
        pytest.raises(StorageFailed, match="another process has held the lock"),
        files.locked(path),
    ):
        pytest.fail("the lock was taken twice")
    with files.locked(path):
        pass


# -- removing folders


def test_tree_is_removed_however_deep_and_its_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    root = tmp_path / "tree"
    deep = root
    for number in range(40):
        deep = deep / f"{number}-{'x' * 90}"
        deep.mkdir(parents=True)
        (deep / "file").touch()
        (deep / "link").symlink_to(outside)
    (root / "last").touch()
    files.remove_tree(str(root), last="last")
    assert names(tmp_path) == ["outside"]
    assert names(outside) == ["kept"]
    files.remove_tree(str(root))


def test_link_in_the_place_of_a_tree_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "tree").symlink_to("kept")
    refused(lambda: files.remove_tree(str(tmp_path / "tree")))
    assert names(tmp_path) == ["kept", "tree"]


def test_links_are_neither_subfolders_nor_files(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link-to-folder").symlink_to("folder")
    (tmp_path / "link-to-file").symlink_to("file")
    assert files.subfolders(str(tmp_path)) == ["folder"]
    assert files.is_file(str(tmp_path / "file"))
    assert not files.is_file(str(tmp_path / "link-to-file"))


def test_folders_of_a_run_are_for_their_owner(tmp_path: Path) -> None:
    files.make_dir(str(tmp_path / "run"))
    assert (tmp_path / "run").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "name", ["语" * 84, "x" * 255, "ä" * 127], ids=["three bytes", "one byte", "two bytes"]
)
def test_a_file_with_a_long_name_is_replaced_and_its_drafts_are_recognised(tmp_path: Path, name: str) -> None:
    """The limit is in bytes."""
    path = tmp_path / name
    files.replace(str(path), b"one")
    files.write(str(path), b"two")
    assert path.read_bytes() == b"two"
    assert files.place(str(path.with_name(name[1:])), b"three")
    (tmp_path / draft_name(name)).touch()
    files.remove_drafts(str(tmp_path), of=name)
    path.unlink()
    path.mkdir()
    files.replace(str(path), b"four")
    assert path.read_bytes() == b"four"
    assert len(list(tmp_path.iterdir())) == 3, "with the folder, which was moved aside"


@pytest.mark.parametrize("name", ["语" * 84, "x" * 255], ids=["three bytes", "one byte"])
def test_a_user_s_file_with_a_long_name_is_replaced(tmp_path: Path, name: str) -> None:
    with ConfinedFolder(str(tmp_path)) as folder:
        folder.write(name, b"one", owner="01234567")
        (tmp_path / draft_name(name, "01234567")).touch()
        folder.write(name, b"two", owner="01234567")
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_bytes() == b"two"
