"""A git repository whose settings start a program on every occasion; the program leaves a canary."""

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

ENVIRON = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@localhost",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@localhost",
}


class TrappedRepository:
    def __init__(self, folder: Path) -> None:
        self.root = folder / "project"
        self.canary = folder / "canary"
        self.program = folder / "trap.sh"
        self.program.write_text(f"#!/bin/sh\necho \"$0 $*\" >> '{self.canary}'\nexit 1\n")
        self.program.chmod(0o755)
        for name in ("kept/a.txt", "left/b.txt"):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(name)
        self.git("init", "-q")
        self.git("add", ".")
        self.git("commit", "-qm", "all")

    def git(self, *words: str, check: bool = True) -> str:
        """As a user calls it, without protection, on a terminal."""
        terminal, stdout = pty.openpty()
        try:
            done = subprocess.run(
                ["git", *words],
                cwd=self.root,
                env=ENVIRON,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if check else stdout,
                stderr=subprocess.PIPE,
                check=check,
                timeout=60,
            )
        finally:
            os.close(stdout)
            os.close(terminal)
        return done.stdout.decode().strip() if check else ""

    def set(self, key: str, value: str) -> None:
        self.git("config", key, value)

    def touch(self) -> None:
        """Make git read the content of a file again."""
        (self.root / "kept/a.txt").write_text("KEPT/A.TXT")

    def attribute(self, line: str) -> None:
        (self.root / ".git" / "info").mkdir(exist_ok=True)
        (self.root / ".git" / "info" / "attributes").write_text(f"{line}\n")
        self.touch()

    def lose_a_tree(self, url: str) -> None:
        """A sparse index that needs a tree which only a remote has."""
        self.git("sparse-checkout", "set", "--cone", "--sparse-index", "kept")
        lost = self.git("rev-parse", "HEAD:left")
        (self.root / ".git" / "objects" / lost[:2] / lost[2:]).unlink()
        self.set("remote.origin.url", url)
        self.set("remote.origin.promisor", "true")


def _upload_pack(repository: TrappedRepository) -> None:
    repository.lose_a_tree(str(repository.root))
    repository.set("remote.origin.uploadpack", str(repository.program))
    repository.set("protocol.file.allow", "always")


def _ssh(repository: TrappedRepository) -> None:
    repository.lose_a_tree("ssh://localhost/repository")
    repository.set("core.sshCommand", str(repository.program))
    repository.set("protocol.ssh.allow", "always")


def _external_transport(repository: TrappedRepository) -> None:
    repository.lose_a_tree(f"ext::{repository.program}")
    repository.set("protocol.ext.allow", "always")


def _proxy(repository: TrappedRepository) -> None:
    repository.lose_a_tree("git://localhost/repository")
    repository.set("core.gitProxy", str(repository.program))
    repository.set("protocol.git.allow", "always")


def _file_system_monitor(repository: TrappedRepository) -> None:
    repository.set("core.fsmonitor", str(repository.program))


def _included_settings(repository: TrappedRepository) -> None:
    (repository.root / "kept" / "included").write_text(f"[core]\nfsmonitor = {repository.program}\n")
    repository.set("include.path", "../kept/included")


def _worktree_settings(repository: TrappedRepository) -> None:
    repository.set("extensions.worktreeConfig", "true")
    repository.git("config", "--worktree", "core.fsmonitor", str(repository.program))


def _hook(repository: TrappedRepository) -> None:
    hook = repository.root / ".git" / "hooks" / "post-index-change"
    hook.parent.mkdir(exist_ok=True)
    hook.symlink_to(repository.program)
    os.utime(repository.root / "kept/a.txt", ns=(1, 1))


def _hooks_folder(repository: TrappedRepository) -> None:
    (repository.root / "hooks").mkdir()
    (repository.root / "hooks" / "post-index-change").symlink_to(repository.program)
    repository.set("core.hooksPath", "hooks")
    os.utime(repository.root / "kept/a.txt", ns=(1, 1))


