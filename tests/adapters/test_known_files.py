"""What one engine saw of a project's files serves the next one, and never changes what it finds."""

import os
import random
import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.adapters.repository import Repository, taken
from tests.security.trapped_repository import ENVIRON

from agentforge.adapters.host.git_objects import EXECUTABLE
from agentforge.adapters.host.git_trees import GitTrees
from agentforge.adapters.host.known_files import load_known, save_known
from agentforge.adapters.host.tree_scan import TreeLimits
from agentforge.model.secrets import Redactor
from agentforge.ports.host import KeptTree
from agentforge.runtime.state_folder import StateFolder

LIMITS = TreeLimits(known_from=1)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def new_engine(
    repository: Repository, redactor: Redactor | None = None, store: Path | None = None
) -> GitTrees:
    made = (str(repository.root), str(store or repository.store), ENVIRON, redactor or Redactor(()), LIMITS)
    return GitTrees(*made, known=str(known_file(repository)))


def known_file(repository: Repository) -> Path:
    return repository.store.parent / "known"


def age(repository: Repository) -> None:
    """As if the files had been written long ago, so that their stamps count."""
    for path in repository.root.rglob("*"):
        if path.is_file() and ".git" not in path.parts:
            os.utime(path, ns=(10**18, 10**18))
    # The time of the change itself can't be set: wait until it is no longer racy.
    newest = max(path.stat().st_ctime_ns for path in repository.root.rglob("*"))
    probe = repository.store.parent / "probe"
    while True:
        probe.write_text("")
        if probe.stat().st_ctime_ns - newest > 10**9 // 10:
            return


@pytest.mark.parametrize("seed", range(4))
def test_engines_that_know_the_files_take_the_trees_that_git_would_take(
    repository: Repository, seed: int
) -> None:
    edits = Edits(repository, random.Random(seed))
    same = new_engine(repository)
    for _ in range(12):
        edit = edits.make()
        expected = repository.by_git()
        assert taken(new_engine(repository)) == expected, edit
        assert taken(same) == expected, edit


class Edits:
    """Changes of the files and of git's index, as agents and people make them."""

    def __init__(self, repository: Repository, choice: random.Random) -> None:
        self._repository = repository
        self._choice = choice
        self._number = 0

    def make(self) -> str:
        self._number += 1
        names = ("write", "overwrite", "remove", "swap", "mode", "stage", "commit", "age")
        name = self._choice.choice(names)
        getattr(self, f"_{name}")()
        return f"{self._number}: {name}"

    def _files(self) -> list[Path]:
        found = (path for path in sorted(self._repository.root.rglob("*")) if ".git" not in path.parts)
        return [path for path in found if path.is_file()]

    def _write(self) -> None:
        folder = self._choice.choice(self._files()).parent
        inner = folder / f"new{self._number}" if self._choice.randrange(2) else folder
        inner.mkdir(exist_ok=True)
        (inner / f"{self._number}.txt").write_text(str(self._number))

    def _overwrite(self) -> None:
        path = self._choice.choice(self._files())
        seen = path.stat()
        path.write_bytes(bytes(reversed(path.read_bytes())) + b"!" * self._choice.randrange(2))
        os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))

    def _remove(self) -> None:
        gone = self._choice.choice(self._files())
        self._write()
        gone.unlink()

    def _swap(self) -> None:
        """A file becomes a folder, or a folder a file."""
        path = self._choice.choice(self._files())
        if path.parent == self._repository.root:
            path.unlink()
            path.mkdir()
            (path / "inner.txt").write_text(str(self._number))
        else:
            shutil.rmtree(path.parent)
            path.parent.write_text(str(self._number))

    def _mode(self) -> None:
        self._choice.choice(self._files()).chmod(0o755)

    def _stage(self) -> None:
        self._repository.git("add", "-A")

    def _commit(self) -> None:
        self._stage()
        self._repository.git("commit", "-qm", "more", "--allow-empty")

    def _age(self) -> None:
        age(self._repository)


