"""Projects and engines for tests: real files, a scripted agent, nothing of this machine's environment."""

import asyncio
import json
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from agentforge.ports.provider import Provider
from agentforge.sdk.engine import Engine
from agentforge.testing import ScriptedProvider
from agentforge.testing.scripted_provider import says

T = TypeVar("T")

_state = tempfile.TemporaryDirectory(prefix="agentforge-state-")

ENVIRON = {"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": _state.name}
"""With the state folder of one user, who starts and resumes all runs of a test process."""


def node(id: str = "plan", **changes: Any) -> dict[str, Any]:
    return {"id": id, "prompt": "do it", "provider": "scripted", "delay": 0, **changes}


def pipeline(*nodes: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"name": "refine", "nodes": list(nodes or (node(),)), **more}


def engine(project: Path, provider: Provider | None = None, **options: Any) -> Engine:
    scripted = provider or ScriptedProvider([says("done")])
    return Engine(project, providers={"scripted": scripted}, **{"environ": ENVIRON, **options})


def run(main: Coroutine[Any, Any, T], seconds: float = 90.0) -> T:
    """Run the test's coroutine, bounded in time."""

    async def bounded() -> T:
        async with asyncio.timeout(seconds):
            return await main

    return asyncio.run(bounded())


async def eventually(what: Callable[[], object], seconds: float = 60.0) -> None:
    """Until it is so, or fail."""
    async with asyncio.timeout(seconds):
        while not what():  # noqa: ASYNC110 - what other processes do sets no event
            await asyncio.sleep(0.005)


def run_dir(project: Path, session: str = "s") -> Path:
    return project / ".claude" / "pipeline-runs" / session


def iteration_dir(project: Path, number: int = 1, stage: str = "stage-00-plan", session: str = "s") -> Path:
    return run_dir(project, session) / stage / "iterations" / f"{number:03d}"


def load(path: Path) -> Any:
    return json.loads(path.read_bytes())


def cut_log(project: Path, lines: list[bytes], session: str = "s") -> None:
    """As if the engine had died after these lines: the head that it keeps elsewhere is not ahead of them."""
    (run_dir(project, session) / "events.jsonl").write_bytes(b"".join(lines))
    run_id = json.loads(lines[0])["trace_id"]
    for head in Path(ENVIRON["XDG_STATE_HOME"]).glob("agentforge/heads/*.json"):
        if load(head)["run_id"] == run_id:
            head.unlink()


def types(project: Path, session: str = "s") -> list[str]:
    """The types of a run's events."""
    # What follows the last line end is being written.
    lines = (run_dir(project, session) / "events.jsonl").read_bytes().split(b"\n")[:-1]
    return [json.loads(line)["type"] for line in lines]


class Gate:
    """An agent that works until it is asked to finish; cancelling ends it."""

    def __init__(self, name: str = "scripted") -> None:
        self.name = name
        self.working = asyncio.Event()
        self.finish = asyncio.Event()
        self.inner = ScriptedProvider([says("done")])

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def execute(self, request: Any) -> Any:
        self.working.set()
        await self.finish.wait()
        return await self.inner.execute(request)
