"""A provider inside the engine that does what a test says: for pipelines tested without any agent.

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
from agentforge.model.result import Usage
from agentforge.ports.provider import Capabilities, ExecuteRequest, ExecuteResult

Act = Callable[[ExecuteRequest], ExecuteResult]
"""What an attempt does: write files, return its output."""


class ScriptedProvider:
    """Plays one act per call, in order, the last one for ever; or asks a function which act to play."""

    def __init__(
        self,
        script: Sequence[Act] | Callable[[ExecuteRequest], Act],
        *,
        name: str = "scripted",
        concurrent: bool = True,
        resumes: bool = False,
        seconds: float = 0.0,
        unusable: str = "",
        uses_files: bool = True,
    ) -> None:
        """`uses_files`: acts may write files; otherwise they return their results (`returns`)."""
        self._script = script
        self._name = name
        self._concurrent = concurrent
        self._resumes = resumes
        self._seconds = seconds
        self._unusable = unusable
        self._uses_files = uses_files
        self.calls: list[ExecuteRequest] = []
        self.lifecycle: list[str] = []
        """`init`, `validate` and `shutdown`, in the order they were called."""
        self.at_once = 0
        self.most_at_once = 0

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
            concurrent=self._concurrent, supports_resume=self._resumes, uses_files=self._uses_files
        )

    def validate(self) -> None:
        self.lifecycle.append("validate")
        if self._unusable:
            raise ProviderUnusable(self._unusable)

    async def execute(self, request: ExecuteRequest) -> ExecuteResult:
        self.calls.append(request)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self._seconds)
            return self._act(request)(request)
        finally:
            self.at_once -= 1

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
    **more: Any,
) -> Act:
    """A success: the summary in result.json, the output said."""
    result = {"summary": summary, "decision": decision, **more}
    return writes(
        msgspec.json.encode(result).decode(), output=summary if output is None else output, usage=usage
    )


def returns(summary: str, decision: str = "continue", output: str | None = None, **more: Any) -> Act:
    """A success without files: the result is returned."""
    result = {"summary": summary, "decision": decision, **more}
    return lambda _: ExecuteResult(output=summary if output is None else output, result=result)


def writes(result: str, output: str = "", *, usage: Usage | None = None) -> Act:
    """This text as result.json, whatever it is."""

    def act(request: ExecuteRequest) -> ExecuteResult:
        Path(request.result_path).write_text(result, encoding="utf-8")
        return ExecuteResult(output=output, usage=usage)

    return act


def writes_status(output: str = "", **status: Any) -> Act:
    """The older status.json instead of a result."""

    def act(request: ExecuteRequest) -> ExecuteResult:
        Path(request.status_path).write_text(msgspec.json.encode(status).decode(), encoding="utf-8")
        return ExecuteResult(output=output)

    return act


def writes_nothing(output: str = "") -> Act:
    """An agent that ends well and leaves no result."""
    return lambda _: ExecuteResult(output=output)


def crashes(exit_code: int = 1, output: str = "boom") -> Act:
    return lambda _: ExecuteResult(output=output, exit_code=exit_code)


def fails(failure: Failure, output: str = "", *, usage: Usage | None = None) -> Act:
    """A failure that the provider itself knows the kind of."""
    return lambda _: ExecuteResult(output=output, failure=failure, usage=usage)


def raises(error: Exception) -> Act:
    def act(_: ExecuteRequest) -> ExecuteResult:
        raise error

    return act
