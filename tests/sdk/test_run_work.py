"""`RunWork`: iterations with their files and changes, of real runs in a git repository and elsewhere."""

import asyncio
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.security.trapped_repository import ENVIRON as GIT

from agentforge import InvalidRequest, Runs, RunWork
from agentforge.model.changes import Changes, FileChange
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import returns

from .projects import ENVIRON, engine, eventually, node, pipeline, run, run_dir
from .shell_engine_runs import ShellRun

DONE = 'echo \'{"summary":"done"}\' > "$AGENTFORGE_RESULT"'
FILES = {"a.txt": "one\ntwo\n", "gone.txt": "gone\n", "name\t\x1b.txt": "odd\n"}


def script(text: str) -> dict[str, Any]:
    return {"type": "command", "run": f"cat > /dev/null; {text}; {DONE}"}


def git(project: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(project), *words], check=True, env=GIT, capture_output=True)


def repository(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in FILES.items():
        (folder / name).write_text(text)
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "all")
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two iterations, the second of which needed two attempts; and a block."""
    project = repository(tmp_path_factory.mktemp("work"))
    build = script(
        "echo said $MOCK_ITERATION; echo $MOCK_ITERATION >> a.txt; "
        "test $MOCK_ITERATION = 1 || rm -f gone.txt; "
        "test $MOCK_ITERATION = 1 -o -e tried || { touch tried; exit 3; }"
    )
    providers = [{"name": name, **script(f"echo {name} > {name}.txt")} for name in "pq"]
    duel = {"id": "duel", "parallel": {"providers": providers, "stages": [{"id": "ideas", "prompt": "x"}]}}
    steps = node("build", runs=2, provider=build, retry={"max_attempts": 2, "initial_delay": 0.01})

    async def main() -> None:
        async with engine(project) as made:
            assert (await made.run(pipeline(steps, duel), session="s")).completed

    run(main())
    return project


def work_of(project: Path, session: str = "s") -> RunWork:
    return RunWork(Runs(project, ENVIRON), session)


def test_the_changes_of_each_iteration_are_known(finished: Path) -> None:
    work = work_of(finished)
    changes = work.changes(work.iterations)
    assert changes[:2] == [
        Changes((FileChange("a.txt", "modified", 1, 0),)),
        Changes(
            (
                FileChange("a.txt", "modified", 2, 0),
                FileChange("gone.txt", "deleted", 0, 1),
                FileChange("tried", "added", 0, 0),
            )
        ),
    ]
    assert [one.name for one in work.iterations[2:]] == ["ideas@p", "ideas@q"]


def test_a_change_can_be_applied_and_the_total_is_that_of_the_run(finished: Path, tmp_path: Path) -> None:
    work = work_of(finished)
    project = repository(tmp_path / "copy")
    for one in work.iterations[:2]:
        subprocess.run(["git", "apply", "-"], input=work.patch(one), cwd=project, check=True, env=GIT)
    assert (project / "a.txt").read_text() == "one\ntwo\n1\n2\n2\n"
    assert not (project / "gone.txt").exists()
    total = work.total()
    assert not total.is_now
    names = {file.path: file.kind for file in total.changes.files}
    assert names["gone.txt"] == "deleted"
    assert names["p.txt"] == names["q.txt"] == "added"
    fresh = repository(tmp_path / "fresh")
    subprocess.run(["git", "apply", "-"], input=total.patch, cwd=fresh, check=True, env=GIT)
    assert (fresh / "p.txt").read_text() == "p\n"


def test_output_prompt_and_files_of_an_iteration(finished: Path) -> None:
    work = work_of(finished)
    one = work.find("build", 2)
    assert (work.output(one), work.prompt(one)) == ("said 2\n", "do it")
    names = [os.path.basename(path) for path in work.files(one)]
    assert {"context.json", "prompt.md", "output.md", "result.json", "attempt-1"} <= set(names)


def test_an_iteration_is_found_by_stage_path_branch_and_number(finished: Path) -> None:
    work = work_of(finished)
    assert work.find().name == "ideas@q"
    assert work.find("build").iteration == work.find("0").iteration == 2
    assert work.find("build", 1, 1).iteration == 1
    assert work.find("ideas@p").branch == work.find("1.0@p").branch == "p"


@pytest.mark.parametrize(
    ("asked", "message", "hint"),
    [
        (
            ("biuld",),
            "no iteration of a stage 'biuld'",
            "did you mean `build`? Stages with iterations: build, ideas@p, ideas@q",
        ),
        (("other",), "no iteration of a stage 'other'", "stages with iterations: build, ideas@p, ideas@q"),
        (("build", 3), "stage 'build' has no iteration 3", "iterations: 1, 2"),
        (("build", 1, 2), "stage 'build' has no visit 2", "visits: 1"),
        ((None, None, 9), "the run has no visit 9", "visits: 1"),
        ((None, 9), "the run has no iteration 9", "iterations: 1, 2"),
        (("ideas",), "stage 'ideas' runs in several branches", "name one of them: ideas@p, ideas@q"),
    ],
)
def test_what_does_not_exist_is_answered_with_what_does(
    finished: Path, asked: tuple[Any, ...], message: str, hint: str
) -> None:
    with pytest.raises(InvalidRequest) as caught:
        work_of(finished).find(*asked)
    assert message in caught.value.message
    assert caught.value.hint == hint


def test_a_foreign_run_is_compared_from_its_own_folder_without_its_settings(
    finished: Path, tmp_path: Path
) -> None:
    """In a folder that is not a repository, with what could be taken for git's settings among the objects."""
    shutil.copytree(run_dir(finished), run_dir(tmp_path))
    trees = run_dir(tmp_path) / "trees"
    canary = tmp_path / "canary"
    (trees / "config").write_text(f"[diff]\n\texternal = touch {canary}\n[core]\n\tpager = touch {canary}\n")
    (trees / "HEAD").write_text("ref: refs/heads/main\n")
    work = work_of(tmp_path)
    assert b"+1" in work.patch(work.find("build", 1))
    assert not canary.exists()
    for path in trees.rglob("*"):
        if path.is_file():
            path.unlink()
    assert work.changes(work.iterations) == [None] * 4
    with pytest.raises(InvalidRequest, match="the change can't be read"):
        work.patch(work.find("build", 1))


