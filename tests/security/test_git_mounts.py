"""A mount doesn't protect what git obeys if other processes replace it, or if it has a second name: what
confined agents do together, and what a person does meanwhile."""

import asyncio
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.projects import ENVIRON, engine, pipeline, run
from tests.security.confined import need_bwrap, ran, script
from tests.security.test_git_promise import Repository, agent

from agentforge.model.changes import LeftInGit
from agentforge.model.facts import GitLeft
from agentforge.system.git_settings import settings_in, settings_text
from agentforge.system.git_triggers import added, file_triggers, hook_triggers, settings_triggers

WAIT = "await() { n=0; while [ ! -e $1 ] && [ $n -lt 900 ]; do n=$((n + 1)); sleep 0.05; done; }\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    need_bwrap()
    return Repository.made(tmp_path / "used")


def left(repository: Repository, session: str) -> list[LeftInGit]:
    facts = (event.fact for event in engine(repository.root).events(session))
    return [item for fact in facts if isinstance(fact, GitLeft) for item in fact.items]


def together(repository: Repository, first: str, second: str) -> None:
    """Two runs at the same time. The second one starts when there is a file `up`; when the first one is over,
    there is a file `over`."""

    async def main() -> None:
        environ = {**ENVIRON, "HOME": repository.environ["HOME"]}
        async with engine(repository.root, environ=environ) as sdk:
            runs = [asyncio.create_task(sdk.run(pipeline(script(agent(WAIT + first))), session="one"))]
            while not (repository.root / "up").exists():
                assert not runs[0].done()
                await asyncio.sleep(0.02)
            runs += [asyncio.create_task(sdk.run(pipeline(script(agent(WAIT + second))), session="two"))]
            runs[0].add_done_callback(lambda _: (repository.root / "over").touch())
            assert all(ended.completed for ended in await asyncio.gather(*runs))

    run(main())


def test_a_repository_that_another_agent_takes_off_its_mount(repository: Repository) -> None:
    """The second agent knows it, as it was plain when it started."""
    together(
        repository,
        "plain sub; gitlink sub; touch up; await two; cp sub/.git/config c; mv c sub/.git/config; touch off",
        "touch two; await off; sleep 1; trap_in sub/.git/config && touch trapped",
    )
    assert (repository.root / "trapped").exists()
    assert not repository.used(".")
    assert (repository.root / "sub/.git.disabled").exists()
    (item,) = left(repository, "two")
    assert item == LeftInGit("sub/.git", "repository", "it sets core.fsmonitor", "sub/.git.disabled")


def test_a_repository_that_was_dangerous_when_the_second_agent_started(repository: Repository) -> None:
    """It is harmless when the first one ends, and as before when the second one does."""
    together(
        repository,
        "nested sub; gitlink sub; ln sub/.git/config link; cp link dangerous; touch up; await two; "
        "git config -f harmless core.bare false; cat harmless > link",
        "touch two; await over; cat dangerous > link && touch trapped",
    )
    assert (repository.root / "trapped").exists()
    assert "fsmonitor" in (repository.root / "sub/.git.disabled/config").read_text()
    assert not repository.used(".")


def test_the_worktree_settings_that_another_agent_takes_off_their_mount(repository: Repository) -> None:
    repository.config("core.repositoryFormatVersion", "1")
    repository.config("extensions.worktreeConfig", "true")
    together(
        repository,
        "git worktree add -q sub; gitlink sub; touch up; await two; cd .git/worktrees/sub; "
        "cp config.worktree c; mv c config.worktree; touch ../../../off",
        "touch two; await off; sleep 1; trap_in .git/worktrees/sub/config.worktree && touch trapped",
    )
    assert (repository.root / "trapped").exists()
    assert not repository.used(".")


@pytest.mark.parametrize("kind", ["nested", "program"])
def test_a_file_with_a_second_name(repository: Repository, kind: str) -> None:
    """That of an earlier attempt, when it was not protected."""
    made = {"nested": "plain sub; gitlink sub; ln sub/.git/config link", "program": "ln tools/monitor link"}
    repository.program("tools/monitor")
    environ = {name: repository.environ[name] for name in ("PATH", "HOME")}
    assert ran(repository.root, script(agent(made[kind])), session="one", **environ).completed
    if kind == "program":
        repository.config("core.fsmonitor", "tools/monitor")
    written = {"nested": "trap_in c; cat c > link", "program": "cat evil > link"}
    text = f"{written[kind]}; rm link"
    assert ran(repository.root, script(agent(text)), session="two", **environ).completed
    assert len([item for item in left(repository, "two") if item.moved_to]) == 1
    assert not repository.used(".")


@pytest.fixture
def at_work(repository: Repository) -> Any:
    """Runs an agent, and something as a person meanwhile."""

    def meanwhile(done: str, then: str) -> list[LeftInGit]:
        async def main() -> None:
            environ = {**ENVIRON, "HOME": repository.environ["HOME"]}
            async with engine(repository.root, environ=environ) as sdk:
                text = agent(f"{WAIT}touch up; await over; {then}")
                begun = asyncio.create_task(sdk.run(pipeline(script(text)), session="one"))
                while not (repository.root / "up").exists():
                    assert not begun.done()
                    await asyncio.sleep(0.02)
                shell(repository, done)
                (repository.root / "over").touch()
                assert (await begun).completed

        run(main())
        return left(repository, "one")

    return meanwhile


def shell(repository: Repository, text: str) -> None:
    subprocess.run(["sh", "-ec", text], cwd=repository.root, env=repository.environ, check=True, timeout=60)


