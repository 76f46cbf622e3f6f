"""Real SIGKILL around each call of git and gh in a delivery. The oracle is git itself and what gh was asked:
one commit of the run, one branch, one pull request, and the user's files as they were."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.sampling import one_in
from tests.surface.terminal import WRITE_RESULT, Project

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(sys.platform != "linux", reason="platform: needs /proc"),
]

GIT = shutil.which("git") or "git"
PROGRAM = """#!/bin/sh
# Kills the engine that called it, once, at the call that the test names.
name=$(basename "$0"); what=
for word; do case "$word" in check-attr|ls-tree|ls-files|update-ref|update-index|push|ls-remote|list|create)
    [ -n "$what" ] || what=$word;; esac; done
do_it() {
    if [ "$name" = git ]; then "$REAL_GIT" "$@"; return; fi
    case "$what" in
    list) [ -e "$STATE/pr" ] && printf '[{"url":"https://example.com/1"}]' || printf '[]';;
    create) cat > /dev/null; echo "$*" >> "$STATE/pr"; echo https://example.com/1;;
    esac
}
if [ "$name $what" = "$KILL_WHAT" ] && mkdir "$STATE/killed" 2> /dev/null; then
    case "$KILL_WHEN" in
    before) kill -9 $PPID; exit 1;;
    during) kill -9 $PPID; sleep "$KILL_DELAY"; do_it "$@"; exit;;
    after) do_it "$@"; kill -9 $PPID; exit;;
    esac
fi
do_it "$@"
"""
AGENT = f"echo changed > a.txt; printf x > 'new file'; chmod +x 'new file'; {WRITE_RESULT}"


class Place:
    def __init__(self, root: Path) -> None:
        self.project = Project(root)
        self.root, self.state = self.project.root, root / "state"
        folder = root / "bin"
        for one in (folder, self.state):
            one.mkdir()
        for name in ("git", "gh"):
            (folder / name).write_text(PROGRAM)
            (folder / name).chmod(0o755)
        self.remote = root / "remote.git"
        self.git("init", "-q", "-b", "main")
        self.git("init", "-q", "--bare", str(self.remote))
        self.git("remote", "add", "origin", str(self.remote))
        for key in ("name", "email"):
            self.git("config", f"user.{key}", "ada@localhost")
        for name in ("a.txt", "b.txt", "c.txt"):
            (self.root / name).write_text(f"{name}\n")
        (self.root / ".gitignore").write_text(".claude/\n.agentforge/\np.yaml\n")
        self.git("add", ".")
        self.git("commit", "-qm", "first")
        # The user's own: staged, changed again, and untracked.
        (self.root / "b.txt").write_text("staged\n")
        self.git("add", "b.txt")
        (self.root / "b.txt").write_text("changed\n")
        (self.root / "mine.txt").write_text("untracked\n")
        self.search = f"{folder}:{self.project.env['PATH']}"

    def git(self, *words: str) -> str:
        command = [GIT, "-C", str(self.root), *words]
        done = subprocess.run(command, env=self.project.env, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def deliver(self, mode: str, what: str, when: str, delay: float = 0.3) -> None:
        """`delay`: how long the program runs after its engine was killed, before it does something."""
        env = {
            "PATH": self.search,
            "STATE": str(self.state),
            "REAL_GIT": GIT,
            "KILL_WHAT": what,
            "KILL_WHEN": when,
            "KILL_DELAY": str(delay),
        }
        program = (sys.executable, "-m", "agentforge")
        file = self.project.pipeline(f"work={AGENT}")
        words = ("run", "-p", file, "-s", "night", "--delivery-mode", mode)
        first = self.project.call_program(*program, *words, env=env)
        assert (self.state / "killed").exists(), first.err + first.out
        assert first.code == -9, first.err + first.out
        second = self.project.call_program(*program, "resume", "night", env=env)
        assert second.code == 0, second.err + second.out

    def commits(self) -> list[str]:
        return self.git("log", "--all", "--format=%H", "--grep=^AgentForge-Run: ").split()

    def refute_losses(self) -> None:
        assert (self.root / "b.txt").read_text() == "changed\n"
        assert self.git("show", ":b.txt") == "staged"
        assert (self.root / "mine.txt").read_text() == "untracked\n"
        assert (self.root / "a.txt").read_text() == "changed\n"
        self.git("fsck", "--strict")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


MOMENTS = ("before", "during", "after")
LOCAL = [
    f"git {what}: {when}"
    for what in ("update-ref", "update-index", "check-attr", "ls-tree")
    for when in MOMENTS
]
REMOTE = [
    f"{what}: {when}" for what in ("gh create", "git push", "gh list", "git ls-remote") for when in MOMENTS
]


@pytest.mark.parametrize("moment", one_in(4, LOCAL))
def test_a_commit_is_made_once(moment: str, place: Place) -> None:
    place.deliver("commit", *moment.split(": "))
    assert place.commits() == [place.git("rev-parse", "HEAD")]
    changed = place.git("show", "--format=", "--name-only", "HEAD").split("\n")
    assert changed == ["a.txt", "new file"]
    assert place.git("status", "--porcelain").split("\n") == ["MM b.txt", "?? mine.txt"]
    place.refute_losses()


@pytest.mark.parametrize("when", one_in(3, MOMENTS))
def test_a_patch_is_written_once(when: str, place: Place, tmp_path: Path) -> None:
    place.deliver("patch", "git ls-tree", when)
    place.git("clone", "-q", str(place.root), str(tmp_path / "clone"))
    patch = place.root / ".agentforge/patches/night.patch"
    subprocess.run([GIT, "apply", "--check", str(patch)], cwd=tmp_path / "clone", check=True)
    assert place.commits() == []
    place.refute_losses()


def test_a_program_that_outlives_its_engine_does_not_act_beside_the_next_one(place: Place) -> None:
    place.deliver("pr", "gh create", "during", delay=30.0)
    assert len((place.state / "pr").read_text().splitlines()) == 1


@pytest.mark.parametrize("moment", one_in(4, REMOTE))
def test_a_branch_is_pushed_and_a_pull_request_opened_once(moment: str, place: Place) -> None:
    place.deliver("pr", *moment.split(": "))
    assert place.commits() == [place.git("rev-parse", "feature/night")]
    assert place.git("for-each-ref", "--format=%(refname)", "refs/heads").split() == [
        "refs/heads/feature/night",
        "refs/heads/main",
    ]
    pushed = place.git("--git-dir", str(place.remote), "for-each-ref", "--format=%(refname) %(objectname)")
    assert pushed == f"refs/heads/feature/night {place.commits()[0]}"
    assert len((place.state / "pr").read_text().splitlines()) == 1
    place.refute_losses()
