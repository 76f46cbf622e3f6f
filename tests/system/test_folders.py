"""Files of a run: no link is followed, nothing but regular files is opened, and nothing waits."""

import os
import socket
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from agentforge.model.errors import StorageFailed, UnusableFile
from agentforge.system import files, folders, linux
from agentforge.system.folders import NotRegular, draft_name, drafted, open_folder

Act = Callable[[str], object]

WRITES: dict[str, Act] = {
    "write": lambda path: files.write(path, b"new"),
    "replace": lambda path: files.replace(path, b"new"),
    "place": lambda path: files.place(path, b"new"),
    "create": files.create,
    "append": lambda path: files.append(path, b"new"),
    "locked": lambda path: files.locked(path).__enter__(),
    "open_file": lambda path: files.open_file(path, os.O_RDWR | os.O_CREAT),
}
READS: dict[str, Act] = {
    "read_bytes": files.read_bytes,
    "read_text": files.read_text,
    "read_part": lambda path: files.read_part(path, 0, 100)[0],
}


@pytest.fixture(params=["by one system call", "by the kernel's name", "by the walk"])
def resolved(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines use a system call for it. Where the kernel can't name an open folder, its path is walked."""
    monkeypatch.setattr(linux, "_call", None)
    if request.param == "by one system call":
        linux.enable_openat2()  # On an older kernel, this is the second case once more.
    if request.param == "by the walk":
        monkeypatch.setattr(folders, "_is_at", lambda descriptor, path: False)


pytestmark = pytest.mark.usefixtures("resolved")


def attempt(act: Act, path: Path) -> object:
    with suppress(StorageFailed, OSError):
        return act(str(path))
    return None


@pytest.mark.parametrize("name", WRITES)
def test_write_never_goes_through_a_link(tmp_path: Path, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"mine")
    run = tmp_path / "run"
    run.mkdir()
    (run / "file").symlink_to(outside / "file")
    (run / "new").symlink_to(outside / "new")
    (run / "folder").symlink_to(outside)
    for path in (run / "file", run / "new", run / "folder" / "file", run / "folder" / "new"):
        attempt(WRITES[name], path)
    assert [entry.name for entry in outside.iterdir()] == ["file"]
    assert (outside / "file").read_bytes() == b"mine"


@pytest.mark.parametrize("name", READS)
def test_read_never_goes_through_a_link(tmp_path: Path, name: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_bytes(b"secret")
    (tmp_path / "file").symlink_to(tmp_path / "outside" / "file")
    (tmp_path / "folder").symlink_to(tmp_path / "outside")
    for path in (tmp_path / "file", tmp_path / "folder" / "file"):
        assert not attempt(READS[name], path)


def test_folders_are_neither_made_nor_listed_nor_moved_through_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_bytes(b"mine")
    (tmp_path / "folder").symlink_to(outside)
    (tmp_path / "a").write_bytes(b"a")
    acts: list[Callable[[], object]] = [
        lambda: files.make_dir(str(tmp_path / "folder" / "new")),
        lambda: files.make_dir(str(tmp_path / "folder")),
        lambda: files.listing(str(tmp_path / "folder")),
        lambda: files.remove(str(tmp_path / "folder" / "file")),
        lambda: files.move(str(tmp_path / "folder" / "file"), str(tmp_path / "b")),
        lambda: files.move(str(tmp_path / "a"), str(tmp_path / "folder" / "a")),
        lambda: files.sync_directory(str(tmp_path / "folder")),
    ]
    for act in acts:
        with pytest.raises((StorageFailed, OSError)):
            act()
    assert not files.is_dir(str(tmp_path / "folder"))
    assert not files.is_file(str(tmp_path / "folder" / "file"))
    assert [entry.name for entry in outside.iterdir()] == ["file"]


def test_the_link_is_named(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "folder").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="is a link, which is not followed") as caught:
        open_folder(str(tmp_path / "folder" / "below"))
    assert caught.value.filename == f"{tmp_path}/folder/"


def make_odd(path: Path, kind: str) -> None:
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "socket":
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(os.path.relpath(path))
        case "device":
            path.symlink_to("/dev/zero")
        case "loop":
            path.symlink_to(path)


ODD = ("pipe", "folder", "socket", "device", "loop")


@pytest.mark.parametrize("kind", ODD)
def test_reading_anything_but_a_file_fails_at_once_and_says_what_it_is(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_odd(tmp_path / "result.json", kind)
    with pytest.raises(UnusableFile) as caught:
        files.read_bytes(str(tmp_path / "result.json"))
    what = {"pipe": "is not a regular file", "socket": "is not a regular file", "folder": "is a folder"}
    assert caught.value.message == f"{tmp_path}/result.json {what.get(kind, 'is a link')}"
    assert caught.value.hint
    assert files.read_part(str(tmp_path / "result.json"), 0, 9) == (b"", 0)
    assert not files.is_file(str(tmp_path / "result.json"))


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("act", [files.write, files.replace])
def test_writing_replaces_what_is_in_the_way(
    tmp_path: Path, kind: str, act: Callable[[str, bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_odd(tmp_path / "output.md", kind)
    act(str(tmp_path / "output.md"), b"new")
    assert not (tmp_path / "output.md").is_symlink()
    assert (tmp_path / "output.md").read_bytes() == b"new"


def test_a_hard_link_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    for name, act in (("a", files.write), ("b", files.replace)):
        os.link(tmp_path / "mine", tmp_path / name)
        act(str(tmp_path / name), b"new")
    assert (tmp_path / "mine").read_bytes() == b"mine"


def test_user_names_a_pipe_or_a_device(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        with pytest.raises(UnusableFile, match="is not a regular file"):
            files.read_named(str(tmp_path / name))


def test_folders_of_a_run_are_for_their_owner(tmp_path: Path) -> None:
    files.make_dir(str(tmp_path / ".claude" / "runs" / "s"))
    modes = [
        stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / ".claude", tmp_path / ".claude/runs/s")
    ]
    assert modes[0] & 0o700 == 0o700
    assert modes[1] == 0o700


def test_path_with_dots_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"must not contain `\.\.`"):
        open_folder(f"{tmp_path}/../{tmp_path.name}")


def test_relative_paths_begin_in_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    files.write("a/b", b"1")
    assert files.read_bytes("./a/b") == b"1"
    files.write("c", b"2")
    assert files.read_bytes(f"{tmp_path}//c") == b"2"


def test_a_folder_that_changes_into_a_link_never_leads_out(tmp_path: Path) -> None:
    """A folder and a link change places as fast as they can."""
    run, outside, spare = tmp_path / "run", tmp_path / "outside", tmp_path / "spare"
    for folder in (run, outside):
        folder.mkdir()
        (folder / "file").write_bytes(folder.name.encode())
    (tmp_path / "link").symlink_to(outside)
    stop = threading.Event()

    def exchange() -> None:
        while not stop.is_set():
            run.rename(spare)
            (tmp_path / "link").rename(run)
            run.rename(tmp_path / "link")
            spare.rename(run)

    other = threading.Thread(target=exchange)
    other.start()
    try:
        for number in range(2000):
            with suppress(StorageFailed):
                assert files.read_bytes(str(run / "file")) in (b"run", None)
            with suppress(StorageFailed):
                files.replace(str(run / f"new-{number % 10}"), b"x")
    finally:
        stop.set()
        other.join()
    assert [entry.name for entry in outside.iterdir()] == ["file"]


def test_draft_names_are_unpredictable_and_short_enough() -> None:
    assert draft_name("a") != draft_name("a")
    assert len(draft_name("x" * 255)) < 255
    assert drafted(draft_name("x" * 20)) == "x" * 20


def test_missing_file_of_an_open_folder_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        files.open_file(str(tmp_path / "none"))
    assert caught.value.filename == str(tmp_path / "none")
    assert not isinstance(caught.value, NotRegular)
