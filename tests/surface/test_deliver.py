"""Runs that deliver what they changed, by the real program in real repositories."""

import subprocess
from pathlib import Path

import pytest
from tests.surface.terminal import WRITE_RESULT, Done, Project


class Repository:
    def __init__(self, project: Project) -> None:
        self.project = project
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.name", "Ada")
        self.git("config", "user.email", "ada@localhost")
        self.write("a.txt", "one\n")
        self.write("b.txt", "two\n")
        self.write(".gitignore", ".claude/\n.agentforge/\n")
        self.git("add", ".")
        self.git("commit", "-qm", "first")

    def git(self, *words: str) -> str:
        command = ["git", "-C", str(self.project.root), *words]
        return subprocess.run(
            command, env=self.project.env, check=True, capture_output=True, text=True
        ).stdout.strip()

    def write(self, name: str, text: str) -> None:
        (self.project.root / name).write_text(text)

    def run(self, stages: str, *options: str, session: str = "one") -> Done:
        file = self.project.pipeline(stages) if "=" in stages else stages
        return self.project.call("run", "-p", file, "-s", session, *options)


@pytest.fixture
def repository(project: Project) -> Repository:
    return Repository(project)


WORK = f"work=echo changed > a.txt; {WRITE_RESULT}"


def test_an_option_commits_what_any_pipeline_changed(repository: Repository) -> None:
    repository.write("b.txt", "mine\n")
    done = repository.run(WORK, "--delivery-mode", "commit")
    assert done.code == 0, done.err
    head = repository.git("rev-parse", "HEAD")
    assert f"  Commit: {head}" in done.out
    assert repository.git("show", "--name-only", "--format=%an", "HEAD").split() == ["Ada", "a.txt"]
    assert repository.git("diff", "--name-only") == "b.txt"
    status = repository.project.call("status", "one", "--json").json
    assert status["delivered"]["commit"] == head
    assert f"committed 1 path as {head[:12]} on main" in repository.project.call("status", "one").out


def test_without_the_option_nothing_is_committed(repository: Repository) -> None:
    done = repository.run(WORK, "--delivery-mode", "files")
    assert done.code == 0, done.err
    assert repository.git("rev-list", "--count", "HEAD") == "1"
    assert repository.run(WORK, session="two").code == 0
    assert repository.git("rev-list", "--count", "HEAD") == "1"


def test_a_setting_of_the_user_delivers_a_patch(repository: Repository) -> None:
    folder = repository.project.home / ".config/agentforge"
    folder.mkdir(parents=True)
    (folder / "settings.yaml").write_text("delivery: patch\n")
    done = repository.run(WORK)
    assert "  Patch: .agentforge/patches/one.patch" in done.out
    repository.git("stash")
    repository.git("apply", "--check", ".agentforge/patches/one.patch")


def test_a_projects_settings_open_no_pull_requests(repository: Repository) -> None:
    folder = repository.project.root / ".agentforge/config"
    folder.mkdir(parents=True)
    (folder / "settings.yaml").write_text("delivery: pr\n")
    assert repository.run(WORK).code == 0
    assert repository.git("branch", "--format=%(refname:short)") == "main"


@pytest.mark.parametrize("how", ["no repository", "bare", "merge"])
def test_what_can_not_be_delivered_is_refused_before_the_first_agent(project: Project, how: str) -> None:
    if how != "no repository":
        repository = Repository(project)
        if how == "bare":
            repository.git("config", "core.bare", "true")
        else:
            (project.root / ".git/MERGE_HEAD").write_text(repository.git("rev-parse", "HEAD"))
    done = project.call("run", "-p", project.pipeline(WORK), "-s", "one", "--delivery-mode", "commit")
    assert done.code == 2
    assert "--delivery-mode files" in done.err
    assert not (project.root / ".claude/pipeline-runs/one").exists()
    assert not (project.root / "a.txt").exists() or (project.root / "a.txt").read_text() == "one\n"


def test_edits_of_the_user_are_committed_after_a_person_accepted_them(repository: Repository) -> None:
    repository.write("a.txt", "mine\n")
    done = repository.run(WORK, "--delivery-mode", "commit")
    assert done.code == 22
    assert "a.txt" in done.out
    assert repository.git("rev-list", "--count", "HEAD") == "1"
    answered = repository.project.call("answer", "one", "accept", "--reason", "they belong together")
    assert answered.code == 0, answered.err
    assert repository.git("rev-list", "--count", "HEAD") == "2"


def test_a_commit_of_the_agent_itself_is_named(repository: Repository) -> None:
    done = repository.run(
        f"work=echo changed > a.txt; git commit -qam sneaky; echo more > b.txt; {WRITE_RESULT}",
        "--delivery-mode",
        "commit",
    )
    assert done.code == 22
    answered = repository.project.call("answer", "one", "retry")
    assert answered.code == 0, answered.err
    assert repository.git("show", "--name-only", "--format=", "HEAD") == "b.txt"


def test_an_unknown_mode_is_refused(repository: Repository) -> None:
    done = repository.run(WORK, "--delivery-mode", "comit")
    assert done.code == 2
    assert "did you mean `commit`?" in done.err


