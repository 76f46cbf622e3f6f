"""Trees of a git repository: the ids of git itself, taken without git's help and without a trace."""

import os
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.adapters.repository import Repository, content, taken
from tests.security.trapped_repository import ENVIRON, TRAPS, TrappedRepository

from agentforge.adapters.host.git_objects import GitObjects
from agentforge.adapters.host.git_trees import GitTrees
from agentforge.adapters.host.tree_scan import TreeLimits
from agentforge.model.secrets import Redactor
from agentforge.ports.host import NoTree, TakenTree, TreeFile


def test_the_id_is_that_of_git_and_git_notices_nothing(repository: Repository) -> None:
    repository.put("README.md", "staged")
    repository.git("stash")
    repository.put("src/a.py", "staged")
    repository.git("add", "src/a.py")
    repository.put("src/a.py", "changed after it was staged")
    repository.put("new/file.txt", "new")
    repository.put("ä ü\n.txt", "odd name")
    repository.put("ignored.log", "ignored")
    (repository.root / "src/deep/b.py").unlink()
    (repository.root / "run.sh").write_text("run")
    (repository.root / "run.sh").chmod(0o755)
    (repository.root / "link").symlink_to("/etc/passwd")
    before = content(repository.root / ".git")
    id = taken(repository.trees())
    assert content(repository.root / ".git") == before
    assert id == repository.by_git()
    assert "root:" not in str(content(repository.store))


def test_the_engines_files_and_large_files_are_left_out(repository: Repository) -> None:
    for name in (".claude/pipeline-runs/s/events.jsonl", ".agentforge/config.yaml", ".agentforge-outbox/x"):
        repository.put(name, "ours")
    repository.put("large.bin", "x" * 101)
    trees = repository.trees(limits=TreeLimits(file_bytes=100))
    tree = trees.take()
    id = repository.by_git(".claude", ".agentforge*", "large.bin")
    assert tree == TakenTree(id, omitted=1, inexact=("large.bin",))


def test_a_repository_hides_no_files_by_its_own_configuration(repository: Repository) -> None:
    repository.put("new.py", "new")
    repository.put(".git/all", "*.py")
    expected = repository.by_git()
    repository.git("config", "core.excludesFile", str(repository.root / ".git/all"))
    repository.put(".git/info/exclude", "*.py")
    assert taken(repository.trees()) == expected


@pytest.mark.parametrize("is_configured", [True, False])
def test_what_the_user_ignores_everywhere_is_left_out(
    repository: Repository, tmp_path: Path, is_configured: bool
) -> None:
    """In the file that the user's configuration names, by default in that of git."""
    before = taken(repository.trees())
    repository.put("new.note", "new")
    home = tmp_path / "home"
    ignore = home / "notes" if is_configured else home / ".config/git/ignore"
    ignore.parent.mkdir(parents=True)
    ignore.write_text("*.note")
    (home / ".gitconfig").write_text("[core]\n excludesFile = ~/notes\n" if is_configured else "")
    environ = {**ENVIRON, "HOME": str(home), "GIT_CONFIG_GLOBAL": str(home / ".gitconfig")}
    made = (str(repository.root), str(repository.store), environ, Redactor(()))
    assert taken(GitTrees(*made)) == before
    ignore.unlink()
    os.mkfifo(ignore)
    assert taken(GitTrees(*made)) == repository.by_git(), "a pipe is not read"


@pytest.mark.parametrize("config", ["", "[not a setting"])
def test_a_repository_inside_is_one_entry_that_changes_with_its_files(
    repository: Repository, config: str
) -> None:
    """Also if git can't read its configuration."""
    before = taken(repository.trees())
    repository.put("nested/n.txt", "n")
    repository.git("-C", "nested", "init", "-q")
    repository.put("nested/.git/config", config)
    with_one = taken(repository.trees())
    repository.put("nested/deep/m.txt", "m")
    with_two = taken(repository.trees())
    assert len({before, with_one, with_two}) == 3
    assert repository.trees().changed(with_one, with_two, 9) == ("nested",)
    assert repository.trees().changed(before, with_one, 9) == ("nested",)


