"""Real agents for tests of the engine: shell programs under real supervisors, and an engine to kill."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.runtime.attempt_run import eventually, lives
from tests.sdk import projects
from tests.sdk.projects import iteration_dir, pipeline

from agentforge.runtime.supervision import SupervisorLimits
from agentforge.sdk.engine import Engine

# Facts that no act waits for are to be seen soon.
ENVIRON = {
    "PATH": os.environ["PATH"],
    "AGENT_PIPELINES_EVENT_FLUSH_MS": "10",
    "XDG_STATE_HOME": projects.ENVIRON["XDG_STATE_HOME"],
}
LIMITS = SupervisorLimits(term_grace=1.0)

# Notes each run with its pid, waits for the file `go`, then writes its result.
PATIENT = """
echo $$ >> runs
while [ ! -e go ]; do sleep 0.02; done
echo said
printf '{"summary": "done by %s"}' $$ > "$MOCK_RESULT_FILE"
"""

ENGINE = """
import asyncio, json, os, sys
from agentforge.sdk.engine import Engine
from tests.runtime.agents import ENVIRON, SupervisorLimits

async def main():
    limits = SupervisorLimits(orphan_grace=float(sys.argv[3]), term_grace=1.0)
    environ = {**ENVIRON, "XDG_STATE_HOME": os.environ["XDG_STATE_HOME"]}
    async with Engine(sys.argv[1], environ=environ, limits=limits) as engine:
        await engine.run(json.loads(sys.argv[2]), session="s")

asyncio.run(main())
"""


def shell(script: str, id: str = "plan", **changes: Any) -> dict[str, Any]:
    """A node whose agent is a shell script."""
    command = {"type": "command", "run": script}
    return {"id": id, "prompt": "do it", "provider": command, "delay": 0, **changes}


def engine(project: Path, **options: Any) -> Engine:
    return Engine(project, **{"environ": ENVIRON, "limits": LIMITS, **options})


class EngineProcess:
    """An engine in a process of its own, which a test may kill."""

    def __init__(self, project: Path, *nodes: dict[str, Any], orphan_grace: float = 60.0) -> None:
        self.project = project
        arguments = [str(project), json.dumps(pipeline(*nodes)), str(orphan_grace)]
        self._process = subprocess.Popen(
            [sys.executable, "-c", ENGINE, *arguments],
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(sys.path),
                "XDG_STATE_HOME": ENVIRON["XDG_STATE_HOME"],
            },
            start_new_session=True,
        )

    def kill_while_running(self) -> int:
        """Kill the engine while its agent works; the agent's pid."""
        eventually(lambda: agents(self.project))
        self.kill()
        return agents(self.project)[-1]

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(timeout=60)


def agents(project: Path) -> list[int]:
    """The pid of each agent that ever ran."""
    try:
        return [int(line) for line in (project / "runs").read_text().split()]
    except FileNotFoundError:
        return []


def supervisor(project: Path, attempt: int = 1) -> int:
    """The pid of the supervisor of an attempt at the first iteration."""
    claim = iteration_dir(project) / f"attempt-{attempt}" / "claim"
    eventually(lambda: claim.exists() and claim.read_bytes())
    pid: int = json.loads(claim.read_text())["pid"]
    return pid


def end_left(project: Path) -> None:
    """What a failing test left running; a passing one left nothing."""
    for pid in agents(project):
        if lives(pid):
            os.kill(pid, signal.SIGKILL)
