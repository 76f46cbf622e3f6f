"""Tasks for the provider api's loop, against a scripted model on loopback."""

import asyncio
from pathlib import Path
from typing import Any

from agentforge.testing.model_server import Call, ModelServer, Script, Turn
from agentforge.tool_loop.task import Endpoint, Files, LoopOutcome, ModelTask, ProgressEvent

FORMATS = ("anthropic", "openai")
KEY = "test-key-of-nobody"
MODELS = {"anthropic": "claude-sonnet-5-5", "openai": "gpt-5.5"}

DONE = Turn("Done.", (Call("complete", {"summary": "all done", "decision": "stop"}),))
WRITES = Turn("I write it.", (Call("write_file", {"path": "hello.txt", "content": "hello\n"}),))
WORK = Script((WRITES, DONE))


def endpoint(server: ModelServer, script: Script | str, format: str, **changes: Any) -> Endpoint:
    url = server.url(script, "t")
    given: dict[str, Any] = {
        "api": format,
        "model": MODELS[format],
        "base_url": url if format == "anthropic" else f"{url}/v1",
        "key_env": "SOME_KEY",
        "priced": True,
    }
    return Endpoint(**{**given, **changes})


def task(server: ModelServer, script: Script, format: str, folder: Path, **changes: Any) -> ModelTask:
    return ModelTask("Do the work.", endpoint(server, script, format), files(folder), **changes)


def files(folder: Path) -> Files:
    """Created if missing: a workspace, and an iteration's folder beside it."""
    for name in ("work", "iteration"):
        (folder / name).mkdir(exist_ok=True)
    here = folder / "iteration"
    return Files(
        str(folder / "work"),
        result=str(here / "result.json"),
        artifact=str(here / "artifact.json"),
        sessions=str(here / "api-sessions"),
    )


class Ran:
    """A task that was done, and what was heard of it."""

    def __init__(self, task: ModelTask, **more: Any) -> None:
        from agentforge.tool_loop.loop import run_task

        self.heard: list[ProgressEvent] = []
        self.outcome: LoopOutcome = asyncio.run(
            asyncio.wait_for(run_task(task, key=KEY, report=self.heard.append, **more), 60)
        )

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.heard if isinstance(event, kind)]
