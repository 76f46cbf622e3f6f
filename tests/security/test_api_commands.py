"""What a model's commands may not do: read, write or start anything outside of the workspace by an allowed
program."""

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.security.trapped_repository import ENVIRON, TRAPS, TrappedRepository

from agentforge.tool_loop.commands import CommandTool
from agentforge.tool_loop.task import DEFAULT_ALLOWED, CommandRules
from agentforge.tool_loop.workspace import ToolError, WorkspaceFolder

SECRET = "the-content-of-a-file-elsewhere"


@pytest.fixture
def repository(tmp_path: Path) -> TrappedRepository:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    made = TrappedRepository(tmp_path)
    (made.root / "out").symlink_to(tmp_path)
    return made


@pytest.fixture
def workspace(repository: TrappedRepository) -> Iterator[WorkspaceFolder]:
    opened = WorkspaceFolder(str(repository.root))
    yield opened
    opened.close()


def run(
    workspace: WorkspaceFolder, command: str | list[str], allow: tuple[str, ...] = DEFAULT_ALLOWED
) -> str:
    tool = CommandTool(workspace, CommandRules(allow, 60, 32 * 1024), ENVIRON)
    return asyncio.run(tool.run_command(command))


@pytest.mark.parametrize(
    "command",
    [
        "git diff --no-index /dev/null {out}/secret",
        "git diff --no-inde /dev/null {out}/secret",
        "git diff /dev/null {out}/secret",
        "git diff /dev/null out/secret",
        "git diff /dev/null ../secret",
        "git diff -- /dev/null ../secret",
        "git diff -O{out}/secret",
        "git diff -pO../secret",
        "git diff --ext-diff",
        "git diff --textconv",
        "git log -1 --format=tformat:TEXT --output={out}/written",
        "git log -1 --format=tformat:TEXT --outpu={out}/written",
        "git log -1 --format=tformat:TEXT --output {out}/written",
        "git log --grep -- --output=../written",
        "git show --output=out/written",
        "git blame --contents {out}/secret kept/a.txt",
        "git blame --cont out/secret kept/a.txt",
        "git blame -S{out}/secret kept/a.txt",
        "git blame -lS ../secret kept/a.txt",
        "git blame --ignore-revs-file=../secret kept/a.txt",
        "git ls-files --others --exclude-from=../secret",
        "git ls-files -oX ../secret",
        "git status --pathspec-from-file=../secret",
        "pytest --basetemp=.git",
        "python -m pytest --basetem=kept",
        "pytest ../other",
        "pytest --junitxml={out}/written",
        "make test SHELL=/bin/true",
        "make test --eval=x",
        "make test -C ..",
        "make test -f{out}/Makefile",
        "ruff check --output-file={out}/written",
        "mypy --python-executable kept/a.txt kept",
        "go test -exec kept/a.txt",
        "cargo build --config x",
        "npm test --script-shell=kept/a.txt",
    ],
)
def test_an_allowed_program_does_not_lead_out(
    workspace: WorkspaceFolder, repository: TrappedRepository, command: str
) -> None:
    out = repository.root.parent
    with pytest.raises(ToolError, match="not allowed for"):
        run(workspace, command.format(out=out))
    assert not (out / "written").exists()


@pytest.mark.parametrize(
    ("command", "allow"),
    [
        ("git -c alias.x=!true x", "git"),
        ("git --config-env=core.pager=HOME log", "git"),
        ("git --exec-path=kept log", "git"),
        ("git -C .. status", "git"),
        ("git grep -Ocat a", "git"),
        ("git grep --open-files-in-pager=cat a", "git grep"),
        ("git rebase --exec true", "git"),
        ("git archive --output=x HEAD", "git"),
        ("git format-patch -o ../patches", "git"),
        ("git commit --pathspec-from-file=kept/a.txt", "git commit"),
        ("git commit -F ../secret", "git commit"),
        ("find . -exec true +", "find"),
        ("find . -fprintf x y", "find"),
        ("find {out}", "find"),
        ("sort -o x kept/a.txt", "sort"),
        ("sort --compress-prog=true kept/a.txt", "sort"),
        ("rg --pre=true a", "rg"),
        ("tar --to-command=true -xf a", "tar"),
        ("cat out/secret", "cat"),
    ],
)
def test_a_program_that_the_user_allows_stays_in_the_workspace(
    workspace: WorkspaceFolder, repository: TrappedRepository, command: str, allow: str
) -> None:
    with pytest.raises(ToolError, match="not allowed for"):
        run(workspace, command.format(out=repository.root.parent), (allow,))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git status --short --branch", "?? out"),
        ("git status -sb -uall", "?? out"),
        ("git log --oneline -1", "all"),
        ("git log -n 1 --format='%an: %s' -- kept", "a: all"),
        ("git log -1 --stat HEAD", "kept/a.txt"),
        ("git log -p -Skept/a.txt --since='10 years ago'", "+kept/a.txt"),
        ("git log -S/usr/bin --grep=../x --format=/%h", "exit status 0"),
        ("git diff HEAD~0...HEAD --word-diff=color", "exit status 0"),
        ("git log -5 --all --graph --decorate --pretty=format:%h", "exit status 0"),
        ("git show HEAD:kept/a.txt", "kept/a.txt"),
        ("git show --name-only HEAD", "left/b.txt"),
        ("git diff HEAD", "exit status 0"),
        ("git diff --cached -U0 --no-color --text", "exit status 0"),
        ("git diff --stat HEAD -- kept/a.txt", "exit status 0"),
        ("git ls-files -co --exclude-standard", "left/b.txt"),
        ("git blame -L1,1 -w kept/a.txt", "kept/a.txt"),
        ("git blame --line-porcelain kept/a.txt", "author a"),
    ],
)
def test_reading_the_history_works(workspace: WorkspaceFolder, command: str, expected: str) -> None:
    assert expected in run(workspace, command)


def test_what_the_user_names_or_allows_as_a_whole_is_not_restricted(
    workspace: WorkspaceFolder, repository: TrappedRepository
) -> None:
    secret = str(repository.root.parent / "secret")
    assert SECRET in run(workspace, ["cat", secret], (f"cat {secret}",))
    assert SECRET in run(workspace, ["cat", secret], ("*",))
    assert SECRET in run(workspace, f"cat {secret} | cat", ("sh",))


def test_a_commit_that_the_user_allows_runs_the_hooks_of_the_repository(
    workspace: WorkspaceFolder, repository: TrappedRepository
) -> None:
    (repository.root / ".git" / "hooks").mkdir(exist_ok=True)
    (repository.root / ".git" / "hooks" / "pre-commit").symlink_to(repository.program)
    assert "exit status 1" in run(workspace, "git commit --allow-empty -m x", ("git commit",))
    assert repository.canary.exists()


@pytest.mark.parametrize("name", [name for name in TRAPS if not name.endswith("filter")])
def test_reading_the_history_starts_no_program_of_the_repository(tmp_path: Path, name: str) -> None:
    set_up, command = TRAPS[name]
    repository = TrappedRepository(tmp_path)
    set_up(repository)
    repository.canary.unlink(missing_ok=True)
    workspace = WorkspaceFolder(str(repository.root))
    try:
        run(workspace, ["git", *command])
        if command == ("diff",):
            subprocess.run(["git", "-C", str(repository.root), "add", "."], check=True, env=ENVIRON)
            for other in (["log", "-p"], ["show"], ["blame", "kept/a.txt"]):
                run(workspace, ["git", *other])
    finally:
        workspace.close()
    assert not repository.canary.exists()
