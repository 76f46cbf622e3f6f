"""Agents that do next to nothing, and the engines and pipelines that run them."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec

from agentforge.model.result import JSONObject
from agentforge.ports.provider import Capabilities, ExecuteRequest, ExecuteResult
from agentforge.sdk.engine import Engine

STATUS = b'{"decision":"continue","reason":"one more to go","summary":"did next to nothing"}'
RESULT = json.loads(STATUS)
SAYS = "done\n"
# A program as close to `true` as an agent may be: it says what it did.
COMMAND = ["/bin/sh", "-c", f"printf '%s' '{STATUS.decode()}' > \"$AGENTFORGE_STATUS\"; echo done"]


class InProcess:
    """Runs inside the engine and notes when it was called and when it let go again: between the end of one
    call and the beginning of the next lies what the engine does for an iteration."""

    name = "inprocess"

    def __init__(
        self,
        between: Callable[[ExecuteRequest], None] | None = None,
        *,
        is_timed: bool = True,
        uses_files: bool = False,
        artifact: Callable[[ExecuteRequest], JSONObject | None] | None = None,
    ) -> None:
        """`uses_files`: it writes its status and its artifact as files, as an agent does, instead of
        returning them."""
        self._artifact = artifact
        self._between = between
        self._uses_files = uses_files
        self._is_timed = is_timed
        self._left: float | None = None
        self.engine_seconds: list[float] = []

    async def init(self) -> None:
        """Nothing to set up."""

    async def shutdown(self) -> None:
        """Nothing to release."""

    def capabilities(self) -> Capabilities:
        return Capabilities(uses_files=self._uses_files)

    def validate(self) -> None:
        """Always usable."""

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:
        called = perf_counter()
        if self._is_timed and self._left is not None:
            self.engine_seconds.append(called - self._left)
        artifact = self._artifact(request) if self._artifact else None
        if self._uses_files:
            _write(request.status_path, STATUS)
            if artifact is not None:
                _write(request.artifact_path, msgspec.json.encode(artifact))
        if self._between is not None:
            self._between(request)
        self._left = perf_counter()
        if self._uses_files:
            return ExecuteResult(output=SAYS)
        return ExecuteResult(output=SAYS, result=RESULT, artifact=artifact)


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)


def engine_in(
    root: Path, agent: InProcess | None = None, variables: Mapping[str, str] | None = None
) -> Engine:
    """An engine that writes below `root` and beside it, whatever the caller's environment says."""
    environ = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(root), **(variables or {})}
    # An engine records its runs outside of the project, where agents can't write.
    environ["XDG_STATE_HOME"] = f"{os.path.realpath(root)}-state"
    # Measured without version control, although the folder may be inside a repository.
    environ["GIT_CEILING_DIRECTORIES"] = os.path.dirname(os.path.realpath(root))
    return Engine(root, providers={agent.name: agent} if agent else {}, environ=environ)


def in_process_pipeline(iterations: int) -> dict[str, Any]:
    return _pipeline(iterations, InProcess.name)


def command_pipeline(iterations: int) -> dict[str, Any]:
    return _pipeline(iterations, {"type": "command", "argv": COMMAND})


def _pipeline(iterations: int, provider: Any) -> dict[str, Any]:
    stage = {
        "id": "work",
        "prompt": "Do a bit of work: number ${ITERATION} of session ${SESSION}. See ${CTX}.",
        "provider": provider,
        "runs": iterations,
        "delay": 0,
    }
    return {"name": "bench", "nodes": [stage]}
