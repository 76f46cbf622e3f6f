"""A git repository whose trees are taken, with a folder for a run beside it."""

import subprocess
from pathlib import Path

from tests.security.trapped_repository import ENVIRON

from agentforge.adapters.host.git_trees import GitTrees
from agentforge.adapters.host.tree_scan import ScannedTrees, TreeLimits
from agentforge.model.secrets import Redactor
from agentforge.ports.host import TakenTree, is_tree_id


class Repository:
    def __init__(self, folder: Path, *init: str) -> None:
        self.root = folder / "project"
        self.store = folder / "run" / "trees"
        self.store.parent.mkdir()
        self.root.mkdir()
        self.git("init", "-q", *init)
        self.put("README.md", "read me")
        self.put("src/a.py", "a = 1")
        self.put("src/deep/b.py", "b = 2")
        self.put(".gitignore", "*.log")
        self.git("add", ".")
        self.git("commit", "-qm", "all")

    def put(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def add_submodule(self, other: Path, name: str) -> None:
        self.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(other), name)
        self.git("commit", "-qm", name)

    def git(self, *words: str, **environ: str) -> str:
        command = ["git", "-C", str(self.root), *words]
        env = {**ENVIRON, **environ}
        return subprocess.run(command, check=True, capture_output=True, env=env).stdout.decode().strip()

    def trees(self, redactor: Redactor | None = None, limits: TreeLimits | None = None) -> GitTrees:
        """As a new engine takes them."""
        made = (str(self.root), str(self.store), ENVIRON, redactor or Redactor(()))
        return GitTrees(*made, limits) if limits else GitTrees(*made)

    def by_git(self, *excluded: str) -> str:
        """The id that git gives the same files, with an index of its own."""
        own = {"GIT_INDEX_FILE": str(self.store.parent / "index")}
        (self.store.parent / "index").unlink(missing_ok=True)
        self.git("read-tree", *(["HEAD"] if self.git("branch") else ["--empty"]), **own)
        self.git("add", "-A", "--", ".", *(f":!{path}" for path in excluded), **own)
        return self.git("write-tree", **own)

    def changes(self, before: str, after: str) -> list[str]:
        """With the kept objects alone."""
        bare = self.store.parent / "bare"
        if not bare.exists():
            subprocess.run(["git", "init", "-q", "--bare", str(bare)], check=True, env=ENVIRON)
        env = {**ENVIRON, "GIT_OBJECT_DIRECTORY": str(self.store), "GIT_DIR": str(bare)}
        shown = ["git", "diff-tree", "-r", "-p", before, after]
        done = subprocess.run(shown, check=True, capture_output=True, env=env, text=True)
        lines = (line for line in done.stdout.splitlines() if line.startswith(("+", "-")))
        return [line for line in lines if not line.startswith(("+++", "---"))]


def taken(trees: ScannedTrees) -> str:
    tree = trees.take()
    assert isinstance(tree, TakenTree), tree
    assert is_tree_id(tree.id)
    return tree.id


def content(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