def test_a_repository_without_commits_and_one_with_sha256(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    other = Repository(tmp_path / "b", "--object-format=sha256")
    other.put("new.txt", "new")
    assert taken(other.trees()) == other.by_git()
    other.git("update-ref", "-d", "HEAD")
    other.git("rm", "-rq", "--cached", ".")
    assert taken(other.trees()) == other.by_git("none")


def test_the_project_may_be_a_folder_of_a_repository(repository: Repository) -> None:
    trees = GitTrees(str(repository.root / "src"), str(repository.store), ENVIRON, Redactor(()))
    assert trees.is_possible()
    assert taken(trees) == repository.git("rev-parse", "HEAD:src")


def test_an_unchanged_tree_writes_nothing(repository: Repository) -> None:
    trees = repository.trees()
    first = taken(trees)
    times = {path: path.stat().st_mtime_ns for path in repository.store.rglob("*")}
    assert taken(trees) == taken(repository.trees()) == first
    again = {path: path.stat().st_mtime_ns for path in repository.store.rglob("*") if path.name != "latest"}
    assert again.items() <= times.items()
    assert len([path for path in times if path.is_file() and path.name != "latest"]) == 3, "only folders"


def test_a_change_that_leaves_size_and_time_is_seen(repository: Repository) -> None:
    trees = repository.trees()
    first, path = taken(trees), repository.root / "src/a.py"
    seen = path.stat()
    path.write_text("a = 2")
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert taken(trees) == repository.by_git() != first


def test_replaced_content_is_kept_although_git_has_lost_it(repository: Repository) -> None:
    trees = repository.trees()
    first = taken(trees)
    repository.put("README.md", "second")
    (repository.root / "src/deep/b.py").unlink()
    second = taken(trees)
    repository.put("README.md", "third")
    third = taken(repository.trees())
    for path in (repository.root / ".git/objects").rglob("*"):
        if path.is_file():
            path.unlink()
    assert set(repository.changes(first, second)) == {"-read me", "+second", "-b = 2"}
    assert set(repository.changes(first, third)) == {"-read me", "+third", "-b = 2"}
    assert repository.changes(second, third) == ["-second", "+third"]


def test_a_new_engine_keeps_what_the_agent_replaced_in_the_meantime(repository: Repository) -> None:
    first = taken(repository.trees())
    repository.put("src/a.py", "a = 3")
    second = taken(repository.trees())
    assert repository.changes(first, second) == ["-a = 1", "+a = 3"]


@pytest.mark.parametrize("noted", [b"x", b"\xff" * 40, b"0" * 40])
def test_a_damaged_note_of_the_latest_tree_is_ignored(repository: Repository, noted: bytes) -> None:
    first = taken(repository.trees())
    (repository.store / "latest").write_bytes(noted)
    assert taken(repository.trees()) == first
    (repository.store / first[:2] / first[2:]).write_bytes(b"damaged")
    assert taken(repository.trees()) == first


def test_an_object_that_a_power_failure_emptied_is_written_again(repository: Repository) -> None:
    repository.put("new.txt", "new")
    first = taken(repository.trees())
    for path in repository.store.glob("??/*"):
        path.write_bytes(b"")
    assert taken(repository.trees()) == first
    assert all(path.stat().st_size for path in repository.store.glob("??/*"))


def test_no_link_is_followed(repository: Repository, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a.py").write_text("secret")
    trees = repository.trees()
    taken(trees)
    for name in ("a.py", "deep/b.py"):
        (repository.root / "src" / name).unlink()
    (repository.root / "src/deep").rmdir()
    (repository.root / "src").rmdir()
    (repository.root / "src").symlink_to(tmp_path / "secret")
    (repository.root / "README.md").unlink()
    os.mkfifo(repository.root / "README.md")
    id = taken(trees)
    (repository.root / "README.md").unlink()
    assert id == repository.by_git()
    assert b"secret" not in b"".join(content(repository.store).values())


def test_a_folder_in_the_place_of_a_file_and_a_file_in_that_of_a_folder(repository: Repository) -> None:
    trees = repository.trees()
    taken(trees)
    (repository.root / "README.md").unlink()
    repository.put("README.md/inner.txt", "inner")
    (repository.root / "src/deep/b.py").unlink()
    (repository.root / "src/deep").rmdir()
    repository.put("src/deep", "now a file")
    assert taken(trees) == repository.by_git()


def test_secrets_are_not_kept(repository: Repository) -> None:
    repository.put("conf.txt", "key=sesame-open-1")
    repository.put("sesame-open-1.txt", "named by it")
    taken(repository.trees(Redactor(["sesame-open-1"])))
    env = {**ENVIRON, "GIT_OBJECT_DIRECTORY": str(repository.store)}
    listed = subprocess.run(
        ["git", "-C", str(repository.root), "ls-tree", "-r", (repository.store / "latest").read_text()],
        check=True,
        capture_output=True,
        text=True,
        env=env,
    ).stdout
    assert "sesame" not in listed
    id = next(line.split()[2] for line in listed.splitlines() if line.endswith("conf.txt"))
    shown = ["git", "-C", str(repository.root), "cat-file", "-p", id]
    assert subprocess.run(shown, check=True, capture_output=True, text=True, env=env).stdout == "key=[secret]"


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (TreeLimits(files=2), "the project has more than 2 files"),
        (TreeLimits(seconds=-1.0), " longer than -1 s"),
        (TreeLimits(new_bytes=2), "more than 0 MB of files are new to git"),
    ],
)
def test_too_much_is_a_reason_and_is_not_retried(
    repository: Repository, limits: TreeLimits, reason: str
) -> None:
    repository.put("new.txt", "new")
    trees = repository.trees(limits=limits)
    found = trees.take()
    assert isinstance(found, NoTree)
    assert reason in found.reason
    (repository.root / ".git/HEAD").unlink()
    assert trees.take() == found


