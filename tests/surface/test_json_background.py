"""docs/json-output.md: the keys of commands that start runs in tmux."""

import json
from pathlib import Path
from signal import SIGKILL

from tests.surface.json_agents import WAIT, stage, write_pipeline
from tests.surface.json_calls import Calls, Examples
from tests.surface.terminal import WRITE_RESULT, Project, wait_for
from tests.surface.tmux_server import TmuxServer, needs_tmux

EXAMPLES: Examples = {
    ("pipeline", "background run"): ["pipeline", "asks.yaml", "stale"],
    ("loop", "background run"): ["loop", "work", "looping", "1"],
    ("resume --detach", "background run"): ["resume", "failed", "--detach"],
    ("recover --detach", "detached recovery"): ["recover", "--detach"],
    ("approve", "background run"): ["approve", "asks-1", "--detach"],
    ("reject", "background run"): ["reject", "asks-2", "-f", "shorter", "--detach"],
    ("answer", "background run"): ["answer", "asks-3", "approve", "--detach"],
    ("inbox answer", "background run"): ["inbox", "answer", "asks-4", "approve", "--detach"],
}
SHOWN = ("background run", "detached recovery")


@needs_tmux
def test_keys_of_runs_in_the_background_are_those_of_the_page(project: Project, tmux: TmuxServer) -> None:
    asks = write_pipeline(project, "asks", stage("a", approve=True))
    for number in range(1, 5):
        assert project.call("run", "-p", asks, "-s", f"asks-{number}").code == 0
    failing = write_pipeline(project, "failed", stage("a", "exit 3", retry={"max_attempts": 1}))
    assert project.call("run", "-p", failing, "-s", "failed").code == 1
    project.stage("work", "provider: mock\ndelay: 0\n")
    interrupt(project, "first", "second")
    use_name(project, tmux, "stale", project.root)
    use_name(project, tmux, "second", project.home)
    calls = Calls(project)
    calls.call_all(EXAMPLES)
    assert calls.problems(SHOWN) == []


def interrupt(project: Project, *sessions: str) -> None:
    """Runs whose engines were killed."""
    file = write_pipeline(project, "slow", stage("a", f"touch up; {WAIT}; {WRITE_RESULT}"))
    for session in sessions:
        with project.started("run", "-p", file, "-s", session) as run:
            wait_for((project.root / "up").exists, "the agent")
            run.signal(SIGKILL)
            run.process.wait(60)
        (project.root / "up").unlink()
    (project.root / "go").touch()


def use_name(project: Project, tmux: TmuxServer, session: str, folder: Path) -> None:
    """A tmux session with the name of a run: in its project it is stale, elsewhere that of another run."""
    tmux.call("new-session", "-d", "-s", f"pipeline-{session}", "-c", str(folder), "sleep", "60")
    lock = project.lock(session)
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.write_text(json.dumps({"session": session, "pid": 4_190_001, "started_at": "2026-01-15T12:00:00Z"}))