def test_a_dry_run_says_what_will_be_delivered(repository: Repository) -> None:
    file = repository.project.pipeline(WORK)
    done = repository.project.call("dry-run", "pipeline", file, "one")
    assert "Delivers" not in done.out
    path = repository.project.root / "ship.yaml"
    path.write_text((repository.project.root / file).read_text() + "  - {id: ship, deliver: pr}\n")
    done = repository.project.call("dry-run", "pipeline", "ship.yaml", "one")
    assert "- Delivers: a pull request from a branch feature/ID" in done.out, done.err


GH = """#!/bin/sh
case "$2" in
list) [ -e "$GH_STATE/pr" ] && printf '[{"url":"https://example.com/pull/1"}]' || printf '[]' ;;
create) cat > "$GH_STATE/body"; printf '%s\\n' "$@" > "$GH_STATE/pr"; echo https://example.com/pull/1 ;;
esac
"""


def scripted_gh(project: Project, root: Path) -> None:
    folder, state = root / "bin", root / "gh"
    for one in (folder, state):
        one.mkdir()
    (folder / "gh").write_text(GH)
    (folder / "gh").chmod(0o755)
    project.env |= {"PATH": f"{folder}:{project.env['PATH']}", "GH_STATE": str(state)}


def test_a_pull_request(repository: Repository, tmp_path: Path) -> None:
    project, remote = repository.project, tmp_path / "remote.git"
    repository.git("init", "-q", "--bare", str(remote))
    repository.git("remote", "add", "origin", str(remote))
    scripted_gh(project, tmp_path)
    repository.write("b.txt", "mine\n")
    before = repository.git("status", "--porcelain", "-uno")
    done = repository.run(WORK, "--delivery-mode", "pr")
    assert done.code == 0, done.err + done.out
    assert "  PR: https://example.com/pull/1" in done.out
    branch = repository.git("rev-parse", "feature/one")
    assert repository.git("--git-dir", str(remote), "rev-parse", "feature/one") == branch
    assert repository.git("rev-list", "--count", "main..feature/one") == "1"
    assert repository.git("branch", "--show-current") == "main"
    assert repository.git("status", "--porcelain", "-uno") == f"M a.txt\n {before}"
    words = (tmp_path / "gh/pr").read_text().split("\n")
    assert words[words.index("--head") + 1] == "feature/one"
    assert words[words.index("--base") + 1] == "main"
    assert "Files modified: 1" in (tmp_path / "gh/body").read_text()


def test_a_pull_request_without_a_remote_or_gh_fails_clearly_and_is_resumed(
    repository: Repository, tmp_path: Path
) -> None:
    done = repository.run(WORK, "--delivery-mode", "pr")
    assert done.code == 1
    assert "git remote add origin" in done.out + done.err
    branch = repository.git("rev-parse", "feature/one")
    remote = tmp_path / "remote.git"
    repository.git("init", "-q", "--bare", str(remote))
    repository.git("remote", "add", "origin", str(remote))
    failed = repository.project.call("resume", "one", env={"PATH": "/usr/bin:/bin"})
    assert failed.code == 1, failed.out
    assert "gh auth login" in failed.out + failed.err
    scripted_gh(repository.project, tmp_path)
    assert repository.project.call("resume", "one").code == 0
    assert repository.git("rev-parse", "feature/one") == branch
    assert repository.git("--git-dir", str(remote), "rev-parse", "feature/one") == branch


def test_what_an_agent_writes_to_the_repositorys_settings_has_no_effect_on_a_push(
    repository: Repository, tmp_path: Path
) -> None:
    project, remote = repository.project, tmp_path / "remote.git"
    repository.git("init", "-q", "--bare", str(remote))
    repository.git("remote", "add", "origin", str(remote))
    scripted_gh(project, tmp_path)
    trap = tmp_path / "trap.sh"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/canary\n")
    trap.chmod(0o755)
    evil = (
        f"git config credential.helper {trap}; git config core.sshCommand {trap};"
        f" git config remote.origin.receivepack {trap}; git config core.gitProxy {trap};"
        f" git config core.hooksPath {tmp_path}; ln -s {trap} {tmp_path}/pre-push;"
        f" ln -s {trap} {tmp_path}/pre-commit; ln -s {trap} {tmp_path}/reference-transaction;"
    )
    done = repository.run(f"work={evil} echo changed > a.txt; {WRITE_RESULT}", "--delivery-mode", "pr")
    assert done.code == 0, done.err + done.out
    assert not (tmp_path / "canary").exists()


def test_a_remote_that_an_agent_changed_is_not_pushed_to(repository: Repository, tmp_path: Path) -> None:
    scripted_gh(repository.project, tmp_path)
    for name in ("remote.git", "evil.git"):
        repository.git("init", "-q", "--bare", str(tmp_path / name))
    repository.git("remote", "add", "origin", str(tmp_path / "remote.git"))
    change = f"git remote set-url origin {tmp_path}/evil.git; echo changed > a.txt; {WRITE_RESULT}"
    done = repository.run(f"work={change}", "--delivery-mode", "pr")
    assert done.code == 22
    assert "another address" in done.out
    assert repository.git("--git-dir", str(tmp_path / "evil.git"), "for-each-ref") == ""
