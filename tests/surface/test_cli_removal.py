"""`rm` and `clean` delete runs: after confirmation, never one that is running."""

from tests.surface.screen import on_a_terminal
from tests.surface.terminal import WRITE_RESULT, Project, wait_for

PATIENT = f"touch up; while [ ! -e go ]; do sleep 0.02; done; {WRITE_RESULT}"


def completed(project: Project, *sessions: str) -> None:
    file = project.pipeline(f"plan={WRITE_RESULT}")
    for session in sessions:
        assert project.call("run", "-p", file, "-s", session).code == 0


def test_rm_asks_on_a_terminal_and_refuses_elsewhere(project: Project) -> None:
    completed(project, "one", "two")
    refused = project.call("rm", "one")
    assert refused.code == 2
    assert "can't ask for confirmation without a terminal" in refused.err
    assert "add --yes" in refused.err
    with on_a_terminal(project, "rm", "one") as screen:
        screen.until("one: completed, 1 iteration, ")
        screen.until("Delete 1 run? [y/N]: ")
        screen.type("n\n")
        assert screen.end() == 2
    assert project.run_dir("one").exists()
    with on_a_terminal(project, "rm", "one") as screen:
        screen.until("[y/N]: ")
        screen.type("y\n")
        assert screen.end() == 0
    assert "Deleted session 'one'." in screen.text
    assert not project.run_dir("one").exists()
    done = project.call("rm", "two", "--yes", "--json")
    assert (done.code, done.json) == (0, {"removed": ["two"], "failed": []})
    assert "no session 'two'" in project.call("rm", "two", "--yes").err


def test_rm_refuses_a_run_whose_engine_or_agent_is_running(project: Project) -> None:
    with project.started("run", "-p", project.pipeline(f"plan={PATIENT}"), "-s", "auth") as run:
        wait_for((project.root / "up").exists, "the agent")
        done = project.call("rm", "auth", "--yes", "-C", str(project.root), cwd=project.home)
        assert (done.code, done.out) == (1, "")
        assert f"hint: stop it first: agentforge -C {project.root} cancel auth" in done.err
        assert f"session 'auth' is running (PID {run.process.pid})" in done.err
        run.process.kill()
        run.process.wait(60)
    done = project.call("rm", "auth", "--yes")
    assert done.code == 1
    assert "a program of session 'auth' is still running, without an engine" in done.err
    assert project.call("cancel", "auth").code == 0
    assert project.call("rm", "auth", "--yes").code == 0


def test_clean_lists_asks_and_deletes_old_runs(project: Project) -> None:
    completed(project, "one", "two")
    assert "Nothing to delete" in project.call("clean", "--older-than", "1d").out
    dry = project.call("clean", "--older-than", "0m", "--dry-run")
    assert dry.code == 0
    assert dry.lines[1:] == [
        "  two                  completed  Ns ago       plan (1 iter)",
        "  one                  completed  Ns ago       plan (1 iter)",
        "2 runs would be deleted.",
    ]
    assert project.call("clean", "--older-than", "0m").code == 2
    done = project.call("clean", "--older-than", "0m", "--yes")
    assert (done.code, done.lines) == (0, ["Deleted session 'two'.", "Deleted session 'one'."])
    assert project.call("clean", "--older-than", "yesterday").code == 2
    assert "must be a number up to 10,000 and a unit" in project.call("clean", "--older-than", "99999d").err