def test_names_with_control_characters_are_escaped_in_a_patch(tmp_path: Path) -> None:
    project = repository(tmp_path)

    async def main() -> None:
        async with engine(project) as made:
            work = node(provider=script('for f in name*; do echo more >> "$f"; done'))
            assert (await made.run(pipeline(work), session="s")).completed
            found = made.work("s")
            assert b'"a/name\\t\\033.txt"' in found.patch(found.find())
            assert found.total().changes.files == (FileChange("name\t\x1b.txt", "modified", 1, 0),)

    run(main())


def test_a_running_run_is_compared_with_the_files_as_they_are_now(tmp_path: Path) -> None:
    project = repository(tmp_path / 'a:b "quoted"')
    waits = script("echo more >> a.txt; touch ready; while [ ! -e go ]; do sleep 0.02; done; rm go ready")

    async def main() -> None:
        async with engine(project) as made:
            task = asyncio.create_task(made.run(pipeline(node(provider=waits)), session="s"))
            await eventually((project / "ready").exists)
            work = made.work("s")
            assert work.find().status == "running"
            with pytest.raises(
                InvalidRequest, match="is still running: its changes are available when it ends"
            ):
                work.patch(work.find())
            total = await asyncio.to_thread(work.total)
            assert total.is_now
            assert [file.path for file in total.changes.files] == ["a.txt", "ready"]
            assert b"+more" in total.patch
            (project / "go").touch()
            assert (await task).completed
            total = made.work("s").total()
            assert (total.is_now, [file.path for file in total.changes.files]) == (False, ["a.txt"])

    run(main())


def test_without_git_the_rest_is_known(tmp_path: Path) -> None:
    light = ScriptedProvider([returns("did it", output="said it")], uses_files=False)

    async def main() -> None:
        async with engine(tmp_path, light) as made:
            assert (await made.run(pipeline(), session="s")).completed
            work = made.work("s")
            one = work.find()
            assert (work.changes([one]), work.output(one)) == ([None], "said it\n")
            for ask in (lambda: work.patch(one), work.total):
                with pytest.raises(InvalidRequest, match="were not recorded"):
                    ask()

    run(main())


def test_without_an_iteration_there_is_a_hint(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(run_dir(finished), run_dir(tmp_path))
    log = run_dir(tmp_path) / "events.jsonl"
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    work = work_of(tmp_path)
    with pytest.raises(InvalidRequest, match="has no iteration yet"):
        work.find()
    assert work.changes(work.iterations) == []


def test_a_run_of_the_shell_engine_is_shown(tmp_path: Path) -> None:
    old = ShellRun(tmp_path)
    old.begin_loop()
    old.iterations("0", "stage-00-work", [1, 2])
    work = work_of(tmp_path, "old")
    assert [(one.stage, one.iteration, one.status) for one in work.iterations] == [
        ("work", 1, "completed"),
        ("work", 2, "completed"),
    ]
    assert work.output(work.find("work", 1)) == "output 1\n"
    with pytest.raises(InvalidRequest, match="were not recorded"):
        work.patch(work.find())


def test_git_must_be_installed_to_compare(finished: Path) -> None:
    work = RunWork(Runs(finished, {**ENVIRON, "PATH": "/nonexistent"}), "s")
    with pytest.raises(InvalidRequest, match="git, which is not installed"):
        work.changes(work.iterations)