def test_settings_that_a_person_changed_lose_only_what_could_start_a_program(
    repository: Repository, at_work: Any
) -> None:
    repository.program("tools/hook")
    repository.config("alias.x", "!tools/hook")
    (repository.root / ".git/config").chmod(0o600)
    (item,) = at_work(
        'git config "remote.o x.url" "a\\"b"; git config branch.main.remote "o x"', "trap_in .git/config"
    )
    assert item.reason == "it sets core.fsmonitor since"
    assert (item.path, item.moved_to) == (".git/config", ".git/config.disabled")
    assert repository.git("config", "remote.o x.url").strip() == 'a"b'
    assert repository.git("config", "alias.x").strip() == "!tools/hook"
    assert "fsmonitor" in (repository.root / ".git/config.disabled").read_text()
    assert (repository.root / ".git/config").stat().st_mode & 0o777 == 0o600
    assert not repository.used(".")


CHANGES: dict[str, tuple[str, str]] = {
    "a folder of hooks": ("rm -r .git/hooks", "mkdir -p .git/hooks; cp evil .git/hooks/pre-commit"),
    "hooks of settings": ("mv .husky old", "mkdir .husky; cp evil .husky/pre-commit"),
    "a program": ("cp -p tools/monitor t; mv t tools/monitor", "cp -f evil tools/monitor"),
    "included settings": ("cp .gitconfig t; mv t .gitconfig", "trap_in .gitconfig"),
    "worktree settings": (
        "cp .git/config.worktree t; mv t .git/config.worktree",
        "trap_in .git/config.worktree",
    ),
    "settings of a submodule": (
        "git -C sub config user.name me",
        "trap_in .git/modules/sub/config",
    ),
    "hooks of a known repository": (
        "mv known/.git/hooks known/old",
        "mkdir known/.git/hooks; cp evil known/.git/hooks/post-index-change; gitlink known",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_person_takes_off_its_mount(repository: Repository, at_work: Any, name: str) -> None:
    repository.program("tools/monitor")
    repository.submodule()
    repository.nested("known")
    for setting in (
        ("core.fsmonitor", "tools/monitor"),
        ("include.path", "../.gitconfig"),
        ("core.repositoryFormatVersion", "1"),
        ("extensions.worktreeConfig", "true"),
    ):
        repository.config(*setting)
    if name == "hooks of settings":
        repository.program(".husky/pre-commit")
        repository.config("core.hooksPath", ".husky")
    (repository.root / ".git/config.worktree").touch()
    (repository.root / ".gitconfig").write_text("[alias]\nst = status\n")
    done, then = CHANGES[name]
    found = at_work(done, f"{then} && touch trapped")
    assert (repository.root / "trapped").exists(), (repository.root / "log.txt").read_text()
    assert len([item for item in found if item.moved_to]) == 1, found
    assert not repository.used(".")


STAY = {
    "plain settings": "git config user.name me; git config pull.rebase true; git -C sub config user.name me; "
    "git -C known config branch.x.remote o",
    "worktree settings": "git sparse-checkout set kept; git config --worktree user.name me",
    "a hook": "echo 'exit 0' >> .git/hooks/pre-commit; cp .git/hooks/pre-commit .git/hooks/post-commit; "
    "cp .git/hooks/pre-commit known/.git/hooks/post-commit",
    "a program, in its place": "echo 'exit 0' >> tools/monitor",
    "the same program": "cp -p tools/monitor t; mv t tools/monitor",
}


@pytest.mark.parametrize("name", STAY)
def test_what_a_person_changes_stays(repository: Repository, at_work: Any, name: str) -> None:
    repository.program("tools/monitor", "exit 1")
    repository.program(".git/hooks/pre-commit")
    repository.submodule()
    repository.nested("known")
    repository.program("known/.git/hooks/pre-commit")
    repository.config("core.fsmonitor", "tools/monitor")
    repository.git("config", "core.fsmonitor", str(repository.root / "tools/monitor"), at="known")
    assert at_work(STAY[name], "true") == []


# -- what is compared


def test_settings_are_written_as_git_reads_them(tmp_path: Path) -> None:
    path, environ = tmp_path / "config", {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    settings: list[tuple[str, str | None]] = [
        ("core.bare", None),
        ('remote.a "b\\ .c.url', 'x \\ "y"\n\tz ; # '),
        ("user.name", ""),
        ("branch.caf\udcff.remote", "\udcff"),
    ]
    path.write_bytes(settings_text(settings))
    assert settings_in(str(path), environ) == settings


def test_settings_that_cannot_be_read_are_another_thing_when_they_change(tmp_path: Path) -> None:
    path, environ = tmp_path / "config", {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    path.write_text("[x")
    before = settings_triggers(str(path), environ)
    assert not added(settings_triggers(str(path), environ), before)
    path.write_text("[y")
    assert list(added(settings_triggers(str(path), environ), before).values()) == [
        "its settings can't be read"
    ]


def test_an_odd_entry_is_never_the_same(tmp_path: Path) -> None:
    (tmp_path / "hooks").mkdir()
    os.mkfifo(tmp_path / "hooks/pre-commit")
    path = str(tmp_path / "hooks/pre-commit")
    before: Mapping[str, str] = file_triggers(path, "x")
    assert before.keys() != file_triggers(path, "x").keys()
    (tmp_path / "link").symlink_to("hooks")
    assert list(hook_triggers(str(tmp_path / "link")).values()) == ["its hooks can't be read"]
    assert hook_triggers(str(tmp_path / "missing")) == {}
