"""A provider that is gone since its agent was started: the agent is still waited for, or ended."""

import json
import os
import signal
from pathlib import Path

import pytest
from tests.surface.terminal import WRITE_RESULT, Project, is_alive, wait_for

AGENT = f"""#!/bin/sh
cat > /dev/null
echo begun > begun
while [ ! -e go ]; do sleep 0.02; done
echo by the first > who
{WRITE_RESULT}
"""


@pytest.fixture
def interrupted(project: Project) -> Path:
    """A run whose engine was killed while the first of its chain worked; that one's program, gone by now."""
    program = project.home / "my-agent"
    program.write_text(AGENT)
    program.chmod(0o755)
    described = project.root / ".agentforge" / "providers"
    described.mkdir(parents=True)
    (described / "mine.yaml").write_text(f"program: {program}\n")
    second = {"type": "command", "run": f"cat >/dev/null; echo by the second > who; {WRITE_RESULT}"}
    node = {"id": "a", "prompt": "x", "delay": 0, "provider": ["mine", second]}
    (project.root / "p.yaml").write_text(json.dumps({"name": "p", "nodes": [node]}))
    with project.started("run", "-p", "p.yaml", "-s", "s") as run:
        wait_for((project.root / "begun").exists, "the agent works")
        run.signal(signal.SIGKILL)
        run.end()
    program.unlink()
    return program


def agent_pid(project: Project, folder: str = "attempt*") -> int:
    note = f"{folder}/agent.json"
    (file,) = wait_for(lambda: list(project.run_dir("s").rglob(note)), "the supervisor's note")
    return int(json.loads(file.read_bytes())["pid"])


@pytest.mark.usefixtures("interrupted")
def test_agent_is_reattached_to_and_no_other_is_started(project: Project) -> None:
    with project.started("recover", "s") as run:
        wait_for(lambda: "attempt_reattached" in project.types("s"), "the agent is reattached to")
        (project.root / "go").touch()
        assert run.end().code == 0
    assert (project.root / "who").read_text() == "by the first\n"
    assert project.types("s").count("attempt_start") == 1


@pytest.mark.usefixtures("interrupted")
def test_its_agent_is_ended_when_the_run_is_cancelled(project: Project) -> None:
    pid = agent_pid(project)
    assert is_alive(pid)
    assert project.call("cancel", "s").code == 0
    assert not is_alive(pid)
    assert project.types("s")[-1] == "session_aborted"


def test_another_attempt_is_made_by_the_next_of_the_chain(project: Project, interrupted: Path) -> None:
    assert not interrupted.exists()
    agent = agent_pid(project)
    with project.started("recover", "s") as run:
        wait_for(lambda: "attempt_reattached" in project.types("s"), "the agent is reattached to")
        os.kill(agent, signal.SIGKILL)
        assert run.end().code == 0
    assert (project.root / "who").read_text() == "by the second\n"


def test_a_judge_is_ended_when_the_run_is_cancelled(project: Project) -> None:
    judge = project.home / "my-judge"
    judge.write_text("#!/bin/sh\ncat > /dev/null\necho begun > begun\nexec sleep 60\n")
    judge.chmod(0o755)
    described = project.root / ".agentforge" / "providers"
    described.mkdir(parents=True)
    (described / "mine.yaml").write_text(f"program: {judge}\n")
    worker = {"type": "command", "run": f"cat >/dev/null; {WRITE_RESULT}"}
    ends = {"type": "judgment", "max": 3}
    node = {"id": "a", "prompt": "x", "delay": 0, "provider": worker, "termination": ends}
    (project.root / "p.yaml").write_text(json.dumps({"name": "p", "nodes": [node]}))
    with project.started("run", "-p", "p.yaml", "-s", "s", env={"JUDGE_PROVIDER": "mine"}) as run:
        wait_for((project.root / "begun").exists, "the judge is asked")
        run.signal(signal.SIGKILL)
        run.end()
    (described / "mine.yaml").unlink()
    pid = agent_pid(project, "judge*")
    assert is_alive(pid)
    assert project.call("cancel", "s").code == 0
    assert not is_alive(pid)
