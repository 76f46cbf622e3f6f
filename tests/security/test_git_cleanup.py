"""An agent that tidies its repository with git neither publishes nor removes the run that it belongs to."""

import shlex
from pathlib import Path

import pytest
from tests.sampling import one_in
from tests.surface.terminal import Done, Project

RESULT = 'printf \'{"summary":"did it"}\' > "$AGENTFORGE_RESULT"'
STASH_AND_POP = "git stash -u -q; git stash pop -q"
COMMANDS = [
    STASH_AND_POP,
    "git stash -u -q",
    "git clean -fdq",
    "git add -A; git stash -q",
    "git add -A; git reset -q --hard",
    "git add -A; git commit -q -m work; git reset -q --hard HEAD~1",
]


def git(project: Project, *arguments: str) -> Done:
    done = project.call_program("git", *arguments)
    assert done.code == 0, done.err
    return done


@pytest.fixture
def repository(project: Project) -> Project:
    project.env |= {
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
        "EFFECTS": str(project.home / "effects"),
    }
    git(project, "init", "-q")
    return project


def tidying_pipeline(project: Project, command: str, *, only_iteration: int | None = None) -> str:
    """Five iterations; each notes that it ran, changes the repository, and tidies it."""
    when = f'[ "$(wc -l < "$EFFECTS")" -ne {only_iteration} ] || ' if only_iteration else ""
    work = f'echo ran >> "$EFFECTS"; echo x >> notes.txt; {when}{{ {command}; }}; {RESULT}'
    file = project.pipeline(f"work*5={work}")
    git(project, "add", "-A")
    git(project, "commit", "-q", "-m", "begin")
    return file


def ran(project: Project) -> int:
    return len(Path(project.env["EFFECTS"]).read_text().splitlines())


@pytest.mark.parametrize("only_iteration", one_in(2, [None, 3]), ids=["every iteration", "one iteration"])
@pytest.mark.parametrize("command", COMMANDS)
def test_run_completes_and_each_agent_runs_once(
    repository: Project, command: str, only_iteration: int | None
) -> None:
    file = tidying_pipeline(repository, command, only_iteration=only_iteration)
    done = repository.call("run", "-p", file, "-s", "s")
    assert done.code == 0, done.out + done.err
    assert ran(repository) == 5
    assert repository.types("s").count("iteration_complete") == 5
    assert repository.types("s")[-1] == "session_complete"
    assert repository.call("log", "verify", "s").code == 0


def test_git_add_does_not_publish_runs_and_locks(repository: Project) -> None:
    command = "git add -A; git diff --cached --name-only >> " + shlex.quote(str(repository.home / "staged"))
    file = tidying_pipeline(repository, command)
    assert repository.call("run", "-p", file, "-s", "s").code == 0
    staged = (repository.home / "staged").read_text()
    assert "notes.txt" in staged
    assert "pipeline-runs" not in staged
    assert "locks" not in staged


def test_existing_folders_are_ignored_too_and_a_users_file_is_kept(repository: Project) -> None:
    runs, locks = (repository.root / ".claude" / name for name in ("pipeline-runs", "locks"))
    runs.mkdir(parents=True)
    locks.mkdir()
    (locks / ".gitignore").write_text("*.lock\n")
    file = tidying_pipeline(repository, "true")
    assert repository.call("run", "-p", file, "-s", "s").code == 0
    assert (runs / ".gitignore").read_text() == "*\n"
    assert (locks / ".gitignore").read_text() == "*.lock\n"
