"""What the tools of the provider api can reach: the workspace, and nothing else."""

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentforge.tool_loop.workspace import ToolError, WorkspaceFolder

LIMIT = 1000


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text("secret")
    return folder


@pytest.fixture
def root(tmp_path: Path, outside: Path) -> Path:
    root = tmp_path / "work"
    (root / "src").mkdir(parents=True)
    (root / "src" / "main.py").write_text("print(1)\n")
    (root / "link-out").symlink_to(outside)
    (root / "link-file-out").symlink_to(outside / "secret.txt")
    (root / "src" / "up").symlink_to("../../outside")
    (root / "chain").symlink_to("src/up")
    (root / "loop").symlink_to("loop")
    (root / "inner").symlink_to("src")
    (root / "inner-file").symlink_to("src/main.py")
    (root / "absolute-inner").symlink_to(root / "src")
    (root / "dangling-out").symlink_to(outside / "new.txt")
    (root / "back-and-in").symlink_to("src/../src/./main.py")
    return root


@pytest.fixture
def workspace(root: Path) -> Iterator[WorkspaceFolder]:
    workspace = WorkspaceFolder(str(root))
    yield workspace
    workspace.close()


ESCAPES = [
    "..",
    "../outside/secret.txt",
    "src/../../outside/secret.txt",
    "src/../../work/../outside/secret.txt",
    "link-out/secret.txt",
    "link-file-out",
    "src/up/secret.txt",
    "chain/secret.txt",
    "inner/up/secret.txt",
    "/etc/passwd",
    "{outside}/secret.txt",
    "{root}-other/file",
    "{root}/../outside/secret.txt",
    "{root}/link-out/secret.txt",
    "loop",
    "loop/file",
    "nul\0byte",
]


@pytest.mark.parametrize("path", ESCAPES)
def test_no_path_reads_outside_the_workspace(
    workspace: WorkspaceFolder, root: Path, outside: Path, path: str
) -> None:
    with pytest.raises(ToolError):
        workspace.read(path.format(root=root, outside=outside), LIMIT)


@pytest.mark.parametrize("path", [*ESCAPES, "dangling-out", "link-out/new.txt", "link-out/deep/new.txt"])
def test_no_path_writes_outside_the_workspace(
    workspace: WorkspaceFolder, root: Path, outside: Path, path: str
) -> None:
    with pytest.raises(ToolError):
        workspace.write(path.format(root=root, outside=outside), b"bad")
    assert [entry.name for entry in outside.iterdir()] == ["secret.txt"]
    assert (outside / "secret.txt").read_text() == "secret"


@pytest.mark.parametrize("path", ["link-out", "src/up", "..", "/", "{outside}"])
def test_no_path_lists_outside_the_workspace(workspace: WorkspaceFolder, outside: Path, path: str) -> None:
    with pytest.raises(ToolError):
        workspace.entries(path.format(outside=outside))


@pytest.mark.parametrize(
    "path",
    [
        "src/main.py",
        "./src//main.py",
        "src/../src/main.py",
        "inner/main.py",
        "inner-file",
        "absolute-inner/main.py",
        "back-and-in",
        "{root}/src/main.py",
    ],
)
def test_every_way_to_a_file_within_works(workspace: WorkspaceFolder, root: Path, path: str) -> None:
    assert workspace.read(path.format(root=root), LIMIT) == (b"print(1)\n", 9)


