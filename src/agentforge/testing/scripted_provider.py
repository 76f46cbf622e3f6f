"""An in-process provider that a test scripts, to test pipelines without agents.

provider = ScriptedProvider([crashes(), says("done", decision="stop")])
async with Engine(tmp_path, providers={"scripted": provider}) as engine:
    await engine.run({"nodes": [{"id": "a", "prompt": "…", "provider": "scripted"}]})
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from agentforge.model.errors import ProviderUnusable
from agentforge.model.failure import Failure
from agentforge.model.result import JSONObject, Usage
from agentforge.model.spending import Unit
from agentforge.ports.provider import Capabilities, ExecuteRequest, ExecuteResult

Act = Callable[[ExecuteRequest], ExecuteResult]
"""The work of an attempt: write files, return output."""


class ScriptedProvider:
    """Performs one act per call, in order, repeating the last one; or calls a function to choose the act."""

    def __init__(
        self,
        script: Sequence[Act] | Callable[[ExecuteRequest], Act],
        *,
        name: str = "scripted",
        concurrent: bool = True,
        resumes: bool = False,
        seconds: float = 0.0,
        late: bool = False,
        unusable: str = "",
        uses_files: bool = True,
        bounds: Sequence[Unit] = (),
    ) -> None:
        """`late`: a call that is cancelled performs its act all the same, as a provider does that answers too
        late. `uses_files`: acts may write files; otherwise they return their results (`returns`). `bounds`:
        what it says that it keeps to; that its acts do is up to the script."""
        self._script = script
        self._name = name
        self._concurrent = concurrent
        self._resumes = resumes
        self._seconds = seconds
        self._late = late
        self._unusable = unusable
        self._uses_files = uses_files
        self._bounds = tuple(bounds)
        self.calls: list[ExecuteRequest] = []
        self.lifecycle: list[str] = []
        """The calls of `init`, `validate` and `shutdown`, in order."""
        self.concurrent_calls = 0
        self.max_concurrent_calls = 0

    @property
    def name(self) -> str:
        return self._name

    async def init(self) -> None:
        self.lifecycle.append("init")
        await asyncio.sleep(0)

    async def shutdown(self) -> None:
        self.lifecycle.append("shutdown")

    def capabilities(self) -> Capabilities:
        return Capabilities(
            concurrent=self._concurrent,
            supports_resume=self._resumes,
            uses_files=self._uses_files,
            bounds=self._bounds,
        )

    def validate(self) -> None:
        self.lifecycle.append("validate")
        if self._unusable:
            raise ProviderUnusable(self._unusable)

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:
        self.calls.append(request)
        self.concurrent_calls += 1
        self.max_concurrent_calls = max(self.max_concurrent_calls, self.concurrent_calls)
        try:
            await self._work()
            return self._act(request)(request)
        finally:
            self.concurrent_calls -= 1

    async def _work(self) -> None:
        try:
            await asyncio.sleep(self._seconds)
        except asyncio.CancelledError:
            if not self._late:
                raise
            await asyncio.sleep(0)

    def _act(self, request: ExecuteRequest) -> Act:
        if callable(self._script):
            return self._script(request)
        return self._script[min(len(self.calls), len(self._script)) - 1]


def says(
    summary: str,
    decision: str = "continue",
    output: str | None = None,
    *,
    usage: Usage | None = None,
    artifact: JSONObject | str | None = None,
    **more: Any,
) -> Act:
    """A success: writes the summary to result.json and returns the output. `artifact` is written, too: an
    object, or any text."""
    result = {"summary": summary, "decision": decision, **more}
    written = msgspec.json.encode(result).decode()
    work = writes(written, output=summary if output is None else output, usage=usage)
    if artifact is None:
        return work
    content = artifact if isinstance(artifact, str) else msgspec.json.encode(artifact).decode()

    def act(request: ExecuteRequest) -> ExecuteResult:
        Path(request.artifact_path).write_text(content, encoding="utf-8")
        return work(request)

    return act


def returns(
    summary: str,
    decision: str = "continue",
    output: str | None = None,
    *,
    artifact: JSONObject | None = None,
    **more: Any,
) -> Act:
    """A success without files: returns the result, and the artifact."""
    result = {"summary": summary, "decision": decision, **more}
    said = summary if output is None else output
    return lambda _: ExecuteResult(output=said, result=result, artifact=artifact)


def writes(result: str, output: str = "", *, usage: Usage | None = None) -> Act:
    """Writes the text to result.json, valid or not."""

    def act(request: ExecuteRequest) -> ExecuteResult:
        Path(request.result_path).write_text(result, encoding="utf-8")
        return ExecuteResult(output=output, usage=usage)

    return act


def writes_status(output: str = "", **status: Any) -> Act:
    """Writes the older status.json instead of a result."""

    def act(request: ExecuteRequest) -> ExecuteResult:
        Path(request.status_path).write_text(msgspec.json.encode(status).decode(), encoding="utf-8")
        return ExecuteResult(output=output)

    return act


def writes_nothing(output: str = "") -> Act:
    """A successful agent without a result."""
    return lambda _: ExecuteResult(output=output)


def crashes(exit_code: int = 1, output: str = "boom") -> Act:
    return lambda _: ExecuteResult(output=output, exit_code=exit_code)


def fails(failure: Failure, output: str = "", *, usage: Usage | None = None) -> Act:
    """A failure that the provider classifies itself."""
    return lambda _: ExecuteResult(output=output, failure=failure, usage=usage)


def raises(error: Exception) -> Act:
    def act(_: ExecuteRequest) -> ExecuteResult:
        raise error

    return act