def _clean_filter(repository: TrappedRepository) -> None:
    repository.set("filter.any.clean", str(repository.program))
    repository.attribute("* filter=any")


def _process_filter(repository: TrappedRepository) -> None:
    repository.set("filter.any.process", str(repository.program))
    repository.attribute("* filter=any")


def _text_conversion(repository: TrappedRepository) -> None:
    repository.set("diff.any.textconv", str(repository.program))
    repository.attribute("* diff=any")


def _diff_driver(repository: TrappedRepository) -> None:
    repository.set("diff.any.command", str(repository.program))
    repository.attribute("* diff=any")


def _external_diff(repository: TrappedRepository) -> None:
    repository.set("diff.external", str(repository.program))
    repository.touch()


def _pager(repository: TrappedRepository) -> None:
    for key in ("core.pager", "pager.diff", "pager.log", "pager.ls-files"):
        repository.set(key, str(repository.program))


def _signature(repository: TrappedRepository) -> None:
    tree = repository.git("rev-parse", "HEAD^{tree}")
    signature = "-----BEGIN PGP SIGNATURE-----\n \n eA==\n -----END PGP SIGNATURE-----"
    who = "a <a@localhost> 1700000000 +0000"
    commit = f"tree {tree}\nauthor {who}\ncommitter {who}\ngpgsig {signature}\n\nsigned\n"
    (repository.root / ".git" / "commit").write_text(commit)
    repository.git("reset", "-q", repository.git("hash-object", "-wt", "commit", ".git/commit"))
    repository.set("log.showSignature", "true")
    repository.set("gpg.program", str(repository.program))


def _submodule(repository: TrappedRepository) -> None:
    inner = repository.root / "inner"
    subprocess.run(["git", "init", "-q", str(inner)], check=True, env=ENVIRON)
    commit = ("commit", "-q", "--allow-empty", "-m", "inner")
    subprocess.run(["git", "-C", str(inner), *commit], check=True, env=ENVIRON)
    repository.git("add", "inner")
    subprocess.run(
        ["git", "-C", str(inner), "config", "core.fsmonitor", str(repository.program)],
        check=True,
        env=ENVIRON,
    )


def _bare_repository(repository: TrappedRepository) -> None:
    """What looks like a bare repository can be part of a clone."""
    for name in ("HEAD", "config", "objects", "refs", "index"):
        (repository.root / ".git" / name).rename(repository.root / name)
    (repository.root / ".git").rename(repository.root / "rest")
    (repository.root / "config").write_text(
        f"[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = {repository.program}\n"
    )


TRAPS: dict[str, tuple[Callable[[TrappedRepository], None], tuple[str, ...]]] = {
    "upload-pack": (_upload_pack, ("ls-files",)),
    "ssh command": (_ssh, ("ls-files",)),
    "external transport": (_external_transport, ("ls-files",)),
    "proxy command": (_proxy, ("ls-files",)),
    "fsmonitor": (_file_system_monitor, ("ls-files", "--others")),
    "included settings": (_included_settings, ("ls-files", "--others")),
    "settings of a worktree": (_worktree_settings, ("ls-files", "--others")),
    "hook": (_hook, ("status",)),
    "folder of hooks": (_hooks_folder, ("status",)),
    "clean filter": (_clean_filter, ("status",)),
    "process filter": (_process_filter, ("status",)),
    "text conversion": (_text_conversion, ("diff",)),
    "diff driver": (_diff_driver, ("diff",)),
    "external diff": (_external_diff, ("diff",)),
    "pager": (_pager, ("log",)),
    "signature": (_signature, ("log",)),
    "submodule": (_submodule, ("status",)),
    "bare repository": (_bare_repository, ("ls-files", "--others")),
}
"""Each trap, and a command of git that it catches."""
