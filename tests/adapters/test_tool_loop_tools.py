"""The tools of the provider api: files, searching, commands."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sdk.projects import eventually

from agentforge.tool_loop.commands import CommandTool, SearchTool, allowed_words, run_tool, split_command
from agentforge.tool_loop.task import DEFAULT_ALLOWED, CommandRules
from agentforge.tool_loop.workspace import (
    EDIT_BYTES,
    READ_BYTES,
    FileTools,
    ToolError,
    WorkspaceFolder,
    search,
)

ENVIRON = {"PATH": "/usr/bin:/bin"}


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[WorkspaceFolder]:
    workspace = WorkspaceFolder(str(tmp_path))
    yield workspace
    workspace.close()


@pytest.fixture
def files(workspace: WorkspaceFolder) -> FileTools:
    return FileTools(workspace)


def commands(workspace: WorkspaceFolder, *allow: str, timeout: float = 10.0, cap: int = 4000) -> CommandTool:
    return CommandTool(workspace, CommandRules(allow, timeout, cap), ENVIRON)


def test_file_is_written_read_edited_and_listed(files: FileTools, tmp_path: Path) -> None:
    assert files.write_file("src/a.py", "x = 1\ny = 2\n") == "wrote src/a.py (12 bytes)"
    assert files.edit_file("src/a.py", "y = 2", "y = 3") == "edited src/a.py"
    assert files.read_file("src/a.py") == "x = 1\ny = 3\n"
    assert files.read_file("src/a.py", first_line=2, lines=1) == "y = 3\n"
    (tmp_path / "link").symlink_to("src")
    assert files.list_directory() == "link (link)\nsrc/"
    assert files.list_directory("src") == "a.py (12 bytes)"
    assert files.touched == ["src/a.py"]


@pytest.mark.parametrize(
    ("old", "says"), [("nothing", "occurs 0 times"), ("x", "occurs 2 times"), ("", "`old` is empty")]
)
def test_ambiguous_edit_changes_nothing_and_reports_the_count(
    files: FileTools, tmp_path: Path, old: str, says: str
) -> None:
    (tmp_path / "a").write_text("x x")
    with pytest.raises(ToolError, match=says):
        files.edit_file("a", old, "y")
    assert (tmp_path / "a").read_text() == "x x"


def test_truncated_read_is_marked(files: FileTools, tmp_path: Path) -> None:
    (tmp_path / "big").write_text("é" * READ_BYTES)
    text = files.read_file("big")
    assert len(text.encode()) < READ_BYTES + 200
    assert "[truncated: the file has" in text
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(EDIT_BYTES + 1)
        file.write(b"text ")
    with pytest.raises(ToolError, match="binary"):
        files.read_file("huge")


@pytest.mark.parametrize(
    ("content", "says"), [(b"a\0b", "binary"), (b"\xff\xfe text", "not UTF-8"), (None, "no such file")]
)
def test_binary_files_are_rejected_with_a_message(
    files: FileTools, tmp_path: Path, content: bytes | None, says: str
) -> None:
    if content is not None:
        (tmp_path / "a").write_bytes(content)
    with pytest.raises(ToolError, match=says):
        files.read_file("a")


def test_search_finds_lines_and_leaves_out_git_binaries_and_links(
    workspace: WorkspaceFolder, tmp_path: Path
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("import os\nneedle = 1\n")
    (tmp_path / "b.txt").write_text("needle in text\n")
    (tmp_path / "binary").write_bytes(b"needle\0")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("needle")
    (tmp_path / "passwd").symlink_to("/etc/passwd")
    assert search(workspace, "needle") == "b.txt:1: needle in text\nsrc/a.py:2: needle = 1"
    assert search(workspace, r"n\w+e", "src", "*.py") == "src/a.py:2: needle = 1"
    assert search(workspace, "needle", "b.txt") == "b.txt:1: needle in text"
    assert search(workspace, "root") == "no match"
    for pattern, path, says in (
        ("(", ".", "invalid regular expression"),
        ("x", "../", "outside"),
        ("x", "no", "no such"),
    ):
        with pytest.raises(ToolError, match=says):
            search(workspace, pattern, path)


def test_search_is_bounded(workspace: WorkspaceFolder, tmp_path: Path) -> None:
    (tmp_path / "many").write_text("needle\n" * 1000)
    found = search(workspace, "needle").splitlines()
    assert len(found) < 250
    assert "more matches" in found[-1]


def test_search_runs_in_a_separate_process(workspace: WorkspaceFolder, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("needle\n")
    # What would stand in for our code, if the working folder were searched for modules.
    (tmp_path / "msgspec.py").write_text("raise SystemExit('shadowed')")
    tool = SearchTool(workspace, ENVIRON)
    assert asyncio.run(tool.search_code("needle", files="a")) == "a:1: needle"
    with pytest.raises(ToolError, match="invalid regular expression"):
        asyncio.run(tool.search_code("("))


@pytest.mark.parametrize(
    ("command", "allowed"),
    [
        ("git status", True),
        (["git", "diff", "HEAD"], True),
        ("git push", False),
        ("gitstatus", False),
        ("pytest -q tests", True),
        ("pytest-evil", False),
        ("rm -rf /", False),
        ("sh -c 'git status'", False),
        ("/usr/bin/git status", False),
        ("make", False),
        ("make test", True),
    ],
)
def test_only_what_the_list_names_is_allowed(command: str | list[str], allowed: bool) -> None:
    named = allowed_words(split_command(command, DEFAULT_ALLOWED), DEFAULT_ALLOWED)
    assert (named is not None) is allowed


@pytest.mark.parametrize("line", ["git status | cat", "git status && rm x", "git log > out", "git log ; ls"])
def test_a_line_for_a_shell_needs_a_shell_that_is_allowed(line: str) -> None:
    with pytest.raises(ToolError, match="no shell"):
        split_command(line, DEFAULT_ALLOWED)
    assert split_command(line, ("sh",)) == ["sh", "-c", line]
    assert split_command(line, ("*",)) == ["sh", "-c", line]


@pytest.mark.parametrize("command", ["", "  ", [], [""], ["a\0b"], "'unclosed"])
def test_an_empty_command_is_rejected(command: str | list[str]) -> None:
    with pytest.raises(ToolError):
        split_command(command, ("*",))


def test_command_answers_with_output_and_status(workspace: WorkspaceFolder, tmp_path: Path) -> None:
    tool = commands(workspace, "sh", "no-such-program")
    said = asyncio.run(tool.run_command(["sh", "-c", "pwd; echo problem >&2; exit 3"]))
    assert said == f"{tmp_path}\nproblem\n[exit status 3]"
    assert asyncio.run(tool.run_command("sh -c true")) == "[exit status 0, no output]"
    with pytest.raises(ToolError, match="no-such-program: no such file"):
        asyncio.run(tool.run_command("no-such-program"))
    with pytest.raises(ToolError, match=r"not allowed\. Allowed commands: sh, no-such-program"):
        asyncio.run(tool.run_command("ls"))


def test_command_sees_only_the_environment_it_is_given(workspace: WorkspaceFolder) -> None:
    said = asyncio.run(commands(workspace, "env").run_command("env"))
    assert {line.split("=")[0] for line in said.splitlines()[:-1]} <= {"PATH", "LC_CTYPE"}


def test_output_keeps_its_beginning_and_its_end(workspace: WorkspaceFolder) -> None:
    tool = commands(workspace, "sh", cap=100)
    said = asyncio.run(tool.run_command(["sh", "-c", "echo first; seq 100000; echo last"]))
    assert said.startswith("first\n")
    assert said.endswith("last\n[exit status 0]")
    assert "bytes left out]" in said
    assert len(said) < 200


def test_command_that_takes_too_long_is_ended_with_all_it_started(
    workspace: WorkspaceFolder, tmp_path: Path
) -> None:
    line = "(trap '' TERM; echo deaf > deaf; sleep 60; echo late > late) & echo $! > pid; wait"
    for timeout in (0.5, 2.0, 8.0, 32.0):  # On a busy machine, it takes longer to get so far.
        tool = commands(workspace, "sh", timeout=timeout)
        said = asyncio.run(tool.run_command(["sh", "-c", line]))
        assert said == f"[timed out after {timeout:g} s, no output]"
        if (tmp_path / "deaf").exists() and (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            break
    _removed(tmp_path)


def test_background_processes_of_a_command_are_ended(workspace: WorkspaceFolder, tmp_path: Path) -> None:
    tool = commands(workspace, "sh")
    said = asyncio.run(tool.run_command(["sh", "-c", "sleep 600 & echo $! > pid; echo started"]))
    assert said == "started\n[exit status 0]"
    _removed(tmp_path)


def test_cancelling_ends_the_command(tmp_path: Path) -> None:
    async def main() -> None:
        argv = ["sh", "-c", "echo $$ > pid; sleep 60; echo late > late"]
        work = asyncio.create_task(run_tool(argv, str(tmp_path), ENVIRON, 60, 100))
        await eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    asyncio.run(main())
    _removed(tmp_path)


def _removed(folder: Path) -> None:
    pid = int((folder / "pid").read_text())
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if ") Z " in Path(f"/proc/{pid}/stat").read_text():
                break
        except (FileNotFoundError, ProcessLookupError):
            break
        time.sleep(0.01)
    else:
        raise AssertionError(f"{pid} still runs")
    assert not (folder / "late").exists()
