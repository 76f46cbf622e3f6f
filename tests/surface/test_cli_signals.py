"""Stopping a run by signals: the agent may finish, the lock goes, the run can be resumed."""

import json
from signal import SIGINT, SIGTERM

import pytest
from tests.surface.terminal import WRITE_RESULT, Project, is_alive, wait_for

AGENT = f"echo $$ > pid; touch up; while [ ! -e go ]; do sleep 0.05; done; {WRITE_RESULT}"
"""Works until it is asked to finish."""

STUBBORN = "trap '' INT; echo $$ > pid; touch up; while :; do sleep 0.05; done"
"""Never finishes by itself, and doesn't mind Ctrl-C."""


def agent_pid(project: Project) -> int:
    wait_for((project.root / "up").exists, "the agent")
    return int((project.root / "pid").read_text())


def test_sigint_during_iteration_waits_for_completion(project: Project) -> None:
    file = project.pipeline(f"plan*3={AGENT}")
    with project.started("run", "-p", file, "-s", "auth") as run:
        pid = agent_pid(project)
        run.signal(SIGINT)
        wait_for(lambda: "pause_requested" in project.types("auth"), "the request to pause")
        assert is_alive(pid)
        (project.root / "go").touch()
        done = run.end()
    assert done.code == 130
    assert "Stopping: running work has up to 30 s to finish. Press Ctrl-C again" in done.err
    assert done.lines[-2:] == [
        "‖ Paused after 1 iteration in Ns: stopped by a signal, such as Ctrl-C",
        "  Resume: agentforge resume auth",
    ]
    assert project.types("auth")[-2:] == ["iteration_complete", "session_paused"]


def test_sigterm_same_as_sigint(project: Project) -> None:
    file = project.pipeline(f"plan*3={AGENT}")
    with project.started("run", "-p", file, "-s", "auth") as run:
        agent_pid(project)
        run.signal(SIGTERM)
        wait_for(lambda: "pause_requested" in project.types("auth"), "the request to pause")
        (project.root / "go").touch()
        done = run.end()
    assert done.code == 143
    assert project.types("auth")[-2:] == ["iteration_complete", "session_paused"]
    assert project.state("auth")["pause_reason"] == "signal_interrupt"


def test_sigint_forwards_to_child_and_waits_for_its_exit(project: Project) -> None:
    """The second signal reaches the agent and all that it started; nothing of it is left."""
    shell = "trap 'touch told; exit 7' TERM; sleep 300 & echo $! > helper; " + AGENT
    file = project.pipeline(f"plan={shell}")
    with project.started("run", "-p", file, "-s", "auth") as run:
        pid = agent_pid(project)
        helper = int((project.root / "helper").read_text())
        run.signal(SIGINT)
        wait_for(lambda: "pause_requested" in project.types("auth"), "the request to pause")
        done = run.insist(SIGINT)
    assert done.code == 130
    assert (project.root / "told").exists()
    assert not is_alive(pid)
    assert not is_alive(helper)


def test_double_sigint_forces_immediate_exit(project: Project) -> None:
    file = project.pipeline(f"plan={STUBBORN}")
    with project.started("run", "-p", file, "-s", "auth") as run:
        pid = agent_pid(project)
        run.signal(SIGINT)
        wait_for(lambda: "pause_requested" in project.types("auth"), "the request to pause")
        done = run.insist(SIGINT)
    assert done.code == 130
    assert "Stopping immediately." in done.err
    assert not is_alive(pid)
    assert project.types("auth")[-3:] == ["attempt_ending", "attempt_cancelled", "session_paused"]


@pytest.mark.parametrize("number", [SIGINT, SIGTERM])
def test_lock_file_removed_after_signal_exit(project: Project, number: object) -> None:
    file = project.pipeline(f"plan*3={AGENT}")
    with project.started("run", "-p", file, "-s", "auth") as run:
        agent_pid(project)
        assert json.loads(project.lock("auth").read_text())["pid"] == run.process.pid
        run.signal(number)  # type: ignore[arg-type]
        (project.root / "go").touch()
        run.end()
    assert not project.lock("auth").exists()


def test_iteration_started_is_null_after_signal(project: Project) -> None:
    file = project.pipeline(f"plan={STUBBORN}")
    with project.started("run", "-p", file, "-s", "auth") as run:
        agent_pid(project)
        run.signal(SIGINT)
        wait_for(lambda: "pause_requested" in project.types("auth"), "the request to pause")
        run.insist(SIGINT)
    state = project.state("auth")
    assert state["status"] == "paused"
    assert state["iteration_started"] is None
    assert state["iteration_completed"] == 0


def test_ctrl_c_then_recover_does_not_restart_it(project: Project) -> None:
    file = project.pipeline(f"plan*2={AGENT}")
    with project.started("run", "-p", file, "-s", "auth") as run:
        agent_pid(project)
        run.signal(SIGINT)
        (project.root / "go").touch()
        assert run.end().code == 130
    before = project.types("auth")
    named = project.call("recover", "auth")
    assert named.code == 0
    assert named.out == (
        "Session 'auth' is paused, not interrupted; run `agentforge resume auth` to resume it.\n"
    )
    assert project.call("recover").out == "Nothing to recover: no run of this project is interrupted.\n"
    assert project.types("auth") == before
    resumed = project.call("resume")
    assert resumed.code == 0
    assert resumed.out.startswith("Resuming session 'auth' from stage plan, after iteration 1\n")
    assert project.types("auth").count("iteration_complete") == 2


def test_a_signal_before_anything_runs_stops_it_too(project: Project) -> None:
    """While `--force` waits for the old owner, no run exists yet that could be paused."""
    shell = "trap '' TERM INT; touch up; while ! [ -e over ]; do sleep 0.05; done"
    with project.started("run", "-p", project.pipeline(f"plan={shell}"), "-s", "auth") as old:
        wait_for((project.root / "up").exists, "the agent")
        with project.started("run", "-p", "p.yaml", "-s", "auth", "--force") as new:
            wait_for(lambda: "pause_requested" in project.types("auth"), "the old owner being asked")
            new.signal(SIGINT)
            done = new.end()
        assert done.code == 130
        assert "Stopped before any run started." in done.err
        old.signal(SIGINT)
        (project.root / "over").touch()
        assert old.insist(SIGINT).code == 130
