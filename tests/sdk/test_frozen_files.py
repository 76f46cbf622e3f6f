"""Frozen files and visits that are undone, in real runs: programs, files and git."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import ENVIRON, engine, node, pipeline, run
from tests.sdk.test_checks import found
from tests.security.trapped_repository import ENVIRON as GIT

from agentforge import ProviderUnusable, RunResult

ARTIFACT = {"type": "object", "properties": {"test_files": {}}}
PASS = 'echo \'{"verdict": "pass"}\' > "$AGENTFORGE_RESULT"'
FAIL = 'echo \'{"verdict": "fail"}\' > "$AGENTFORGE_RESULT"'


def agent(id: str, script: str, **more: Any) -> dict[str, Any]:
    provider = {"type": "command", "run": f"cat > /dev/null\n{script}"}
    return node(id=id, provider=provider, **{"runs": 1, **more})


def freezing(script: str, named: str = '["tests/test_a.py"]', **more: Any) -> dict[str, Any]:
    left = f'echo \'{{"test_files": {named}}}\' > "$AGENTFORGE_ARTIFACT"'
    return agent("red", f"{script}\n{left}\n{PASS}", artifact=ARTIFACT, freeze="test_files", **more)


WRITES = "mkdir -p tests; echo 'assert f() == 1' > tests/test_a.py; chmod +x tests/test_a.py"


def git(project: Path, *words: str) -> str:
    command = ["git", "-C", str(project), *words]
    return subprocess.run(command, check=True, env=GIT, capture_output=True, text=True).stdout


@pytest.fixture(params=["git", "folder"])
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "a"\n')
    (tmp_path / "setup.cfg").write_text("[flake8]\n")
    if request.param == "git":
        git(tmp_path, "init", "-q")
        git(tmp_path, "add", ".")
        git(tmp_path, "commit", "-qm", "all")
    return tmp_path


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    for name in ("a.txt", "b.txt", "deep/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("before")
    (tmp_path / "a.txt").chmod(0o755)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "all")
    return tmp_path


def ran(project: Path, *nodes: dict[str, Any], **options: Any) -> RunResult:
    async def main() -> RunResult:
        async with engine(project, **options) as made:
            return await made.run(pipeline(*nodes), session="s")

    return run(main())


CHEATS = {
    "changed": ("echo cheat > tests/test_a.py", "tests/test_a.py"),
    "deleted": ("rm -r tests", "tests/test_a.py"),
    "not executable": ("chmod -x tests/test_a.py", "tests/test_a.py"),
    "a link": ("mv tests/test_a.py x; ln -s ../x tests/test_a.py", "tests/test_a.py"),
    "a folder": ("rm tests/test_a.py; mkdir tests/test_a.py; touch tests/test_a.py/x", "tests/test_a.py"),
    "a link to the folder": ("mv tests others; ln -s others tests", "tests/test_a.py"),
    "a file in place of the folder": ("rm -r tests; echo x > tests", "tests/test_a.py"),
    "skipped": ("echo x > tests/conftest.py", "tests/conftest.py"),
    "a linked conftest": ("echo x > x; ln -s x conftest.py", "conftest.py"),
    "new settings": ("printf '[pytest]\\naddopts = -x' > tox.ini", "tox.ini"),
    "settings beside the tests": ("touch tests/pytest.ini", "tests/pytest.ini"),
    "changed settings": ("echo '[tool:pytest]' >> setup.cfg", "setup.cfg"),
    "a table": ("printf '[tool.pytest.ini_options]\\naddopts = \"-x\"' >> pyproject.toml", "pyproject.toml"),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_what_was_done_to_a_frozen_file_is_undone_before_a_check(project: Path, cheat: str) -> None:
    script, path = CHEATS[cheat]
    same = "grep -q 'f() == 1' tests/test_a.py && test ! -L tests"
    green = agent("green", f"{script}\n{PASS}", checks=[{"name": "same", "run": same}])
    result = ran(project, freezing(WRITES), green)
    assert result.completed, result
    (restored,) = found(project, "files_restored")
    assert restored["paths"] == [path]
    assert os.access(project / "tests/test_a.py", os.X_OK)
    assert not (project / "tests/test_a.py").is_symlink()
    for name in ("conftest.py", "tests/conftest.py", "tox.ini", "tests/pytest.ini"):
        assert not os.path.lexists(project / name)
    assert "pytest" not in (project / "pyproject.toml").read_text() + (project / "setup.cfg").read_text()
    (prepared,) = found(project, "files_prepared")
    assert restored["replaced"] == prepared["tree"]
    if (project / ".git").exists():
        assert "agentforge" in git(project, "for-each-ref", "refs/agentforge")
        kept = git(project, "ls-tree", "-r", "--name-only", restored["replaced"]).split()
        assert (path in kept) == (cheat not in ("deleted", "a folder") and not cheat.endswith("folder"))


HONEST = {
    "a dependency": "printf 'dependencies = [\"x\"]\\n[tool.ruff]\\n' >> pyproject.toml",
    "another file": "printf '[tox]\\nenvlist = py\\n' > tox.ini; touch tests/test_b.py",
    "the same again": "cp -p tests/test_a.py x; rm tests/test_a.py; mv x tests/test_a.py",
}


@pytest.mark.parametrize("work", HONEST)
def test_honest_work_raises_no_alarm(project: Path, work: str) -> None:
    green = agent("green", f"{HONEST[work]}\n{PASS}", checks=[{"name": "same", "run": "true"}])
    assert ran(project, freezing(WRITES), green).completed
    assert found(project, "files_restored") == []
    assert len(found(project, "frozen_verified")) == 2


def test_what_is_frozen_is_named_with_its_content(project: Path) -> None:
    assert ran(project, freezing(WRITES, '"tests/test_a.py"')).completed
    (frozen,) = found(project, "files_frozen")
    assert [file["path"] for file in frozen["files"]] == ["pyproject.toml", "setup.cfg", "tests/test_a.py"]
    assert (frozen["files"][-1]["mode"], frozen["stage"]) == ("100755", "red")


REFUSED = {
    "../x": ("", "it is outside of the project"),
    "/etc/passwd": ("", "it is outside of the project"),
    "none.py": ("", "there is no such file"),
    "link.py": ("ln -s pyproject.toml link.py", "it is a link"),
    "inner/pyproject.toml": ("ln -s . inner", "it is not a regular file, or a link leads to it"),
    "sub": ("mkdir sub; touch sub/x", "there is no such file"),
    "key.py": ("echo hunter2-hunter2 > key.py", "with a secret in it"),
}


@pytest.mark.parametrize("path", REFUSED)
def test_what_cant_be_frozen_is_a_clear_failure(project: Path, path: str) -> None:
    script, reason = REFUSED[path]
    environ = {**ENVIRON, "EXAMPLE_API_KEY": "hunter2-hunter2"}
    result = ran(project, freezing(script or ":", f'["{path}"]'), environ=environ)
    assert result.status == "failed"
    (failed,) = found(project, "session_failed")
    assert failed["type"] == "files_unusable"
    assert reason in failed["message"]


def test_other_values_than_paths_are_refused(project: Path) -> None:
    assert ran(project, freezing(":", "[1]")).status == "failed"
    (failed,) = found(project, "session_failed")
    assert "has something else than paths" in failed["message"]


# -- undoing a visit


def undone(script: str, **more: Any) -> dict[str, Any]:
    return agent("refactor", f"{script}\n{FAIL}", **{"rollback": True, "on": {"fail": "ask"}, **more})


CHANGES = "echo after > a.txt; chmod -x a.txt; rm -r deep; mkdir -p b/new; echo x > b/new/x; mv b.txt b/b.txt"


def content(project: Path) -> dict[str, tuple[str, bool]]:
    files = (path for path in project.rglob("*") if path.is_file())
    relative = {str(path.relative_to(project)): path for path in files}
    return {
        name: (path.read_text(), os.access(path, os.X_OK))
        for name, path in relative.items()
        if not name.startswith(".")
    }


def test_a_visit_that_fails_leaves_the_files_as_they_were(repository: Path) -> None:
    before = content(repository)
    (repository / "mine.txt").write_text("mine")
    result = ran(repository, undone(f"{CHANGES}; test $MOCK_ITERATION = 1 || touch deep", runs=2))
    assert result.status == "paused"
    assert content(repository) == {**before, "mine.txt": ("mine", False)}
    assert not (repository / "b").exists()
    (back,) = found(repository, "files_rolled_back")
    assert set(back["paths"]) == {"a.txt", "b.txt", "b/b.txt", "b/new/x", "deep", "deep/c.txt"}
    assert git(repository, "show", f"{back['replaced']}:a.txt") == "after\n"
    assert back["to"] == found(repository, "visit_tree")[0]["tree"]


def test_a_change_by_someone_else_is_a_question(repository: Path) -> None:
    work = undone("echo after > a.txt; echo after > b.txt")

    async def main() -> None:
        async with engine(repository) as made:
            hooks = {"iteration_end": {"action": "script", "script": "echo mine > a.txt"}}
            result = await made.run({**pipeline(work), "hooks": hooks}, session="s")
            assert result.status == "paused"
            (request,) = found(repository, "request_opened")
            assert request["reason"] == "rollback"
            assert "a.txt" in request["question"]
            assert (repository / "b.txt").read_text() == "after\n"
            (repository / "a.txt").write_text("after\n")
            await made.answer("s", "retry", request=request["id"])

    run(main())
    assert (repository / "b.txt").read_text() == "before"


def test_a_rollback_needs_git(tmp_path: Path) -> None:
    with pytest.raises(ProviderUnusable, match="is not in a git repository"):
        ran(tmp_path, undone(":"))
    assert not (tmp_path / ".claude").exists() or not list(tmp_path.rglob("events.jsonl"))


def test_a_rollback_needs_all_files_in_the_tree(repository: Path) -> None:
    (repository / "large.bin").write_bytes(b"x" * (10 * 1024 * 1024 + 1))
    result = ran(repository, agent("first", PASS), undone(":"))
    assert result.status == "failed"
    assert "large.bin" in found(repository, "session_failed")[0]["message"]
    assert found(repository, "attempt_start") == []
