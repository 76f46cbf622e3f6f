"""A `.git` that an agent or a repository prepared leads the engine's git to no file outside of the project,
and starts nothing."""

import os
import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.security.trapped_repository import ENVIRON, TrappedRepository

from agentforge.adapters.host.git_trees import GitTrees
from agentforge.adapters.host.project_files import WorkspaceFiles, committed_files
from agentforge.model.secrets import Redactor
from agentforge.system.git import git_program, object_program

SECRET = b"the-secret-word"


class Planted(TrappedRepository):
    """With another repository beside it, which contains a secret."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "apart").mkdir()
        self.other = TrappedRepository(folder / "apart")
        (self.other.root / "secret.txt").write_bytes(SECRET)
        self.other.git("add", ".")
        self.other.git("commit", "-qm", "secret")

    @property
    def git_folder(self) -> Path:
        return self.root / ".git"


def _common_folder(planted: Planted) -> None:
    (planted.git_folder / "commondir").write_text(f"{planted.other.root}/.git\n")


def _git_file(planted: Planted) -> None:
    shutil.rmtree(planted.git_folder)
    planted.git_folder.write_text(f"gitdir: {planted.other.root}/.git\n")


def _git_link(planted: Planted) -> None:
    shutil.rmtree(planted.git_folder)
    planted.git_folder.symlink_to(planted.other.root / ".git")


def _work_tree(planted: Planted) -> None:
    planted.set("core.worktree", str(planted.other.root))


def _alternates(planted: Planted) -> None:
    (planted.git_folder / "objects/info/alternates").write_text(f"{planted.other.root}/.git/objects\n")
    index = planted.other.git("rev-parse", "HEAD:secret.txt")
    planted.git("update-index", "--add", "--cacheinfo", f"100644,{index},secret.txt")


def _replaced_objects(planted: Planted) -> None:
    _alternates(planted)
    secret = planted.other.git("rev-parse", "HEAD:secret.txt")
    planted.git("replace", "-f", planted.git("rev-parse", "HEAD:kept/a.txt"), secret)


def _link_in_the_index(planted: Planted) -> None:
    shutil.rmtree(planted.root / "left")
    (planted.root / "left").symlink_to(planted.other.root)


def _linked_file(planted: Planted) -> None:
    (planted.root / "secret.txt").symlink_to(planted.other.root / "secret.txt")
    planted.git("add", "-A")


def _attributes(planted: Planted) -> None:
    for key in ("filter.x.clean", "filter.x.smudge", "filter.x.process", "diff.x.textconv", "diff.x.command"):
        planted.set(key, str(planted.program))
    planted.set("filter.x.required", "true")
    line = "* filter=x diff=x text eol=crlf ident working-tree-encoding=UTF-16\n"
    (planted.root / ".gitattributes").write_text(line)
    planted.touch()


def _submodules(planted: Planted) -> None:
    (planted.root / ".gitmodules").write_text(
        f'[submodule "m"]\npath = m\nurl = {planted.other.root}\nupdate = !{planted.program}\nignore = none\n'
    )
    planted.set("submodule.m.update", f"!{planted.program}")
    planted.set("submodule.m.active", "true")
    planted.set("submodule.recurse", "true")
    head = planted.other.git("rev-parse", "HEAD")
    planted.git("update-index", "--add", "--cacheinfo", f"160000,{head},m")


def _settings_elsewhere(planted: Planted) -> None:
    settings = planted.root / "settings"
    settings.write_text(f"[core]\nfsmonitor = {planted.program}\nhooksPath = {planted.root}/hooks\n")
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (planted.root / "hooks").mkdir(exist_ok=True)
        shutil.copy(planted.program, planted.root / "hooks" / name)
    planted.set("include.path", "../settings")
    planted.set(f"includeIf.gitdir:{planted.root}/.path", "../settings")


def _excludes(planted: Planted) -> None:
    """Patterns are read from a file outside; its content must not show up."""
    planted.set("core.excludesFile", str(planted.other.root / "secret.txt"))
    planted.set("core.attributesFile", str(planted.other.root / "secret.txt"))


PLANTED: dict[str, Callable[[Planted], None]] = {
    "common folder": _common_folder,
    "git file": _git_file,
    "git link": _git_link,
    "work tree": _work_tree,
    "alternates": _alternates,
    "replaced objects": _replaced_objects,
    "link in the index": _link_in_the_index,
    "linked file": _linked_file,
    "attributes": _attributes,
    "submodules": _submodules,
    "settings elsewhere": _settings_elsewhere,
    "excludes": _excludes,
}


@pytest.mark.parametrize("name", PLANTED)
def test_nothing_outside_is_read_and_nothing_started(tmp_path: Path, name: str) -> None:
    planted = Planted(tmp_path)
    PLANTED[name](planted)
    planted.canary.unlink(missing_ok=True)
    workspace = WorkspaceFiles(str(planted.root), ENVIRON)
    contents = [workspace.read(path, 1 << 20) for path in workspace.stamps() or {}]
    contents += [workspace.read("secret.txt", 1 << 20), workspace.read("left/secret.txt", 1 << 20)]
    assert not [content for content in contents if content and SECRET in content]
    committed_files(str(planted.root), ENVIRON)
    trees = GitTrees(str(planted.root), str(tmp_path / "objects"), ENVIRON, Redactor(()))
    trees.take()
    (planted.root / "kept/a.txt").write_text("changed")
    trees.take()
    assert not planted.canary.exists()
    assert not planted.other.canary.exists()
    assert SECRET not in b"".join(_stored(tmp_path / "objects"))


def _stored(objects: Path) -> list[bytes]:
    found = [path.read_bytes() for path in objects.rglob("*") if path.is_file()]
    return [*found, *(zlib.decompress(content) for content in found if content[:1] == b"\x78")]


@pytest.mark.parametrize("path", ["worktree", "submodule"])
def test_a_work_tree_of_the_user_is_listed(tmp_path: Path, path: str) -> None:
    """Their `.git` is a file that leads elsewhere, as it should."""
    planted = Planted(tmp_path)
    place = tmp_path / path
    if path == "worktree":
        planted.git("worktree", "add", "-q", str(place))
    else:
        place = planted.root / "m"
        allowed = ("-c", "protocol.file.allow=always")
        planted.git(*allowed, "submodule", "--quiet", "add", str(planted.other.root), "m")
    assert (place / ".git").is_file()
    assert "kept/a.txt" in (WorkspaceFiles(str(place), ENVIRON).stamps() or {})
    assert committed_files(str(place), ENVIRON)["kept/a.txt"]


def test_git_is_called_by_the_path_that_was_found_at_the_start(tmp_path: Path) -> None:
    environ = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    first = git_program(str(tmp_path), environ, "ls-files", timeout=1, max_output=1)
    root = str(tmp_path)
    second = object_program(root, root, ["o"], environ, "diff-tree", timeout=1, max_output=1)
    assert first.argv[0] == second.argv[0] == shutil.which("git")