def test_a_new_engine_reads_only_what_has_changed(repository: Repository) -> None:
    """Shown by a cache with another mode than the file has."""
    age(repository)
    expected = taken(new_engine(repository))
    known = load_known(str(known_file(repository)))
    file = known.tracked["src/a.py"]
    other = replace(file, entry=replace(file.entry, mode=EXECUTABLE))
    save_known(
        str(known_file(repository)), replace(known, tracked={**known.tracked, "src/a.py": other}, folders=())
    )
    assert taken(new_engine(repository)) != expected
    (repository.root / "src/a.py").touch()
    assert taken(new_engine(repository)) == expected


def test_a_file_that_changed_right_after_it_was_read_is_read_again(repository: Repository) -> None:
    age(repository)
    path = repository.root / "src/a.py"
    path.write_text("a = 2")
    seen = path.stat()
    taken(new_engine(repository))
    path.write_text("a = 3")
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert taken(new_engine(repository)) == repository.by_git()


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9])
def test_a_damaged_cache_is_not_used(repository: Repository, part: float) -> None:
    age(repository)
    expected = taken(new_engine(repository))
    whole = known_file(repository).read_bytes()
    known_file(repository).write_bytes(whole[: int(len(whole) * part)] + b"\xff" * 40)
    assert taken(new_engine(repository)) == expected == repository.by_git()


def test_another_run_stores_all_of_the_tree(repository: Repository, tmp_path: Path) -> None:
    repository.put("new.txt", "not in git")
    age(repository)
    before = taken(new_engine(repository))
    other = Repository.__new__(Repository)
    other.root, other.store = repository.root, tmp_path / "run" / "other-trees"
    assert taken(new_engine(other, store=other.store)) == before
    repository.put("new.txt", "changed")
    after = taken(new_engine(other, store=other.store))
    assert other.changes(before, after) == ["-not in git", "+changed"]


def test_objects_that_a_power_failure_took_are_stored_again(repository: Repository, tmp_path: Path) -> None:
    age(repository)
    before = taken(new_engine(repository))
    for path in repository.store.glob("??/*"):
        path.write_bytes(b"")
    assert taken(new_engine(repository)) == before
    repository.put("src/a.py", "a = 9")
    assert repository.changes(before, taken(new_engine(repository))) == ["-a = 1", "+a = 9"]


def test_paths_with_a_secret_are_not_in_the_cache(repository: Repository) -> None:
    repository.put("s3cret-value-42.txt", "x")
    age(repository)
    secret = Redactor(("s3cret-value-42",))
    taken(new_engine(repository, secret))
    assert not known_file(repository).exists()
    with_it = taken(new_engine(repository))
    assert with_it == repository.by_git()
    assert taken(new_engine(repository, secret)) != with_it


def test_what_git_removed_is_copied_again_when_a_tree_is_kept(repository: Repository) -> None:
    trees = new_engine(repository)
    repository.put("src/new.py", "first")
    first = trees.keep(taken(trees), "run/1")
    assert isinstance(first, KeptTree)
    repository.git("update-ref", "-d", first.reference)
    repository.git("gc", "-q", "--prune=now")
    repository.put("other.py", "second")
    second = trees.keep(taken(trees), "run/2")
    assert isinstance(second, KeptTree)
    repository.git("fsck", "--strict")
    assert repository.git("show", f"{second.reference}:src/new.py") == "first"


def test_the_cache_lies_in_the_state_folder_of_the_user(tmp_path: Path) -> None:
    run = tmp_path / "project/.claude/pipeline-runs/s"
    state = StateFolder(str(run), {"XDG_STATE_HOME": str(tmp_path / "state")})
    other = StateFolder(f"{run}-2", {"XDG_STATE_HOME": str(tmp_path / "state")})
    assert state.of_project("files").startswith(str(tmp_path / "state"))
    assert state.of_project("files") == other.of_project("files")
    assert StateFolder(str(run), {"XDG_STATE_HOME": str(tmp_path / "project/x")}).of_project("files") == ""