def test_without_a_repository_there_is_nothing_to_take(tmp_path: Path) -> None:
    trees = GitTrees(str(tmp_path), str(tmp_path / "trees"), ENVIRON, Redactor(()))
    assert not trees.is_possible()


def test_git_looks_for_a_repository_below_the_ceiling_only(repository: Repository) -> None:
    def possible(ceiling: Path) -> bool:
        environ = {**ENVIRON, "GIT_CEILING_DIRECTORIES": f"/elsewhere:{ceiling}"}
        made = GitTrees(str(repository.root / "src/deep"), str(repository.store), environ, Redactor(()))
        return made.is_possible()

    assert possible(repository.root.parent)
    assert not possible(repository.root)


def _without_git(repository: Repository) -> GitTrees:
    return GitTrees(str(repository.root), str(repository.store), {"PATH": "/nonexistent"}, Redactor(()))


def _broken(repository: Repository) -> GitTrees:
    (repository.root / ".git/HEAD").unlink()
    return repository.trees()


def _without_room(repository: Repository) -> GitTrees:
    repository.store.write_text("a file in the place of the folder")
    return repository.trees()


@pytest.mark.parametrize(
    ("make", "reason"),
    [(_without_git, "not installed"), (_broken, "git rev-parse: "), (_without_room, "trees")],
)
def test_what_goes_wrong_is_a_reason(
    repository: Repository, make: Callable[[Repository], GitTrees], reason: str
) -> None:
    tree = make(repository).take()
    assert isinstance(tree, NoTree)
    assert reason in tree.reason


