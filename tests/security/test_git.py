"""The engine's git starts no program that a repository configures, and reaches no other repository."""

import ast
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.security.trapped_repository import ENVIRON, TRAPS, TrappedRepository
from tests.source_trees import nodes_of
from tests.surface.terminal import WRITE_RESULT, Project

import agentforge
from agentforge.adapters.host.git_delivery import GitDelivery
from agentforge.adapters.host.git_trees import GitTrees
from agentforge.adapters.host.project_files import WorkspaceFiles
from agentforge.model.delivery import DeliverRule, PreparedDelivery
from agentforge.model.secrets import Redactor
from agentforge.ports.repository import Change
from agentforge.system.git import git_argv, git_environment, git_program

NOW = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
SOURCE = Path(agentforge.__file__).parent


@pytest.mark.parametrize("name", TRAPS)
def test_a_repository_starts_no_program(tmp_path: Path, name: str) -> None:
    set_up, control = TRAPS[name]
    repository = TrappedRepository(tmp_path)
    set_up(repository)
    repository.git(*control, check=False)
    assert repository.canary.exists(), "the trap catches a git without protection"
    repository.canary.unlink()
    stamps = WorkspaceFiles(str(repository.root), ENVIRON).stamps()
    assert "kept/a.txt" in (stamps or {})
    assert not repository.canary.exists()


@pytest.mark.parametrize("name", TRAPS)
def test_other_commands_start_nothing_but_filters_and_drivers(tmp_path: Path, name: str) -> None:
    """Also with commands that the engine doesn't use; the model's commands run with the same settings."""
    set_up, control = TRAPS[name]
    repository = TrappedRepository(tmp_path)
    set_up(repository)
    repository.canary.unlink(missing_ok=True)
    plain = ("--no-ext-diff", "--no-textconv") if control == ("diff",) else ()
    subprocess.run(
        git_argv(*control, *plain),
        cwd=repository.root,
        env=git_environment(ENVIRON),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert repository.canary.exists() == name.endswith("filter")


def test_a_recorded_run_in_a_trapped_repository_starts_nothing(project: Project, tmp_path: Path) -> None:
    """An agent sets the traps, and the engine lists the workspace afterwards."""
    (tmp_path / "apart").mkdir()
    repository = TrappedRepository(tmp_path / "apart")
    TRAPS["upload-pack"][0](repository)
    for name in ("fsmonitor", "pager", "clean filter"):
        TRAPS[name][0](repository)
    repository.canary.unlink(missing_ok=True)
    file = project.pipeline(f"trap=cp -r '{repository.root}/.' .; {WRITE_RESULT}")
    done = project.call("run", "-p", file, "-s", "trapped", "--record")
    assert done.code == 0, done.err
    assert (project.root / ".git" / "config").exists()
    assert not repository.canary.exists()


@pytest.mark.parametrize("name", sorted(TRAPS))
def test_a_delivery_in_a_trapped_repository_starts_nothing(name: str, tmp_path: Path) -> None:
    """Whether it succeeds, or the repository is too damaged for it."""
    repository, store = TrappedRepository(tmp_path), str(tmp_path / "run")
    trees = GitTrees(str(repository.root), store, ENVIRON, Redactor(()))
    engine = GitDelivery(str(repository.root), store, trees, ENVIRON, lambda *_: b"patch")
    base = engine.look()
    TRAPS[name][0](repository)
    (repository.root / "kept/new.txt").write_text("new")
    (repository.root / "kept/a.txt").write_text("other")
    repository.canary.unlink(missing_ok=True)
    for rule in (DeliverRule(auto_commit=False), DeliverRule("patch"), DeliverRule()):
        prepared = engine.prepare(Change(rule, base, None, lambda *_: "message", NOW, "x"))
        if isinstance(prepared, PreparedDelivery) and prepared.staged:
            engine.commit(prepared, ())
    assert not repository.canary.exists()


def test_git_is_not_led_to_another_repository_by_the_environment(tmp_path: Path) -> None:
    """A hook of git, which may start the engine, has such variables."""
    other = TrappedRepository(tmp_path)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "mine.txt").write_text("mine")
    (workspace / "ignored.txt").write_text("ignored")
    subprocess.run(["git", "init", "-q", str(workspace)], check=True, env=ENVIRON)
    (workspace / ".git" / "info").mkdir(exist_ok=True)
    (workspace / ".git" / "info" / "exclude").write_text("ignored.txt\n")
    led = {**ENVIRON, "GIT_DIR": str(other.root / ".git"), "GIT_INDEX_FILE": str(other.root / ".git/index")}
    assert set(WorkspaceFiles(str(workspace), led).stamps() or {}) == {"mine.txt"}


def test_the_users_own_settings_stay_in_effect(tmp_path: Path) -> None:
    (tmp_path / "ignored").write_text("*.log\n")
    settings = tmp_path / "settings"
    settings.write_text(f"[core]\nexcludesFile = {tmp_path}/ignored\n")
    repository = TrappedRepository(tmp_path)
    (repository.root / "a.log").write_text("a")
    seen = WorkspaceFiles(str(repository.root), {**ENVIRON, "GIT_CONFIG_GLOBAL": str(settings)}).stamps()
    assert set(seen or {}) == {"kept/a.txt", "left/b.txt"}


def test_commands_that_convert_content_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="git status may start programs"):
        git_program(str(tmp_path), os.environ, "status", timeout=1, max_output=1)


def test_git_is_called_in_one_place_only() -> None:
    """Apart from the demo, whose repository is its own."""
    callers = set()
    for path in SOURCE.rglob("*.py"):
        for node in nodes_of(path):
            if isinstance(node, ast.Tuple | ast.List) and node.elts:
                first = node.elts[0]
                if isinstance(first, ast.Constant) and first.value == "git":
                    callers.add(str(path.relative_to(SOURCE)))
    assert callers == {"system/git.py", "cli/commands/demo.py"}
