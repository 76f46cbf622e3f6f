"""One agent CLI in a separate project: our engine, the real program, a scripted model."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from tests.agents.clis import Cli, programs

from agentforge import Engine
from agentforge.runtime.supervision import SupervisorLimits
from agentforge.testing.model_server import ModelServer, Script, SeenRequest, Shell, Turn, Write
from agentforge.testing.provider_contract import MARK, end_marked, processes_marked
from agentforge.views.results import RunResult

T = TypeVar("T")

PATIENCE = 150.0
"""Seconds that an agent CLI has for anything: on a busy machine, some take a minute."""

RESULT = '{"summary": "written by the agent", "decision": "stop", "reason": "all done"}\n'
WRITES = Script(
    (
        Turn("I write hello.txt.", (Shell("echo hello > hello.txt"),)),
        Turn("Now the result.", (Write("{result}", RESULT),)),
        Turn("Both files are written."),
    )
)
PROMPT = "Write hello.txt. Then write your result to ${RESULT} and stop."


class Trial:
    def __init__(self, cli: Cli, server: ModelServer, folder: Path) -> None:
        self.cli = cli
        self.server = server
        self.project, self.home = folder / "project", folder / "home"
        self.name = f"{cli.name}-{uuid.uuid4().hex[:8]}"
        """Of the server's run, and the mark of every process."""
        for made in (self.project, self.home / "tmp"):
            made.mkdir(parents=True)

    # -- what is run

    def environ(self, script: Script, at: str = "") -> dict[str, str]:
        """All that the engine and its agents are given. `at`: another model's address."""
        proxies = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
        return {
            "PATH": f"{programs()}:/usr/bin:/bin",
            "HOME": str(self.home),
            "TMPDIR": str(self.home / "tmp"),
            "LANG": "C.UTF-8",
            "AGENT_PIPELINES_EVENT_FLUSH_MS": "10",
            **self.cli.configure(self.home, at or self.server.url(script, self.name)),
            **dict.fromkeys(proxies, self.server.address),
            **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
        }

    def pipeline(self, **changes: Any) -> dict[str, Any]:
        node = {
            "id": "work",
            "prompt": PROMPT,
            "provider": {"type": self.cli.name, "env": {MARK: self.name}},
            "model": self.cli.model,
            "delay": 0,
            "timeout": PATIENCE,
            "retry": {"max_attempts": 1, "initial_delay": 0.1},
            "on_limit": "fail",
        }
        return {"name": "trial", "nodes": [{**node, **changes}]}

    def engine(self, script: Script, at: str = "") -> Engine:
        limits = SupervisorLimits(term_grace=2.0)
        return Engine(self.project, environ=self.environ(script, at), limits=limits)

    def run(self, script: Script, *, at: str = "", **changes: Any) -> RunResult:
        """A run to its end, with a single attempt unless told otherwise."""

        async def main() -> RunResult:
            async with self.engine(script, at) as engine:
                return await engine.run(self.pipeline(**changes), session="s")

        return bounded(main())

    def start_engine(self, script: Script, **changes: Any) -> "subprocess.Popen[bytes]":
        """The command line in a process of its own."""
        (self.project / "trial.yaml").write_text(json.dumps(self.pipeline(**changes)))
        return subprocess.Popen(
            [sys.executable, "-m", "agentforge", "run", "-p", "trial.yaml", "-s", "s"],
            cwd=self.project,
            env={**self.environ(script), "PYTHONPATH": os.pathsep.join(sys.path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    # -- what became of it

    @property
    def run_dir(self) -> Path:
        return self.project / ".claude" / "pipeline-runs" / "s"

    def facts(self, kind: str) -> list[dict[str, Any]]:
        try:
            lines = (self.run_dir / "events.jsonl").read_bytes().splitlines()
        except FileNotFoundError:
            return []
        events = [json.loads(line) for line in lines if line.endswith(b"}")]
        return [event["data"] for event in events if event["type"] == kind]

    def only(self, kind: str) -> dict[str, Any]:
        (fact,) = self.facts(kind)
        return fact

    def output(self) -> str:
        return (self.run_dir / "stage-00-work" / "iterations" / "001" / "output.md").read_text()

    def requests(self) -> tuple[SeenRequest, ...]:
        return self.server.requests(self.name)

    def has(self, name: str) -> bool:
        return (self.project / name).exists()

    def agent_pid(self, attempt: int = 1) -> int:
        place = self.run_dir / "stage-00-work" / "iterations" / "001" / f"attempt-{attempt}" / "agent.json"
        eventually(place.exists)
        pid: int = json.loads(place.read_text())["pid"]
        return pid

    def processes(self) -> list[int]:
        return processes_marked(self.name)

    def end_all(self) -> list[int]:
        """What is still running, which it ends."""
        return end_marked(self.name, seconds=30.0)


def bounded(main: Coroutine[Any, Any, T], seconds: float = PATIENCE + 60) -> T:
    async def within() -> T:
        async with asyncio.timeout(seconds):
            return await main

    return asyncio.run(within())


def eventually(what: Callable[[], object], seconds: float = PATIENCE) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, "it didn't happen in time"
        time.sleep(0.01)


async def soon(what: Callable[[], object], seconds: float = PATIENCE) -> None:
    async with asyncio.timeout(seconds):
        while not what():  # noqa: ASYNC110 - what other processes do sets no event
            await asyncio.sleep(0.01)


def end(process: "subprocess.Popen[bytes]", how: signal.Signals = signal.SIGKILL) -> int:
    process.send_signal(how)
    return process.wait(timeout=PATIENCE)
