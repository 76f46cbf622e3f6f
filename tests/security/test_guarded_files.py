"""A confined agent can't change the files that decide what is executed later."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.sdk.projects import engine, run
from tests.security.confined import TRY, WORK, attempts, could, need_bwrap, project_in, ran, script

import agentforge
from agentforge.model.status import RunStatus


@pytest.fixture(params=["/srv", ""], ids=["srv", "tmp"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    need_bwrap()
    if request.param:
        yield from project_in(request.param)
    else:
        (tmp_path / "project").mkdir()
        yield tmp_path / "project"


def git(folder: Path, *words: str) -> str:
    settings = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *settings, *words], cwd=folder, env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout


CONTROL = (".agentforge", ".claude/stages", ".claude/pipelines", ".claude/locks")


def changes(path: str) -> tuple[str, ...]:
    return (
        f"mkdir -p {path} && echo x > {path}/new",
        f"echo x >> {path}/old",
        f"rm {path}/old",
        f"mv {path} moved",
        f"rm -r {path}",
        f"mv $(dirname {path}) moved",
        f"ln -s /etc {path}/link",
    )


@pytest.mark.parametrize("folder", CONTROL)
def test_definitions_can_not_be_changed(project: Path, folder: str) -> None:
    (project / folder).mkdir(parents=True)
    (project / folder / "old").write_text("old\n")
    ended = ran(project, script(attempts(*changes(folder))))
    assert ended.status is RunStatus.COMPLETED
    # The parent of `.agentforge` is the project itself.
    assert [line for line in could(project) if "dirname .agentforge" not in line] == []
    assert (project / folder / "old").read_text() == "old\n"


@pytest.mark.parametrize("folder", [*CONTROL, ".git/hooks"])
def test_missing_definitions_can_not_be_created(project: Path, folder: str) -> None:
    ran(project, script(attempts(f"mkdir -p {folder} && echo x > {folder}/new", f"ln -s /etc {folder}/link")))
    assert could(project) == []
    assert not (project / folder / "new").exists()


def test_definitions_can_be_read(project: Path) -> None:
    (project / ".claude/stages/work").mkdir(parents=True)
    (project / ".claude/stages/work/prompt.md").write_text("work\n")
    ran(project, script("cat .claude/stages/work/prompt.md > seen\n" + WORK))
    assert (project / "seen").read_text() == "work\n"


def test_the_files_that_the_plan_was_compiled_from_can_not_be_changed(project: Path) -> None:
    (project / "flows/stages/work").mkdir(parents=True)
    (project / "flows/stages/work/prompt.md").write_text("as it was\n")
    text = attempts("echo x >> flows/stages/work/prompt.md", "echo x >> flows/main.yaml", "mv flows moved")
    lines = "".join(f"        {line}\n" for line in text.splitlines())
    (project / "flows/main.yaml").write_text(
        f"nodes:\n  - stage: work\n    id: work\n    delay: 0\n    runs: 1\n    sandbox: bwrap\n"
        f"    provider:\n      type: command\n      run: |\n{lines}"
    )
    ended = run(engine(project).run("flows/main.yaml", session="s"))
    assert ended.status is RunStatus.COMPLETED, ended
    assert could(project) == []
    assert (project / "flows/stages/work/prompt.md").read_text() == "as it was\n"


# -- git


def git_attempts(place: str) -> tuple[str, ...]:
    return (
        f"mkdir -p {place}/hooks; echo x > {place}/hooks/pre-commit",
        f"echo x >> {place}/config",
        f"rm {place}/config",
        f"mv {place}/hooks {place}/gone",
        f"git config --file {place}/config core.fsmonitor ./x",
    )


def test_hooks_and_settings_of_git_can_not_be_changed_but_commits_can_be_made(project: Path) -> None:
    git(project, "init", "-q")
    before = (project / ".git/config").read_text()
    commit = "echo new > new; git add new; git -c user.name=a -c user.email=a@b commit -qm new\n"
    ended = ran(project, script(commit + attempts("mv .git gone", *git_attempts(".git"))))
    assert ended.status is RunStatus.COMPLETED
    assert could(project) == []
    assert (project / ".git/config").read_text() == before
    assert not (project / ".git/hooks/pre-commit").exists()
    assert git(project, "log", "--format=%s") == "new\n"


def test_git_is_not_redirected_to_another_folder(project: Path) -> None:
    git(project, "init", "-q")
    evil = "mkdir evil; cp -r .git/. evil; git config -f evil/config core.fsmonitor 'touch ran; false'; "
    ran(project, script(evil + 'echo "$PWD/evil" > .git/commondir\n' + WORK))
    git(project, "status")
    assert not (project / "ran").exists()


def test_the_repository_of_a_submodule_is_protected(project: Path) -> None:
    other, top = project / "other", project / "top"
    for folder in (other, top):
        folder.mkdir()
        git(folder, "init", "-q")
        git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    git(top, "submodule", "add", "-q", str(other), "libs/sub")
    ran(top, script(attempts(*git_attempts(".git/modules/libs/sub"))))
    assert could(top) == []


@pytest.mark.parametrize("kind", ["worktree", "submodule"])
def test_a_git_file_can_not_be_redirected(project: Path, kind: str) -> None:
    other, top = project / "other", project / "top"
    for folder in (other, top):
        folder.mkdir()
        git(folder, "init", "-q")
        git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    if kind == "worktree":
        git(top, "worktree", "add", "-q", str(project / "tree"))
        here, place = project / "tree", "../top/.git"
    else:
        git(top, "submodule", "add", "-q", str(other), "sub")
        here, place = top / "sub", "../.git/modules/sub"
    actions = ("echo gitdir: /x > .git", "rm .git", "mv .git gone", *git_attempts(place))
    sandbox = {"type": "bwrap", "writable": [place]}
    commit = "echo new > new; git add new; git -c user.name=a -c user.email=a@b commit -qm new\n"
    ended = ran(here, script(commit + attempts(*actions), sandbox=sandbox))
    assert ended.status is RunStatus.COMPLETED
    assert could(here) == []
    assert git(here, "log", "--format=%s", "-1") == "new\n"


def test_a_project_below_its_repository_keeps_it(project: Path) -> None:
    git(project, "init", "-q")
    (project / "packages/one").mkdir(parents=True)
    ran(project / "packages/one", script(WORK))
    assert git(project / "packages/one", "rev-parse", "--show-toplevel").strip() == str(project)


def test_a_stage_can_name_what_its_agents_may_change(project: Path) -> None:
    sandbox = {"type": "bwrap", "writable": [".git", ".claude/stages"]}
    (project / ".claude/stages").mkdir(parents=True)
    ended = ran(project, script("git init -q && echo x > .claude/stages/new\n" + WORK, sandbox=sandbox))
    assert ended.status is RunStatus.COMPLETED
    assert (project / ".git/HEAD").exists()
    assert (project / ".claude/stages/new").exists()


def test_a_link_that_can_not_be_protected_is_refused(project: Path) -> None:
    (project / "shared").mkdir()
    (project / ".agentforge").symlink_to("shared")
    ended = ran(project, script(WORK))
    assert ended.status is RunStatus.FAILED
    assert ".agentforge" in str(ended.error)


# -- programs


def test_programs_on_the_path_in_the_project_can_not_be_changed(project: Path) -> None:
    tools = project / "tools/venv/bin"
    tools.mkdir(parents=True)
    (project / "tools/venv/pyvenv.cfg").write_text("")
    (tools / "tool").write_text("#!/bin/sh\necho ran > ran\n")
    (tools / "tool").chmod(0o755)
    actions = (
        "echo x >> tools/venv/bin/tool",
        "echo x > tools/venv/bin/claude",
        "echo x > tools/venv/pyvenv.cfg",
        "mv tools moved",
        "mkdir -p later/bin; echo x > later/bin/claude",
    )
    path = f"{tools}:{project / 'later/bin'}:/usr/bin:/bin"
    ended = ran(project, script(f"tool\n{attempts(*actions)}"), PATH=path)
    assert ended.status is RunStatus.COMPLETED
    assert could(project) == []
    assert (project / "ran").exists()


def test_an_engine_installed_in_the_project_can_not_be_changed(project: Path) -> None:
    """As `python -m venv .venv && pip install agentforge` leaves it, with the code itself in the project."""
    source = Path(agentforge.__file__).parent
    site = project / ".venv/lib/site-packages"
    site.mkdir(parents=True)
    subprocess.run(["cp", "-r", str(source), str(site / "agentforge")], check=True)
    (project / ".venv/bin").mkdir()
    (project / ".venv/pyvenv.cfg").write_text("")
    actions = (
        "echo x >> .venv/lib/site-packages/agentforge/runtime/supervisor.py",
        "echo x > .venv/lib/site-packages/sitecustomize.py",
        "mv .venv moved",
    )
    text = TRY + "".join(f"try '{action}'\n" for action in actions) + WORK
    lines = "".join(f"        {line}\n" for line in text.splitlines())
    (project / "p.yaml").write_text(
        "nodes:\n  - id: a\n    prompt: none\n    delay: 0\n    sandbox: {type: bwrap, network: off}\n"
        f"    provider:\n      type: command\n      run: |\n{lines}"
    )
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); from agentforge.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, str(site), "run", "-p", "p.yaml", "-s", "s"],
        cwd=project,
        env={"PATH": "/usr/bin:/bin", "HOME": str(project), "VIRTUAL_ENV": str(project / ".venv")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert could(project) == []