def test_changed_paths(repository: Repository) -> None:
    trees = repository.trees()
    first = taken(trees)
    repository.put("README.md", "changed")
    repository.put("new/deep/file.txt", "new")
    (repository.root / "src/a.py").chmod(0o755)
    (repository.root / "src/deep/b.py").unlink()
    (repository.root / "src/deep").rmdir()
    repository.put("src/deep", "a file now")
    second = taken(trees)
    changed = {"README.md", "new/deep/file.txt", "src/a.py", "src/deep", "src/deep/b.py"}
    for one, other in ((first, second), (second, first)):
        paths = trees.changed(one, other, 10)
        assert isinstance(paths, tuple)
        assert (set(paths), len(paths)) == (changed, 5)
        assert repository.trees().changed(one, other, 2) == paths[:2]
    assert trees.changed(first, first, 10) == ()


def test_trees_that_cant_be_compared_are_a_reason(repository: Repository) -> None:
    trees = repository.trees()
    first = taken(trees)
    for other in ("0" * 40, "0" * 64, "../x"):
        assert isinstance(trees.changed(first, other, 10), NoTree)
        assert isinstance(trees.changed(other, first, 10), NoTree)
    (repository.store / first[:2] / first[2:]).write_bytes(b"damaged")
    assert isinstance(trees.changed("1" * 40, first, 10), NoTree)


def test_a_tree_that_repeats_folders_is_not_read_forever(tmp_path: Path) -> None:
    objects = GitObjects(str(tmp_path), "sha1", max_folders=1000)
    id = objects.add("tree", b"")
    for _ in range(40):
        inner = bytes.fromhex(id)
        id = objects.add("tree", b"40000 a\0" + inner + b"40000 b\0" + inner)
    with pytest.raises(ValueError, match="folders"):
        list(objects.tree(id))


def test_new_files_of_caches_are_left_out_and_tracked_ones_are_not(repository: Repository) -> None:
    repository.put("node_modules/tracked.js", "1")
    repository.git("add", ".")
    trees = repository.trees()
    first = taken(trees)
    for name in ("src/__pycache__/a.pyc", ".pytest_cache/v/x", ".coverage", "node_modules/new.js", "b.pyc"):
        repository.put(name, "new")
    assert taken(trees) == first
    repository.put("node_modules/tracked.js", "2")
    assert trees.changed(first, taken(trees), 10) == ("node_modules/tracked.js",)


def test_a_submodule_is_one_entry_that_changes_with_its_files(with_submodules: Repository) -> None:
    trees = with_submodules.trees()
    first, before = taken(trees), content(with_submodules.root / ".git")
    for name in ("src/a.py", "new.txt", "inner/README.md"):
        last = taken(trees)
        with_submodules.put(f"modules/outer/{name}", "changed")
        assert trees.changed(last, taken(trees), 10) == ("modules/outer",)
    with_submodules.put("modules/outer/ignored.log", "ignored")
    assert trees.changed(first, taken(with_submodules.trees()), 10) == ("modules/outer",)
    assert content(with_submodules.root / ".git") == before
    stored = (zlib.decompress(path.read_bytes()) for path in with_submodules.store.glob("??/*"))
    assert not any(b"changed" in one for one in stored)


def test_a_submodule_that_is_not_checked_out_is_as_git_has_it(with_submodules: Repository) -> None:
    with_submodules.git("submodule", "deinit", "-q", "-f", "--all")
    assert taken(with_submodules.trees()) == with_submodules.by_git()


def test_a_submodule_behind_a_link_is_not_read(with_submodules: Repository, tmp_path: Path) -> None:
    trees = with_submodules.trees()
    first = taken(trees)
    (with_submodules.root / "modules").rename(tmp_path / "elsewhere")
    (with_submodules.root / "modules").symlink_to(tmp_path / "elsewhere")
    linked = taken(trees)
    assert linked != first
    (tmp_path / "elsewhere/outer/README.md").write_text("changed")
    assert taken(trees) == linked


@pytest.mark.parametrize("name", TRAPS)
def test_a_repository_starts_no_program(tmp_path: Path, name: str) -> None:
    repository = TrappedRepository(tmp_path)
    TRAPS[name][0](repository)
    repository.canary.unlink(missing_ok=True)
    trees = GitTrees(str(repository.root), str(tmp_path / "trees"), ENVIRON, Redactor(()))
    first = trees.take()
    (repository.root / "kept/a.txt").write_text("changed")
    if name != "bare repository":  # Git refuses it.
        assert isinstance(first, TakenTree)
        assert trees.take() != first
        trees.keep(first.id, "run/1")
    assert not repository.canary.exists()


