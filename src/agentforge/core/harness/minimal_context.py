"""A task for a model with only what it needs: instructions, data and tools. Needs the extra `api`."""

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentforge import ExtraTool, InvalidRequest, LoopOutcome, plain_data, run_model_task
from agentforge.provider import Failure, FailureKind, Usage

DEFAULT_MODEL = "claude-sonnet-4-6"
"""If neither the program nor the settings of the project name one. Later ones have no temperature."""
TRANSIENT = frozenset(
    {
        FailureKind.PROVIDER_TIMEOUT,
        FailureKind.PROVIDER_QUOTA,
        FailureKind.PROVIDER_RATE_LIMITED,
        FailureKind.PROVIDER_OVERLOADED,
        FailureKind.PROVIDER_UNREACHABLE,
        FailureKind.PROVIDER_CRASHED,
    }
)
"""Failures after which the same task may succeed later."""


class ModelFailed(Exception):
    """The model didn't complete its task."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure

    @property
    def is_transient(self) -> bool:
        return self.failure.kind in TRANSIENT


class MinimalContextExecutor:
    def __init__(
        self,
        project_path: str | os.PathLike[str],
        task_type: str = "task",
        *,
        model: str = "",
        config: Mapping[str, Any] | None = None,
        on_usage: Callable[[Usage], object] | None = None,
    ) -> None:
        """`config`: settings of the provider `api`, such as `max_tokens`, `temperature` and `base_url`.
        Without a model, that of the project's settings is used, if their provider is `api`. `on_usage` is
        called with what each task used, also if it failed."""
        self.project_path = project_path
        self.task_type = task_type
        self._model = model
        self._config = {"model": DEFAULT_MODEL, **(config or {})}
        self._on_usage = on_usage or (lambda _: None)

    def execute_task(
        self,
        task_description: str,
        system_prompt: str = "",
        context: Mapping[str, Any] | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
        max_iterations: int = 10,
    ) -> dict[str, Any]:
        """Returns `response` (also as `content`), `tool_results` (a list of `tool_name`, `input` and
        `result`), `final_artifact` (the input of the call that ended the task) and `usage`. Raises
        ModelFailed.

        A tool has a `name`, and may have a `description`, an `input_schema`, a `handler`, and `ends`: a valid
        call of it ends the task. Without a handler, one with the name of a built-in tool, such as
        `read_file`, is that tool; calls of others are only recorded.
        """
        extra = [_tool(one) for one in tools or ()]
        outcome = run_model_task(
            _prompt(task_description, context),
            project=self.project_path,
            model=self._model,
            system=system_prompt,
            tools=extra,
            handlers={one["name"]: one["handler"] for one in tools or () if one.get("handler")},
            config={**self._config, "max_steps": max_iterations},
        )
        if outcome.usage is not None:
            self._on_usage(outcome.usage)
        if outcome.failure is not None:
            raise ModelFailed(outcome.failure)
        return _result(outcome, {tool.name for tool in extra if tool.ends})


def _tool(given: Mapping[str, Any]) -> ExtraTool:
    if not isinstance(given.get("name"), str):
        raise InvalidRequest(f"a tool has no name: {plain_data(given)!r}", hint="add its `name`")
    schema = given.get("input_schema") or {"type": "object"}
    return ExtraTool(given["name"], str(given.get("description") or ""), schema, bool(given.get("ends")))


def _prompt(description: str, context: Mapping[str, Any] | None) -> str:
    if not context:
        return description
    data = json.dumps(plain_data(context), indent=2, ensure_ascii=False)
    return f"{description}\n\n# Context\n\n{quoted(data, 'json')}\n"


def quoted(text: str, language: str = "") -> str:
    """The text as a block that nothing in it can end."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}{language}\n{text}\n{fence}"


def _result(outcome: LoopOutcome, endings: set[str]) -> dict[str, Any]:
    calls = [
        {"tool_name": call.tool_name, "input": call.input, "result": call.result}
        for call in outcome.tool_calls
    ]
    last = calls[-1] if calls else None
    return {
        "response": outcome.text,
        "content": outcome.text,
        "tool_results": calls,
        "final_artifact": last["input"] if last and last["tool_name"] in endings else None,
        "usage": plain_data(outcome.usage),
    }
