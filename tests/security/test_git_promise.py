"""After a confined run, `git status`, `git diff` and `git commit` in the project execute nothing that the
agent wrote."""

# ruff: noqa: E501 - what agents write.

import atexit
import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from signal import SIGKILL
from typing import Any

import pytest
from msgspec import Struct
from tests.sampling import one_in
from tests.sdk.projects import ENVIRON, engine, pipeline, run
from tests.security.confined import WORK, need_bwrap, ran, script
from tests.surface.terminal import Project, wait_for

from agentforge.model.changes import LeftInGit
from agentforge.model.errors import ProviderUnusable, StorageFailed
from agentforge.model.facts import GitLeft
from agentforge.model.layout import AttemptLayout
from agentforge.model.status import RunStatus
from agentforge.runtime.git_guard import Found, GitGuard
from agentforge.system.git_settings import named_files

Prepare = Callable[["Repository"], None]

# What agents write: a program that leaves a canary, and commands that use it.
EVIL = """
HERE="${AGENTFORGE_RESULT%/*}"
printf '#!/bin/sh\\ntouch "$HOME/canary"; exit 1\\n' > evil; chmod +x evil; E="$PWD/evil"
export GIT_CONFIG_NOSYSTEM=1
trap_in() { git config -f "$1" core.fsmonitor "$E"; }
commit_in() { git -C "$1" -c user.name=x -c user.email=a@b commit -q --allow-empty -m x; }
nested() { git init -q "$1"; commit_in "$1"; trap_in "$1/.git/config"; }
gitlink() { git update-index --add --cacheinfo "160000,$(git -C "$1" rev-parse HEAD),${2:-$1}"; }
plain() { git init -q "$1"; commit_in "$1"; }
inside() { H=$(git -C "$1" rev-parse HEAD); (cd "$2"; git update-index --add --cacheinfo "160000,$H,$3"); }
hidden_link() {
    name=$(printf '%s' "$2" | tr ./ xx); gitlink "$1" "$name"; LC_ALL=C sed -i "s|$name|$2|" .git/index
}
"""
HOOKS = ("pre-commit", "post-index-change", "prepare-commit-msg", "post-commit", "reference-transaction")


