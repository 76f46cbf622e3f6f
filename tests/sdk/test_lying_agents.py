"""Agents that lie about the work, on real repositories: the engine detects it, and the user's index, HEAD,
stash and settings stay as they are."""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from tests.sdk.projects import engine, node, pipeline, run
from tests.sdk.test_checks import found
from tests.security.trapped_repository import ENVIRON as GIT

from agentforge import RunResult
from agentforge.model.status import RunStatus
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

CLAIM = says("all tests pass", "stop", verdict="pass")


def ran(project: Path, *nodes: dict[str, Any]) -> RunResult:
    async def main() -> RunResult:
        async with engine(project, ScriptedProvider([CLAIM])) as sdk:
            return await sdk.run(pipeline(*nodes), session="s")

    return run(main())


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, env=GIT, capture_output=True)


# -- repositories


def committed(project: Path) -> None:
    git(project, "init", "-q")
    (project / "a.txt").write_text("a")
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")


def dirty(project: Path) -> None:
    """Something staged, something changed since, something stashed, something untracked."""
    committed(project)
    (project / "a.txt").write_text("stashed")
    git(project, "stash")
    (project / "a.txt").write_text("staged")
    git(project, "add", ".")
    (project / "a.txt").write_text("changed")
    (project / "new.txt").write_text("new")


def with_submodule(project: Path) -> None:
    inner = project.parent / "inner"
    inner.mkdir()
    committed(inner)
    committed(project)
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    git(project, "commit", "-qm", "with a submodule")
    (project / "sub" / "a.txt").write_text("changed")


def without_commits(project: Path) -> None:
    git(project, "init", "-q")
    (project / "a.txt").write_text("a")


def hostile(project: Path) -> None:
    """Its settings start a program on every occasion."""
    committed(project)
    trap = project.parent / "trap.sh"
    trap.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{project.parent / 'canary'}'\nexit 1\n")
    trap.chmod(0o755)
    hooks = project / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "reference-transaction", "pre-commit"):
        (hooks / name).symlink_to(trap)
    (project / ".git" / "info").mkdir(exist_ok=True)
    (project / ".git" / "info" / "attributes").write_text("* filter=trap diff=trap\n")
    for key in ("core.fsmonitor", "filter.trap.clean", "filter.trap.process", "diff.trap.textconv"):
        git(project, "config", key, str(trap))
    (project / "a.txt").write_text("A")


def without_git(project: Path) -> None:
    (project / "a.txt").write_text("a")


REPOSITORIES: tuple[Callable[[Path], None], ...] = (
    dirty,
    with_submodule,
    without_commits,
    hostile,
    without_git,
)
OWN = ("objects", "refs/agentforge", "logs/refs/agentforge")
"""What the engine adds to below `.git`."""


def kept(project: Path) -> dict[str, bytes]:
    """The user's part of `.git`: index, HEAD, stash, branches, settings, also of submodules."""
    folder = project / ".git"
    files = (path for path in folder.rglob("*") if path.is_file())
    named = {str(path.relative_to(folder)): path for path in files}
    return {
        name: path.read_bytes()
        for name, path in named.items()
        if not any(f"/{own}/" in f"/{name}" for own in OWN)
    }


@pytest.mark.parametrize("make", REPOSITORIES, ids=lambda make: make.__name__)
def test_claim_is_refuted_and_what_belongs_to_the_user_stays(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    make(project)
    before, content = kept(project), (project / "a.txt").read_bytes()
    result = ran(project, node(runs=2, checks=[{"name": "test", "run": "echo one failed; exit 1"}]))
    assert result.status is RunStatus.FAILED
    assert kept(project) == before
    assert (project / "a.txt").read_bytes() == content
    assert not (tmp_path / "canary").exists()
    outcomes = found(project, "check_complete")
    assert [outcome["status"] for outcome in outcomes] == ["fail", "fail"]
    trees = {tree for outcome in outcomes for tree in (outcome["tree_before"], outcome["tree_after"])}
    assert len(trees) == 1
    assert None not in trees
    (verdict,) = found(project, "stage_verdict")
    assert verdict["verdict"] == "fail"


# -- what an agent that still runs does to a check


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """Repeat it in the background, as an agent does that didn't end."""
    over = Event()

    def work() -> None:
        while not over.wait(0.005):
            act()

    thread = Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def test_files_that_are_written_while_the_check_runs_void_its_outcome(tmp_path: Path) -> None:
    committed(tmp_path)
    numbers = iter(range(10**9))

    def write() -> None:
        (tmp_path / "draft").write_text(f"{next(numbers)}")
        (tmp_path / "draft").replace(tmp_path / "busy")

    write()
    until_it_changes = 'n="$(cat busy)"; while [ "$n" = "$(cat busy)" ]; do sleep 0.01; done'
    with meanwhile(write):
        result = ran(tmp_path, node(checks=[{"name": "test", "run": until_it_changes}]))
    assert result.status is RunStatus.FAILED
    outcomes = found(tmp_path, "check_complete")
    assert len(outcomes) == 3
    assert all("busy" in outcome["changed"] for outcome in outcomes)
    (failed,) = found(tmp_path, "session_failed")
    assert failed["type"] == "check_error"
    assert "busy" in failed["message"]


def test_report_that_is_deleted_is_an_error_and_never_a_pass(tmp_path: Path) -> None:
    committed(tmp_path)
    report = tmp_path / "report.xml"
    writes = (
        """echo '<testsuite><testcase classname="a" name="b"/></testsuite>' > report.xml;"""
        " while [ -e report.xml ]; do sleep 0.01; done"
    )
    check = {"name": "test", "run": writes, "parse": "junit", "report": "report.xml"}
    with meanwhile(lambda: report.unlink(missing_ok=True)):
        result = ran(tmp_path, node(checks=[check]))
    assert result.status is RunStatus.FAILED
    (outcome,) = found(tmp_path, "check_complete")
    assert (outcome["status"], outcome["problem"]) == ("error", "no_report")
