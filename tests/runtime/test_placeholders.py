"""Folders that are created only because a sandbox needs them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.security.confined import WORK, need_bwrap, ran, script

from agentforge.runtime.confinement import Placeholders

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/mountinfo").exists(), reason="platform: Linux tells what is mounted"
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".claude/pipeline-runs").mkdir(parents=True)
    return tmp_path


def made(project: Path, *names: str) -> Placeholders:
    found = Placeholders(str(project))
    found.hold()
    for name in names:
        found.make(str(project / name))
    return found


def test_they_are_removed_if_they_are_still_empty(project: Path) -> None:
    (project / ".claude/stages").mkdir()
    found = made(project, ".git", "node_modules/.bin", ".agentforge")
    (project / ".agentforge/config.yaml").touch()
    found.tidy()
    assert {path.name for path in project.iterdir()} == {".claude", ".agentforge"}
    assert (project / ".claude/stages").exists()
    (project / ".git").mkdir()
    found.tidy()
    assert (project / ".git").exists(), "it was created by another"


def test_those_of_an_engine_that_was_killed_are_removed_by_the_next(project: Path) -> None:
    program = (
        "import os, sys; from tests.runtime.test_placeholders import *; "
        "made(Path(sys.argv[1]), '.git'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(project)], check=False)
    assert (project / ".git").exists()
    assert ran(project, script(WORK, sandbox="none")).completed
    assert not (project / ".git").exists()


def test_those_of_another_engine_stay(project: Path) -> None:
    first, second = made(project, ".git"), made(project, ".agentforge")
    first.tidy()
    assert {path.name for path in project.iterdir()} == {".claude", ".agentforge", ".git"}
    second.tidy()
    assert {path.name for path in project.iterdir()} == {".claude"}


@pytest.mark.parametrize("name", ["/tmp", "../other", "", ".", "a/../../other", "link/inside"])
def test_a_record_names_only_folders_of_the_project(tmp_path: Path, name: str) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    (project / ".claude/pipeline-runs").mkdir(parents=True)
    (other / "inside").mkdir(parents=True)
    (project / "link").symlink_to(other)
    (project / ".claude/pipeline-runs/.placeholders").write_text(f"{name}\n")
    Placeholders(str(project)).tidy()
    assert (other / "inside").exists()
    assert project.exists()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "binary"])
def test_a_record_that_is_none_is_ignored(project: Path, kind: str) -> None:
    record = project / ".claude/pipeline-runs/.placeholders"
    if kind == "link":
        record.symlink_to("/etc/passwd")
    elif kind == "pipe":
        os.mkfifo(record)
    elif kind == "folder":
        record.mkdir()
    else:
        record.write_bytes(b"\xff\0\n" * 100)
    before = set(project.rglob("*")) - {record}
    Placeholders(str(project)).tidy()
    assert set(project.rglob("*")) - {record} == before
    assert Path("/etc/passwd").exists()


def entries(project: Path) -> set[str]:
    return {
        str(path.relative_to(project))
        for path in project.rglob("*")
        if "pipeline-runs/" not in str(path) and path.name != "could"
    }


def test_a_confined_run_leaves_no_more_entries_than_others(tmp_path: Path) -> None:
    need_bwrap()
    found = []
    for sandbox in ("none", "bwrap"):
        project = tmp_path / sandbox
        project.mkdir()
        path = f"{project}/node_modules/.bin:/usr/bin:/bin"
        assert ran(project, script(WORK, sandbox=sandbox), PATH=path).completed
        found.append(entries(project))
    assert found[0] == found[1]


def test_an_agent_that_is_still_confined_keeps_them(tmp_path: Path) -> None:
    """The mount of a folder would end with the folder, also in the sandbox."""
    need_bwrap()
    project = tmp_path / "project"
    (project / ".claude/pipeline-runs").mkdir(parents=True)
    found = made(project, ".git")
    sandbox = ("bwrap", "--bind", "/", "/", "--ro-bind", str(project / ".git"), str(project / ".git"))
    agent = subprocess.Popen(
        [*sandbox, "--", "sh", "-c", "echo ready; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert agent.stdout is not None
    assert agent.stdin is not None
    assert agent.stdout.readline() == b"ready\n"
    found.tidy()
    assert (project / ".git").exists()
    agent.communicate(b"\n")
    Placeholders(str(project)).tidy()
    assert not (project / ".git").exists()