class Repository:
    """The user's, with a home that has a git configuration."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.root = folder / "project"
        self.canary = self.home / "canary"
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    @classmethod
    def made(cls, folder: Path) -> "Repository":
        """A copy, as git takes longer to make one."""
        shutil.copytree(_original(), folder, symlinks=True, dirs_exist_ok=True)
        return cls(folder)

    def git(self, *words: str, at: str = ".") -> str:
        allowed = ("-c", "protocol.file.allow=always")
        done = subprocess.run(
            ["git", *allowed, *words],
            cwd=self.root / at,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        return done.stdout + done.stderr

    def config(self, *words: str) -> None:
        self.git("config", *words)

    def nested(self, path: str) -> None:
        self.git("init", "-q", path)
        self.git("commit", "-q", "--allow-empty", "-m", "x", at=path)

    def program(self, path: str, text: str = "exit 0") -> None:
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(f"#!/bin/sh\n{text}\n")
        (self.root / path).chmod(0o755)

    def submodule(self) -> None:
        other = self.home / "other"
        self.git("init", "-q", str(other))
        self.git("commit", "-q", "--allow-empty", "-m", "x", at=str(other))
        self.git("submodule", "add", "-q", str(other), "sub")
        self.git("commit", "-qm", "submodule")

    def used(self, at: str) -> bool:
        """As a person does after a run; returns whether a program of the agent was executed."""
        self.canary.unlink(missing_ok=True)
        (self.root / "kept/a.txt").write_text("changed\n")
        for words in (
            ("status",),
            ("diff",),
            ("diff", "HEAD"),
            ("commit", "-qam", "mine"),
            ("commit", "-q", "--allow-empty", "-m", "mine"),
            ("commit", "--allow-empty"),
            ("status", "--ignored"),
        ):
            for folder in {".", at}:
                self.git(*words, at=folder)
        return self.canary.exists()


@cache
def _original() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="agentforge-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    original = Repository(folder)
    for path in (original.home, original.root / "kept", original.root / "tools"):
        path.mkdir(parents=True)
    (original.home / ".gitconfig").write_text(
        "[user]\nname = a\nemail = a@localhost\n[core]\neditor = true\n"
    )
    (original.root / "kept/a.txt").write_text("a\n")
    for words in (("init", "-q"), ("add", "kept"), ("commit", "-qm", "all")):
        original.git(*words)
    return folder


class Vector(Struct, frozen=True):
    agent: str
    """What it does, after the definitions of EVIL."""
    prepare: Prepare = lambda _: None
    at: str = "."
    """The project, in the repository."""
    writable: tuple[str, ...] = ()
    """Further folders, which the sandbox lets it change."""
    works: bool = True
    """Whether git executes the program without any protection. Others could work with another git."""


def _uses(*settings: tuple[str, ...]) -> Prepare:
    def prepare(repository: Repository) -> None:
        for setting in settings:
            repository.config(*setting)

    return prepare


def _worktree_settings(repository: Repository) -> None:
    repository.config("core.repositoryFormatVersion", "1")
    repository.config("extensions.worktreeConfig", "true")


def _state(repository: Repository) -> None:
    (repository.home / "st").mkdir()


def _linked_hook(repository: Repository) -> None:
    repository.program("scripts/pre-commit")
    (repository.root / ".git/hooks/pre-commit").symlink_to("../../scripts/pre-commit")


def _dangling_hook(repository: Repository) -> None:
    (repository.root / ".git/hooks/pre-commit").symlink_to("../../scripts/pre-commit")


def _linked_in_folder(repository: Repository) -> None:
    _husky(repository)
    repository.program("scripts/pre-commit")
    (repository.root / ".husky/pre-commit").unlink()
    (repository.root / ".husky/pre-commit").symlink_to("../scripts/pre-commit")


def _linked_in_home(repository: Repository) -> None:
    repository.program("scripts/pre-commit")
    (repository.home / "hooks").mkdir()
    (repository.home / "hooks/pre-commit").symlink_to(repository.root / "scripts/pre-commit")
    repository.config("--global", "core.hooksPath", "~/hooks")


def _through_home(*setting: str) -> Prepare:
    """A setting that names a file of the project by way of a link in the home."""

    def prepare(repository: Repository) -> None:
        (repository.home / "link").symlink_to(repository.root)
        repository.program("tools/monitor")
        (repository.root / "tools/settings").write_text("[alias]\nst = status\n")
        (repository.root / ".husky").mkdir()
        repository.config("--global", *setting)

    return prepare


def _user_folder(repository: Repository) -> None:
    """As in `~name/…`."""
    user = pwd.getpwuid(os.getuid())
    (repository.root / ".husky").mkdir()
    path = os.path.relpath(repository.root / ".husky", user.pw_dir)
    repository.config("core.hooksPath", f"~{user.pw_name}/{path}")


def _linked_settings(repository: Repository) -> None:
    (repository.root / "dotfiles").mkdir()
    (repository.home / ".gitconfig").rename(repository.root / "dotfiles/gitconfig")
    (repository.home / ".gitconfig").symlink_to(repository.root / "dotfiles/gitconfig")


def _linked_folder_of_hooks(repository: Repository) -> None:
    (repository.root / "scripts").mkdir()
    (repository.root / ".husky").symlink_to("scripts")
    repository.config("core.hooksPath", ".husky")


def _linked_program(repository: Repository) -> None:
    """As in a virtual environment: the program is elsewhere, and the links to it are in the project."""
    (repository.root / "venv/bin").mkdir(parents=True)
    (repository.root / "venv/bin/python3").symlink_to("/bin/true")
    (repository.root / "venv/bin/python").symlink_to("python3")
    repository.config("core.fsmonitor", f'"{repository.root}/venv/bin/python" -m monitor')


def _monitor_by(command: str, script: str = "tools/monitor") -> Prepare:
    def prepare(repository: Repository) -> None:
        repository.program(script)
        (repository.root / script).chmod(0o755 if "sh" not in command else 0o644)
        repository.config("core.fsmonitor", command)

    return prepare


def _no_hooks(repository: Repository) -> None:
    shutil.rmtree(repository.root / ".git/hooks")


def _husky(repository: Repository) -> None:
    repository.program(".husky/pre-commit")
    repository.config("core.hooksPath", ".husky")


def _included(repository: Repository) -> None:
    (repository.root / ".gitconfig").write_text("[alias]\nst = status\n")
    repository.config("include.path", "../.gitconfig")


def _included_on_branch(repository: Repository) -> None:
    (repository.root / ".gitconfig").write_text("[core]\nabbrev = 8\n")
    repository.config("includeIf.onbranch:evil.path", "../.gitconfig")


def _fsmonitor(repository: Repository) -> None:
    repository.program("tools/monitor")
    repository.config("core.fsmonitor", "tools/monitor")


def _filter(repository: Repository) -> None:
    repository.program("tools/clean.sh", "cat")
    repository.config("filter.x.clean", "sh tools/clean.sh %f")


def _diff_driver(repository: Repository) -> None:
    repository.program("tools/show", "cat")
    repository.config("diff.x.textconv", "tools/show")


def _home_hooks(repository: Repository) -> None:
    (repository.home / ".gitconfig").write_text("[core]\nhooksPath = .githooks\n[user]\nname=a\nemail=a@b\n")


def _submodule(repository: Repository) -> None:
    repository.submodule()


def _submodule_monitor(repository: Repository) -> None:
    repository.submodule()
    repository.program("sub/monitor")
    repository.git("config", "core.fsmonitor", "./monitor", at="sub")


def _submodule_worktree_settings(repository: Repository) -> None:
    repository.submodule()
    repository.git("config", "core.repositoryFormatVersion", "1", at="sub")
    repository.git("config", "extensions.worktreeConfig", "true", at="sub")


def _known_nested(repository: Repository) -> None:
    repository.nested("sub")


def _linked_worktree(repository: Repository) -> None:
    _worktree_settings(repository)
    repository.git("worktree", "add", "-q", "sub")


def _below(repository: Repository) -> None:
    (repository.root / "packages").mkdir()


def _hooks_in(folder: str) -> str:
    return f"mkdir -p {folder}; for hook in {' '.join(HOOKS)}; do cp evil {folder}/$hook; done\n"


ATTRIBUTES = "echo '* filter=x diff=x' > .gitattributes; touch kept/a.txt\n"
BARE = (
    "git init -q --bare bare; mv bare/* .; rm -f config; "
    "printf '[core]\\nrepositoryformatversion = 0\\nbare = false\\nworktree = .\\n' > config; trap_in config; "
    "git --git-dir=. --work-tree=. add log.txt\n"
)
VECTORS: dict[str, Vector] = {
    # -- repositories inside the project
    "nested": Vector("nested sub; gitlink sub"),
    "nested deeper": Vector("mkdir -p a/b; nested a/b/sub; gitlink a/b/sub"),
    "nested and ignored": Vector("nested sub; gitlink sub; echo sub > .gitignore"),
    "nested in nested": Vector(
        "git init -q sub; commit_in sub; nested sub/in; cd sub; gitlink in; cd ..; gitlink sub"
    ),
    "hooks of nested": Vector(
        "git init -q sub; commit_in sub; mkdir -p sub/.git/hooks; cp evil sub/.git/hooks/post-index-change; "
        "echo x > sub/f; git -C sub add f; commit_in sub; touch -d 2001-01-01 sub/f; gitlink sub"
    ),
    "included in nested": Vector(
        "git init -q sub; commit_in sub; trap_in inc; git config -f sub/.git/config include.path $PWD/inc; gitlink sub"
    ),
    "filter of nested": Vector(
        "git init -q sub; echo x > sub/f; git -C sub add f; commit_in sub; git -C sub config filter.x.clean $E; "
        "echo '* filter=x' > sub/.gitattributes; echo y > sub/f; gitlink sub"
    ),
    "worktree settings of nested": Vector(
        "git init -q sub; commit_in sub; git -C sub config extensions.worktreeConfig true; "
        "git -C sub config core.repositoryFormatVersion 1; trap_in sub/.git/config.worktree; gitlink sub"
    ),
    "common folder of nested": Vector(
        "nested evilgit; git init -q sub; commit_in sub; cp -r sub/.git/objects evilgit/.git/; "
        "echo $PWD/evilgit/.git > sub/.git/commondir; gitlink sub"
    ),
    "git file": Vector(
        "nested other; gitlink other sub; mkdir sub; mv other/.git data; echo 'gitdir: ../data' > sub/.git"
    ),
    "git file into .git": Vector(
        "nested other; gitlink other sub; mkdir sub; mv other/.git .git/data; echo 'gitdir: ../.git/data' > sub/.git"
    ),
    "git link": Vector(
        "nested other; gitlink other sub; mkdir sub; mv other/.git data; ln -s ../data sub/.git"
    ),
    "link to a repository in .git": Vector(
        "nested .git/other; gitlink .git/other sub; ln -s .git/other sub", works=False
    ),
    "link to a repository in the run's folder": Vector(
        'nested "$HERE/other"; gitlink "$HERE/other" sub; ln -s "$HERE/other" sub',
        works=False,
    ),
    "submodule in .git": Vector("nested .git/other; hidden_link .git/other .git/other"),
    "submodule outside": Vector(
        'nested ~/st/x; hidden_link ~/st/x "../home/st/x"', _state, writable=("~/st",)
    ),
    "submodule with an absolute path": Vector(
        'nested ~/st/x; hidden_link ~/st/x "$HOME/st/x"', _state, writable=("~/st",)
    ),
    "work tree in .git": Vector(
        "plain sub; nested .git/h/x; inside .git/h/x sub x; git -C sub config core.worktree ../../.git/h; gitlink .git/h/x sub"
    ),
    "work tree in a folder with an ignored name": Vector(
        "plain sub; mkdir .git.disabledX; nested .git.disabledX/x; inside .git.disabledX/x sub x; gitlink sub; "
        "git -C sub config core.worktree ../../.git.disabledX"
    ),
    "work tree of the project": Vector(
        "plain sub; gitlink sub; nested .git.disabledX/x; git -C sub config core.worktree ../..; cd sub; "
        "printf '160000 %s 0\\t.git.disabledX/x\\n' $(git rev-parse HEAD) | git update-index --add --index-info"
    ),
    "work tree outside": Vector(
        'plain sub; nested ~/st/x; inside ~/st/x sub x; git -C sub config core.worktree "$HOME/st"; gitlink ~/st/x sub',
        _state,
        writable=("~/st",),
    ),
    "git file with a space": Vector(
        "nested other; gitlink other sub; mkdir sub; mv other/.git '.git/data '; plain b; mv b/.git .git/data; "
        "printf 'gitdir: ../.git/data \\n' > sub/.git"
    ),
    "git file that isn't text": Vector(
        "nested other; gitlink other sub; mkdir sub; D=$(printf '.git/\\377'); mv other/.git \"$D\"; plain b; "
        'mv b/.git "$(printf \'.git/\\357\\277\\275\')"; echo "gitdir: ../$D" > sub/.git'
    ),
    "git file through a link": Vector(
        "mkdir -p .git/h/x; nested other; gitlink other sub; mkdir sub; mv other/.git .git/h/data; plain b; "
        "mv b/.git data; ln -s .git/h/x ln; echo 'gitdir: ../ln/../data' > sub/.git"
    ),
    "common folder through a link": Vector(
        "git worktree add -q sub; gitlink sub; mkdir .git/e; nested .git/e/x; cp -r .git/objects .git/refs .git/e/x/.git/; "
        "mkdir .git/e/x/.git/d; ln -s e/x/.git/d .git/ln; echo ../../ln/.. > .git/worktrees/sub/commondir"
    ),
    "read-only folder": Vector("nested sub; gitlink sub; chmod 555 sub"),
    "unreadable folder": Vector("mkdir a; nested a/sub; gitlink a/sub; chmod 111 a"),
    "worktree": Vector(
        "git worktree add -q sub; trap_in .git/worktrees/sub/config.worktree; gitlink sub", _worktree_settings
    ),
    "worktree with hooks of the project": Vector(
        "git worktree add -q sub; mkdir -p sub/.husky; cp evil sub/.husky/post-index-change; "
        "echo x > sub/f; git -C sub add f; touch -d 2001-01-01 sub/f; gitlink sub",
        _uses(("core.hooksPath", ".husky")),
    ),
    "hooks of the user's settings in nested": Vector(
        "git init -q sub; echo x > sub/f; git -C sub add f; commit_in sub; mkdir sub/.githooks; "
        "cp evil sub/.githooks/post-index-change; touch -d 2001-01-01 sub/f; gitlink sub",
        _home_hooks,
    ),
    # -- repositories that were there
    "settings of a known one": Vector("trap_in sub/.git/config; gitlink sub", _known_nested),
    "a known one replaced": Vector("rm -rf sub; mv sub old; nested sub; gitlink sub", _known_nested),
    "common folder of a known one": Vector(
        "nested evilgit; echo $PWD/evilgit/.git > sub/.git/commondir; gitlink sub", _known_nested
    ),
    "settings of a submodule": Vector("trap_in .git/modules/sub/config", _submodule),
    "git file of a submodule": Vector("nested other; echo 'gitdir: ../other/.git' > sub/.git", _submodule),
    "submodule replaced": Vector("rm -rf sub; mv sub old; nested sub; gitlink sub", _submodule),
    "worktree settings of a submodule": Vector(
        "trap_in .git/modules/sub/config.worktree", _submodule_worktree_settings
    ),
    "common folder of a submodule": Vector(
        "nested evilgit; echo $PWD/evilgit/.git > .git/modules/sub/commondir", _submodule
    ),
    "program of a submodule": Vector("cp evil sub/monitor", _submodule_monitor),
    "settings of a known worktree": Vector(
        "trap_in .git/worktrees/sub/config.worktree; gitlink sub", _linked_worktree
    ),
    # -- the project's own repository
    "settings": Vector("trap_in .git/config"),
    "settings replaced": Vector("cp .git/config c; trap_in c; mv -f c .git/config"),
    "settings of the worktree": Vector("trap_in .git/config.worktree", _worktree_settings),
    "hooks": Vector(_hooks_in(".git/hooks")),
    "missing hooks": Vector(_hooks_in(".git/hooks"), _no_hooks),
    "common folder": Vector(
        "nested evilgit; cp -r .git/objects .git/refs evilgit/.git/; echo $PWD/evilgit/.git > .git/commondir"
    ),
    ".git replaced by a folder": Vector("mv .git old; git init -q .; trap_in .git/config"),
    ".git replaced by a file": Vector(
        "nested other; rm -rf .git; mv .git old; echo 'gitdir: other/.git' > .git"
    ),
    ".git replaced by a link": Vector("nested other; rm -rf .git; mv .git old; ln -s other/.git .git"),
    "bare repository instead of .git": Vector(f"rm -f .git/HEAD\n{BARE}"),
    "attributes with a filter of the settings": Vector(
        f"{ATTRIBUTES}cp evil tools/clean.sh; mv tools t; mkdir tools; cp evil tools/clean.sh", _filter
    ),
    "attributes in .git": Vector(
        "mkdir -p .git/info; echo '* filter=x diff=x' > .git/info/attributes; cp evil tools/show",
        _diff_driver,
    ),
    "sparse checkout": Vector(
        "git sparse-checkout set kept; git config --worktree core.fsmonitor $E; trap_in .git/config.worktree",
        _worktree_settings,
    ),
    "index with a monitor": Vector("git -c core.fsmonitor=$E update-index --fsmonitor", works=False),
    "split index": Vector("git update-index --split-index; nested sub; gitlink sub"),
    "alternates": Vector(
        "nested sub; gitlink sub; echo $PWD/sub/.git/objects > .git/objects/info/alternates"
    ),
    "work tree": Vector(
        "mkdir -p wt/tools wt/kept; cp evil wt/tools/clean.sh; echo x > wt/kept/a.txt; "
        "echo '* filter=x' > wt/.gitattributes; git config core.worktree $PWD/wt",
        _filter,
    ),
    "modules file": Vector(
        "nested sub; gitlink sub; printf '[submodule \"sub\"]\\npath = sub\\nurl = ./sub\\nupdate = !touch ~/canary\\n' > .gitmodules"
    ),
    "project below its repository": Vector(BARE, _below, "packages"),
    # -- files of the project that settings name
    "folder of hooks": Vector(_hooks_in(".husky"), _husky),
    "missing folder of hooks": Vector(_hooks_in(".husky"), _uses(("core.hooksPath", ".husky"))),
    "folder of hooks replaced": Vector(f"mv .husky old\n{_hooks_in('.husky')}", _husky),
    "included settings": Vector("trap_in .gitconfig", _included),
    "missing included settings": Vector("trap_in .gitconfig", _uses(("include.path", "../.gitconfig"))),
    "included settings behind a link": Vector(
        "mkdir d; trap_in d/settings; ln -s ../d tools/inc", _uses(("include.path", "../tools/inc/settings"))
    ),
    "settings included on a branch": Vector(
        "git checkout -q -b evil; trap_in .gitconfig", _included_on_branch
    ),
    "monitor": Vector("cp -f evil tools/monitor; mv tools t; mkdir tools; cp evil tools/monitor", _fsmonitor),
    "missing monitor": Vector("cp evil tools/monitor", _uses(("core.fsmonitor", "tools/monitor"))),
    "missing filter": Vector(
        f"{ATTRIBUTES}cp evil tools/clean",
        _uses(("filter.x.clean", "tools/clean"), ("filter.x.required", "true")),
    ),
    "missing script of a filter": Vector(
        f"{ATTRIBUTES}cp evil tools/clean", _uses(("filter.x.process", "sh tools/clean"))
    ),
    "missing diff driver": Vector(
        f"{ATTRIBUTES}cp evil tools/d", _uses(("diff.x.command", "tools/d --plain"))
    ),
    "missing external diff": Vector("cp evil tools/d", _uses(("diff.external", "tools/d"))),
    "signature program": Vector(
        "cp evil tools/gpg", _uses(("gpg.program", "./tools/gpg"), ("commit.gpgSign", "true"))
    ),
    "hook linked to a script": Vector("cp -f evil scripts/pre-commit", _linked_hook),
    "hook linked to a missing script": Vector("mkdir scripts; cp evil scripts/pre-commit", _dangling_hook),
    "hook of a folder linked to a script": Vector("cp -f evil scripts/pre-commit", _linked_in_folder),
    "hook of the home linked to a script": Vector("cp -f evil scripts/pre-commit", _linked_in_home),
    "folder of hooks by way of the home": Vector(
        _hooks_in(".husky"), _through_home("core.hooksPath", "~/link/.husky")
    ),
    "included settings by way of the home": Vector(
        "trap_in tools/settings", _through_home("include.path", "~/link/tools/settings")
    ),
    "monitor by way of the home": Vector(
        "cp -f evil tools/monitor", _through_home("core.fsmonitor", "~/link/tools/monitor")
    ),
    "folder of hooks by way of a user": Vector(_hooks_in(".husky"), _user_folder),
    "settings of the user in the project": Vector("trap_in dotfiles/gitconfig", _linked_settings),
    "folder of hooks is a link": Vector(
        f"{_hooks_in('scripts')}rm .husky; {_hooks_in('.husky')}", _linked_folder_of_hooks
    ),
    "link to a program replaced": Vector("rm venv/bin/python; cp evil venv/bin/python", _linked_program),
    "folder of links replaced": Vector(
        "mkdir mine; cp evil mine/python; mv venv/bin old; ln -s ../mine venv/bin", _linked_program
    ),
    "monitor behind other programs": Vector(
        "cp -f evil tools/monitor", _monitor_by("A=1 timeout 5 nice tools/monitor")
    ),
    "missing monitor behind other programs": Vector(
        "cp evil tools/monitor", _uses(("core.fsmonitor", "timeout 5 tools/monitor"))
    ),
    "monitor in quotes": Vector(
        "cp -f evil 'to ols/monitor'", _monitor_by('timeout 5 "to ols/monitor"', "to ols/monitor")
    ),
    "script of a wrapped interpreter": Vector(
        "cp -f evil monitor", _monitor_by("timeout 5 sh monitor", "monitor")
    ),
    "editor": Vector("cp evil tools/editor", _uses(("core.editor", "./tools/editor"))),
}


def left(project: Path) -> list[LeftInGit]:
    facts = (event.fact for event in engine(project).events("s"))
    return [item for fact in facts if isinstance(fact, GitLeft) for item in fact.items]


def agent(text: str) -> str:
    """A script, whose commands may fail."""
    return f"(\n{EVIL}\n{text}\n) > log.txt 2>&1\n{WORK}"


def confined(repository: Repository, text: str, at: str = ".", **changes: Any) -> list[LeftInGit]:
    environ = {name: repository.environ[name] for name in ("PATH", "HOME")}
    ended = ran(repository.root / at, script(agent(text), **changes), **environ)
    assert ended.status is RunStatus.COMPLETED, ended
    return left(repository.root / at)


def unconfined(repository: Repository, text: str, at: str) -> None:
    here = repository.root / at / ".claude/pipeline-runs/s/here"
    here.mkdir(parents=True)
    environ = {**repository.environ, "AGENTFORGE_RESULT": str(here / "result.json")}
    subprocess.run(["sh", "-c", agent(text)], cwd=repository.root / at, env=environ, check=True, timeout=60)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    need_bwrap()
    return Repository.made(tmp_path / "used")


@pytest.mark.parametrize("name", one_in(8, VECTORS))
def test_git_executes_what_an_agent_wrote_that_is_not_confined(tmp_path: Path, name: str) -> None:
    vector, control = VECTORS[name], Repository.made(tmp_path)
    vector.prepare(control)
    unconfined(control, vector.agent, vector.at)
    assert control.used(vector.at) == vector.works, (control.root / vector.at / "log.txt").read_text()


@pytest.mark.parametrize("name", one_in(2, VECTORS))
def test_git_executes_nothing_that_a_confined_agent_wrote(repository: Repository, name: str) -> None:
    vector = VECTORS[name]
    vector.prepare(repository)
    sandbox = {"type": "bwrap", "writable": vector.writable}
    confined(repository, vector.agent, vector.at, sandbox=sandbox)
    assert not repository.used(vector.at)


# -- what is said, and what stays


def test_what_is_renamed_is_named_everywhere(repository: Repository, tmp_path: Path) -> None:
    approve = {"approve": True}
    environ = {name: repository.environ[name] for name in ("PATH", "HOME")}
    ended = ran(repository.root, script(agent("nested sub; gitlink sub"), **approve), **environ)
    assert ended.status is RunStatus.AWAITING_APPROVAL
    assert left(repository.root) == [
        LeftInGit("sub/.git", "repository", "it sets core.fsmonitor", "sub/.git.disabled"),
        LeftInGit("sub", "submodule"),
    ]
    assert (repository.root / "sub/.git.disabled/config").exists()
    said = "sub/.git, a new repository: it sets core.fsmonitor; renamed to sub/.git.disabled"
    (request,) = engine(repository.root).status("s").state.open_requests
    assert said in request.question
    (tmp_path / "shown").mkdir()
    shown = Project(tmp_path / "shown")
    shown.root = repository.root
    accept = "mv sub/.git.disabled sub/.git"
    for command in (("show", "s", "plan"), ("inbox", "show", "s")):
        printed = " ".join(shown.call(*command).out.split())
        assert said in printed, printed
        assert accept in printed


def test_what_a_hook_of_the_run_left_is_named_by_show(repository: Repository, tmp_path: Path) -> None:
    """It belongs to no iteration."""
    text = agent("nested sub; gitlink sub").removesuffix(WORK)
    hooks = {"session_start": [{"action": "script", "script": text}]}
    environ = {**ENVIRON, "HOME": repository.environ["HOME"]}
    definition = pipeline(script(WORK), hooks=hooks)
    ended = run(engine(repository.root, environ=environ).run(definition, session="s"))
    assert ended.status is RunStatus.COMPLETED, ended
    (tmp_path / "shown").mkdir()
    shown = Project(tmp_path / "shown")
    shown.root = repository.root
    printed = " ".join(shown.call("show", "s").out.split())
    assert "For git: 2 items left sub/.git, a new repository: it sets core.fsmonitor; renamed to" in printed
    assert "mv sub/.git.disabled sub/.git" in printed
    read = json.loads(shown.call("show", "s", "--json").out)
    assert [item["moved_to"] for item in read["git_left"]] == ["sub/.git.disabled", ""]


def test_repositories_that_start_nothing_stay(repository: Repository) -> None:
    other = repository.home / "other"
    repository.git("init", "-q", str(other))
    repository.git("commit", "-q", "--allow-empty", "-m", "x", at=str(other))
    made = "git init -q made; commit_in made; git clone -q made cloned; git init -q --bare bare; git worktree add -q tree\n"
    found = confined(repository, made)
    assert sorted((item.path, item.moved_to) for item in found) == [
        *(("bare", ""), ("cloned/.git", ""), ("made/.git", ""), ("tree/.git", "")),
    ]
    assert "nothing to commit" in repository.git("status", at="cloned")


def test_what_the_user_has_stays(repository: Repository) -> None:
    """Also settings that start programs, and what the agent commits inside."""
    repository.submodule()
    repository.nested("known")
    repository.program("tools/monitor", "exit 1")
    for at in ("sub", "known"):
        repository.git("config", "core.fsmonitor", str(repository.root / "tools/monitor"), at=at)
    assert (
        confined(repository, "for at in sub known; do echo x > $at/f; git -C $at add f; commit_in $at; done")
        == []
    )
    assert "f" in repository.git("ls-files", at="known")
    assert "f" in repository.git("ls-files", at="sub")


def test_a_repository_that_the_stage_names_may_be_changed(repository: Repository) -> None:
    repository.nested("sub")
    sandbox = {"type": "bwrap", "writable": ["sub/.git", "new/.git"]}
    assert confined(repository, "trap_in sub/.git/config; nested new", sandbox=sandbox) == []
    assert "fsmonitor" in (repository.root / "sub/.git/config").read_text()


def test_an_index_that_git_cannot_list_is_renamed(repository: Repository) -> None:
    """It could name submodules."""
    (item,) = confined(repository, "echo x > .git/index")
    assert item == LeftInGit(
        ".git/index", "settings", "git can't list the submodules in it", ".git/index.disabled"
    )
    repository.git("reset", "-q")
    assert repository.git("ls-files").split() == ["kept/a.txt"]
    (repository.root / ".git/index").write_text("x")
    with pytest.raises(ProviderUnusable, match="can't list its index"):
        GitGuard(str(repository.root), repository.environ).protect(AttemptLayout("/nowhere"), ())


def test_a_submodule_with_its_own_folder_as_work_tree_stays(repository: Repository) -> None:
    other = repository.home / "other"
    repository.git("init", "-q", str(other))
    repository.git("commit", "-q", "--allow-empty", "-m", "x", at=str(other))
    made = (
        "plain top; cd top; git -c protocol.file.allow=always submodule add -q ~/other in; "
        "git config --file .git/modules/in/config --get core.worktree"
    )
    found = confined(repository, made, sandbox={"type": "bwrap", "writable": ["~/other"]})
    assert (repository.root / "log.txt").read_text() == "../../../in\n"
    assert {(item.path, item.moved_to) for item in found if item.kind == "repository"} == {
        *(("top/.git", ""), ("top/in/.git", "")),
    }


def test_programs_of_a_virtual_environment_stay(repository: Repository) -> None:
    """A setting names a link in the project to a program outside of it."""
    _linked_program(repository)
    assert confined(repository, "touch venv/bin/other") == []
    assert (repository.root / "venv/bin/other").exists()


def test_a_folder_of_hooks_that_is_the_project_is_refused(repository: Repository) -> None:
    repository.config("core.hooksPath", ".")
    ended = ran(repository.root, script(WORK), HOME=repository.environ["HOME"])
    assert ended.status is RunStatus.FAILED
    assert ended.error is not None
    assert "they are in the project's own folder" in ended.error


def test_settings_of_a_repository_of_another_user_count(repository: Repository) -> None:
    """Git ignores them for this user, but not for its owner."""
    if os.getuid() != 0:
        pytest.skip("privileges: only root can give a repository to another user")
    _husky(repository)
    for path in (repository.root, repository.root / ".git"):
        os.chown(path, 12345, 12345)
    assert "dubious ownership" in repository.git("status")
    named = named_files(str(repository.root), str(repository.root), repository.environ)
    assert named.folders == (str(repository.root / ".husky"),)


@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [
        ("HOME", ".", ".gitconfig"),
        ("XDG_CONFIG_HOME", "tools", "tools/git/config"),
        ("GIT_CONFIG_GLOBAL", "tools/settings", "tools/settings"),
    ],
)
def test_settings_of_the_user_in_the_project_count(
    repository: Repository, variable: str, value: str, name: str
) -> None:
    root = str(repository.root)
    environ = {**repository.environ, variable: os.path.normpath(os.path.join(root, value))}
    assert f"{root}/{name}" in named_files(root, root, environ).missing
    (repository.root / name).parent.mkdir(exist_ok=True)
    (repository.root / name).touch()
    assert f"{root}/{name}" in named_files(root, root, environ).files


def test_a_project_with_too_many_files_is_refused(repository: Repository, tmp_path: Path) -> None:
    place, facts = AttemptLayout(str(tmp_path / "attempt-1")), []
    Path(place.root).mkdir()
    guard = GitGuard(str(repository.root), repository.environ, max_entries=100)
    guard.protect(place, ())
    for number in range(100):
        (repository.root / f"kept/{number}").touch()
    with pytest.raises(StorageFailed, match="more than 100 files"):
        guard.settle(guard.found(place, ()), facts.append)
    with pytest.raises(ProviderUnusable, match="more than 100 files"):
        guard.protect(place, ())


# -- engines that die


def test_the_engine_that_reattaches_renames_it(repository: Repository, tmp_path: Path) -> None:
    repository.nested("known")
    repository.git("config", "alias.x", "!true", at="known")
    (tmp_path / "mine").mkdir()
    mine = Project(tmp_path / "mine")
    mine.root = repository.root
    hold = "nested sub; gitlink sub; touch up; while [ ! -e go ]; do sleep 0.02; done"
    definition = pipeline(script(agent(hold)))
    (repository.root / "p.json").write_text(json.dumps(definition))
    with mine.started("run", "-p", "p.json", "-s", "s") as first:
        wait_for((repository.root / "up").exists, "the agent")
        first.signal(SIGKILL)
        first.end()
    (repository.root / "go").touch()
    done = mine.call("recover")
    assert done.code == 0, done.err
    wait_for(lambda: mine.types("s")[-1] == "session_complete", "the end of the run")
    assert mine.types("s").count("git_left") == 1
    assert (repository.root / "known/.git/config").exists()
    assert (repository.root / "sub/.git.disabled").exists()
    assert not repository.used(".")


class Killed(Exception):
    """Instead of the end of the engine."""


@pytest.mark.parametrize("renamed", [0, 1])
def test_what_was_recorded_and_not_renamed_is_found_again(
    repository: Repository, tmp_path: Path, renamed: int
) -> None:
    place, facts = AttemptLayout(str(tmp_path / "attempt-1")), []
    Path(place.root).mkdir()
    guard = GitGuard(str(repository.root), repository.environ)
    guard.protect(place, ())
    for name in ("one", "two"):
        repository.nested(name)
        repository.git("config", "core.fsmonitor", "./x", at=name)

    def killed(fact: GitLeft) -> None:
        facts.append(fact)
        raise Killed

    with pytest.raises(Killed):
        guard.settle(guard.found(place, ()), killed)
    for name in ("one", "two")[:renamed]:
        (repository.root / name / ".git").rename(repository.root / name / ".git.disabled")
    found = guard.found(place, ())
    assert len(found.items) == 2 - renamed
    guard.settle(found, facts.append)
    assert guard.found(place, ()) == Found()
    assert set(facts[1].items) <= set(facts[0].items)
    assert all((repository.root / name / ".git.disabled").is_dir() for name in ("one", "two"))