def test_workspace_that_is_itself_reached_by_a_link(tmp_path: Path, root: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    workspace = WorkspaceFolder(str(tmp_path / "alias"))
    assert workspace.read(f"{tmp_path}/alias/src/main.py", LIMIT)[0] == b"print(1)\n"
    assert workspace.read(f"{root}/src/main.py", LIMIT)[0] == b"print(1)\n"
    workspace.close()


def test_writing_makes_missing_folders_and_follows_inner_links(
    workspace: WorkspaceFolder, root: Path
) -> None:
    assert workspace.write("a/b/c.txt", b"deep") == "a/b/c.txt"
    assert workspace.write("inner-file", b"changed") == "src/main.py"
    assert (root / "a/b/c.txt").read_bytes() == b"deep"
    assert (root / "src/main.py").read_bytes() == b"changed"
    assert (root / "inner-file").is_symlink()


def test_writing_keeps_the_mode_and_leaves_no_draft(workspace: WorkspaceFolder, root: Path) -> None:
    script = root / "run.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    workspace.write("run.sh", b"#!/bin/sh\necho\n")
    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    assert [entry.name for entry in root.iterdir() if entry.name.endswith(".tmp")] == []


@pytest.mark.parametrize("path", [".", "src", "src/main.py/below", "fifo"])
def test_special_files_are_rejected_with_a_message(workspace: WorkspaceFolder, root: Path, path: str) -> None:
    os.mkfifo(root / "fifo")
    with pytest.raises(ToolError, match=r"folder|regular file"):
        workspace.read(path, LIMIT)
    with pytest.raises(ToolError, match=r"folder|regular file|file exists"):
        workspace.write(path, b"x")


def test_reading_is_bounded(workspace: WorkspaceFolder, root: Path) -> None:
    (root / "big").write_bytes(b"x" * 5000)
    assert workspace.read("big", 10) == (b"x" * 10, 5000)


def test_files_of_git_and_of_the_pipeline_are_not_written(root: Path) -> None:
    iteration = root / ".claude/pipeline-runs/s/stage-00-a/iterations/001"
    iteration.mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "to-runs").symlink_to(".claude/pipeline-runs")
    workspace = WorkspaceFolder(
        str(root),
        protected=(str(root / ".claude/pipeline-runs"), str(iteration / "result.json")),
        writable=(str(iteration),),
    )
    here = ".claude/pipeline-runs/s/stage-00-a/iterations/001"
    for path in (
        ".git/hooks/pre-commit",
        ".claude/pipeline-runs/s/events.jsonl",
        "./.claude/./pipeline-runs/s/events.jsonl",
        "to-runs/s/events.jsonl",
        f"{here}/result.json",
        f"{here}/../002/x",
    ):
        with pytest.raises(ToolError, match=r"git|complete"):
            workspace.write(path, b"bad")
    assert workspace.write(f"{here}/notes.md", b"fine") == f"{here}/notes.md"
    workspace.close()


@contextmanager
def again_and_again(step: Callable[[], None]) -> Iterator[None]:
    """Repeat the step in another thread all the time."""
    done = threading.Event()

    def keep_on() -> None:
        while not done.is_set():
            step()

    thread = threading.Thread(target=keep_on)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def enough(seen: Callable[[], object]) -> Iterator[int]:
    """At least this many attempts, and until the race was observed, within bounds."""
    until = time.monotonic() + 60
    number = 0
    while number < 2000 or (not seen() and time.monotonic() < until):
        yield number
        number += 1


def test_a_folder_exchanged_for_a_link_all_the_time_is_never_read_through(
    workspace: WorkspaceFolder, root: Path, outside: Path
) -> None:
    (root / "swap").mkdir()
    (root / "swap" / "secret.txt").write_text("inside")

    def swap() -> None:
        os.rename(root / "swap", root / "aside")
        os.symlink(outside, root / "swap")
        os.unlink(root / "swap")
        os.rename(root / "aside", root / "swap")

    reads: set[bytes] = set()
    refusals: list[str] = []
    with again_and_again(swap):
        for _ in enough(lambda: reads and refusals):
            try:
                reads.add(workspace.read("swap/secret.txt", LIMIT)[0])
            except ToolError as error:
                refusals.append(str(error))
    assert reads == {b"inside"}
    assert refusals, "the folder was never seen swapped: the test proves nothing"


def test_a_link_turned_outside_all_the_time_is_never_written_through(
    workspace: WorkspaceFolder, root: Path, outside: Path
) -> None:
    (root / "real").mkdir()
    (root / "swap").symlink_to("real")

    def turn() -> None:
        for target in (outside, "real"):
            os.symlink(target, root / "next")
            os.replace(root / "next", root / "swap")

    written: list[str] = []
    refusals: list[str] = []
    with again_and_again(turn):
        for number in enough(lambda: written and refusals):
            try:
                written.append(workspace.write(f"swap/deep/new-{number % 7}.txt", b"new"))
            except ToolError as error:
                refusals.append(str(error))
    assert written, "nothing was written: the test proves nothing"
    assert refusals, "the link was never seen turned: the test proves nothing"
    assert {path.split("/")[0] for path in written} == {"real"}
    assert sorted(entry.name for entry in outside.iterdir()) == ["secret.txt"]
