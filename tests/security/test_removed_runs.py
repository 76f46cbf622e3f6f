"""A run whose folder is removed, moved or replaced while it works: the engine stops and says so, never
reports a success, and the run can be continued."""

import os
import re
import shutil
from pathlib import Path

import pytest
from tests.surface.terminal import Done, Project, wait_for

from .test_git_cleanup import RESULT, ran, repository, tidying_pipeline

__all__ = ["repository"]

RUNS = ".claude/pipeline-runs"


def run_until_stopped(project: Project, command: str, iteration: int = 3) -> Done:
    """The agent of one iteration does something to the run's folder."""
    file = tidying_pipeline(project, command, only_iteration=iteration)
    done = project.call("run", "-p", file, "-s", "s")
    assert done.code == 1, done.out + done.err
    assert "Completed" not in done.out
    return done


def expect_recovery(project: Project) -> None:
    """`recover` continues without asking for a decision about damage."""
    done = project.call("recover")
    assert done.code == 0, done.out + done.err
    assert project.types("s")[-1] == "session_complete"
    assert project.types("s").count("iteration_complete") == 5
    assert project.call("log", "verify", "s").code == 0
    assert project.call("status", "s", "--json").json["status"] == "completed"


@pytest.mark.parametrize("command", ["git clean -fdxq", f"rm -rf {RUNS}", "rm -rf .claude"])
def test_removed_run_stops_with_its_log_restored(repository: Project, command: str) -> None:
    done = run_until_stopped(repository, command)
    assert "events.jsonl was removed while the run was in progress" in done.err
    assert "run `agentforge recover` to continue" in done.err
    assert "display" not in done.err
    assert done.out.count("Session: s") == 1
    assert repository.types("s").count("iteration_complete") == 2
    assert ran(repository) == 3
    expect_recovery(repository)
    # Iteration 3 counts as lost, because its result was removed; nothing else runs again.
    assert ran(repository) == 6


def test_moved_run_is_intact_when_it_is_back(repository: Project) -> None:
    aside = repository.home / "aside"
    done = run_until_stopped(repository, f"mv {RUNS} {aside}")
    assert "was moved to" in done.err
    assert "move it back" in done.err
    shutil.rmtree(repository.root / RUNS, ignore_errors=True)
    aside.rename(repository.root / RUNS)
    expect_recovery(repository)


def test_copy_in_the_place_of_the_run_is_continued(repository: Project) -> None:
    done = run_until_stopped(repository, f"cp -a {RUNS} copy && rm -rf {RUNS} && mv copy {RUNS}")
    assert "was replaced by a copy" in done.err
    expect_recovery(repository)
    assert ran(repository) == 5


def test_stashed_and_popped_run_is_continued(repository: Project) -> None:
    (repository.root / RUNS).mkdir(parents=True)
    (repository.root / RUNS / ".gitignore").write_text("# the user's own\n")
    done = run_until_stopped(repository, "git stash -u -q; git stash pop -q")
    assert "was replaced by a copy" in done.err
    expect_recovery(repository)
    assert ran(repository) == 5


def test_log_that_is_removed_after_the_last_iteration_is_not_a_success(project: Project) -> None:
    project.env["EFFECTS"] = str(project.home / "effects")
    # The rest of the folder stays, and the agent's work is complete when the log is removed.
    file = project.pipeline(f"work={RESULT}; rm {RUNS}/s/events.jsonl")
    done = project.call("run", "-p", file, "-s", "s")
    assert done.code == 1, done.out
    assert "Completed" not in done.out
    recovered = project.call("recover")
    assert recovered.code == 0, recovered.err
    assert project.types("s").count("iteration_complete") == 1
    assert project.types("s").count("attempt_start") == 1


def test_engine_stops_while_its_agent_works(project: Project) -> None:
    """A folder that is gone is noticed within seconds, not when the agent ends."""
    go = project.home / "go"
    file = project.pipeline(f'work=while [ ! -e "{go}" ]; do sleep 0.05; done; {RESULT}')
    with project.started("run", "-p", file, "-s", "s") as run:
        wait_for(lambda: "attempt_start" in project.types("s"), "the agent to start")
        wait_for(lambda: list(project.root.rglob("agent.json")), "the agent to be claimed")
        (project.root / RUNS / "s").rename(project.home / "s")
        done = run.end()
        assert done.code == 1
        assert "was moved to" in done.err
    shutil.rmtree(project.root / RUNS / "s", ignore_errors=True)
    (project.home / "s").rename(project.root / RUNS / "s")
    go.touch()
    assert project.call("recover").code == 0
    assert project.types("s").count("attempt_start") == 1
    assert project.types("s")[-1] == "session_complete"


def test_another_engine_is_kept_out_of_a_copy_only_by_its_own_lease(project: Project) -> None:
    """Two engines never both drive a run: the first stops at its next write."""
    go = project.home / "go"
    file = project.pipeline(f'work*2=while [ ! -e "{go}" ]; do sleep 0.05; done; {RESULT}')
    with project.started("run", "-p", file, "-s", "s") as run:
        wait_for(lambda: "attempt_start" in project.types("s"), "the agent to start")
        folder = project.root / RUNS / "s"
        shutil.copytree(folder, project.home / "copy")
        os.rename(folder, project.home / "old")
        os.rename(project.home / "copy", folder)
        done = run.end()
    go.touch()
    assert done.code == 1
    assert re.search(r"was moved to .*/old/events.jsonl", done.err)


def test_the_message_names_the_log(project: Project) -> None:
    file = project.pipeline(f"work=rm -rf {RUNS}/s; true")
    done = project.call("run", "-p", file, "-s", "s")
    assert str(Path(RUNS) / "s" / "events.jsonl") in done.err
    assert "Traceback" not in done.err