def test_paths_without_their_own_content_are_named(repository: Repository) -> None:
    """Also by an engine that reads no file again, and when nothing else changed."""
    repository.put("committed.env", "hunter2-committed")
    repository.git("add", "committed.env")
    repository.put("b.env", "password: hunter2")
    repository.put("a.bin", "x" * 101)
    limits, redactor = TreeLimits(file_bytes=100), Redactor(["hunter2"])
    trees = repository.trees(limits=limits, redactor=redactor)
    first = trees.take()
    assert isinstance(first, TakenTree)
    assert first.inexact == ("a.bin", "b.env")
    (repository.root / "a.bin").rename(repository.root / "c.bin")
    moved = trees.take()
    assert isinstance(moved, TakenTree)
    assert (moved.id, moved.inexact) == (first.id, ("b.env", "c.bin"))
    repository.put("b.env", "")
    (repository.root / "c.bin").unlink()
    last = trees.take()
    assert isinstance(last, TakenTree)
    assert last.inexact == ()


def test_large_files_of_which_git_has_the_content_are_in_the_tree(repository: Repository) -> None:
    repository.put("large.bin", "x" * 101)
    repository.git("add", "large.bin")
    trees = repository.trees(limits=TreeLimits(file_bytes=100))
    tree = trees.take()
    assert tree == TakenTree(repository.by_git())
    assert repository.trees(limits=TreeLimits(file_bytes=100, new_bytes=100)).take() != tree
    repository.put("large.bin", "y" * 101)
    changed = trees.take()
    assert isinstance(changed, TakenTree)
    assert changed.inexact == ("large.bin",)
    assert isinstance(tree, TakenTree)
    file = trees.files(tree.id, ["large.bin"])
    assert isinstance(file, dict)
    assert trees.content(file["large.bin"]) == b"x" * 101


def test_what_a_tree_has_at_a_path(repository: Repository) -> None:
    repository.put("new/deep/file.txt", "new")
    (repository.root / "link").symlink_to("new")
    trees = repository.trees()
    tree = taken(trees)
    found = trees.files(tree, ["new", "new/deep/file.txt", "src/a.py", "src/a.py/x", "link", "none/x", "x"])
    assert isinstance(found, dict)
    assert {path: file.mode for path, file in found.items()} == {
        "new/deep/file.txt": "100644",
        "src/a.py": "100644",
        "link": "120000",
    }
    assert trees.content(found["new/deep/file.txt"]) == b"new"
    assert trees.content(found["link"]) == b"new"
    assert trees.content(found["src/a.py"]) == (repository.root / "src/a.py").read_bytes(), "git has it"


def test_why_what_a_tree_had_is_not_known(repository: Repository) -> None:
    trees = repository.trees()
    tree = taken(trees)
    assert trees.files("HEAD", []) == NoTree("'HEAD' is not the id of a tree")
    assert isinstance(trees.files("0" * 40, ["a"]), NoTree)
    assert trees.content(TreeFile("100644", "0" * 40)) == NoTree(f"the content {'0' * 12} is not kept")
    assert isinstance(trees.content(TreeFile("160000", tree)), NoTree)
    assert isinstance(trees.content(TreeFile("100644", "--help")), NoTree)
    repository.put("new.txt", "new")
    taken(trees)
    file = TreeFile("100644", repository.git("hash-object", "new.txt"))
    stored = repository.store / file.id[:2] / file.id[2:]
    stored.write_bytes(b"damaged")
    assert isinstance(trees.content(file), NoTree)
    (repository.root / ".git").rename(repository.root / "git")
    assert isinstance(trees.content(TreeFile("100644", "0" * 40)), NoTree)
