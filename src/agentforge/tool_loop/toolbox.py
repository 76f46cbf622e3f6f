"""The tools that a model is given: built-in ones and the caller's. Errors of a tool are returned to the
model. Calls are validated here, since pydantic-ai shows the schema to the model but doesn't enforce it."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from pydantic_ai import Tool
from pydantic_core import SchemaValidator, core_schema

from agentforge.system.schemas import JsonSchema
from agentforge.tool_loop.commands import CommandTool, SearchTool
from agentforge.tool_loop.task import ModelTask, ProgressEvent, ToolAnswered, ToolCall, ToolCalled
from agentforge.tool_loop.workspace import FileTools, ToolError, WorkspaceFolder

# No error of a tool ends the loop, neither a wrong input nor an exception in the code of the caller: the
# model reads it as the answer of the call, and can try something else.
#
# Schemas come from the definition, as that of the result does, so references in them are resolved within the
# schema only. Resolving an address would let a repository make this process send requests.

_PATH = {"type": "string", "description": "Relative to the workspace."}
SHOWN_CHARACTERS = 500
RECORDED = "recorded"
_OBJECT = SchemaValidator(core_schema.dict_schema(core_schema.str_schema(), core_schema.any_schema()))


def _input(required: tuple[str, ...], **properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


SCHEMAS: dict[str, tuple[str, dict[str, Any]]] = {
    "read_file": (
        "Read a text file, or some of its lines.",
        _input(
            ("path",),
            path=_PATH,
            first_line={"type": "integer", "minimum": 1},
            lines={"type": "integer", "minimum": 0, "description": "How many lines; default: all."},
        ),
    ),
    "write_file": (
        "Write a whole file; creates missing folders and replaces an existing file.",
        _input(("path", "content"), path=_PATH, content={"type": "string"}),
    ),
    "edit_file": (
        "Replace a piece of a file's text. `old` must occur exactly once.",
        _input(("path", "old", "new"), path=_PATH, old={"type": "string"}, new={"type": "string"}),
    ),
    "list_directory": ("List a folder.", _input((), path=_PATH)),
    "search_code": (
        "Find the lines that match a regular expression (Python's), as `path:line: text`.",
        _input(
            ("pattern",),
            pattern={"type": "string"},
            path={**_PATH, "description": "A folder or file to search; default: the whole workspace."},
            files={"type": "string", "description": "A shell pattern for file names, such as *.py."},
        ),
    ),
    "run_command": (
        "Run one program in the workspace, without a shell. An error lists the allowed programs.",
        _input(
            ("command",),
            command={
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
                "description": "A line, or a list of the program and its arguments.",
            },
            seconds={"type": "number", "exclusiveMinimum": 0, "description": "Timeout in seconds."},
        ),
    ),
}


Handler = Callable[..., str | Awaitable[str]]
"""Takes the call's input as keyword arguments."""
ProgressReport = Callable[[ProgressEvent], None]


class Toolbox:
    def __init__(
        self,
        task: ModelTask,
        workspace: WorkspaceFolder,
        environ: Mapping[str, str],
        report: ProgressReport,
        handlers: Mapping[str, Handler],
    ) -> None:
        self._task = task
        self._report = report
        self._handlers = handlers
        self._files = FileTools(workspace)
        self.calls: list[ToolCall] = []
        commands = CommandTool(workspace, task.commands, environ)
        self._ours: dict[str, Handler] = {
            "read_file": self._files.read_file,
            "write_file": self._files.write_file,
            "edit_file": self._files.edit_file,
            "list_directory": self._files.list_directory,
            "search_code": SearchTool(workspace, environ).search_code,
            "run_command": commands.run_command,
        }

    @property
    def touched(self) -> list[str]:
        return self._files.touched

    def tools(self) -> list[Tool[None]]:
        """The tools that don't end the task. They run one at a time, in the order of the model's calls."""
        extra = {tool.name: tool for tool in self._task.extra_tools}
        ours = [
            self._tool(name, *SCHEMAS[name], self._ours[name])
            for name in self._task.tools
            if name in self._ours and name not in extra
        ]
        theirs = [
            self._tool(
                tool.name,
                tool.description,
                tool.input_schema,
                self._handlers.get(tool.name, lambda **_: RECORDED),
            )
            for tool in extra.values()
            if not tool.ends
        ]
        return ours + theirs

    def note(self, name: str, given: dict[str, Any], answer: str) -> None:
        self.calls.append(ToolCall(name, given, answer))
        self._report(ToolAnswered(name, answer[:SHOWN_CHARACTERS]))

    def _tool(self, name: str, description: str, schema: dict[str, Any], handler: Handler) -> Tool[None]:
        check = JsonSchema(schema)

        async def call(**given: Any) -> str:
            self._report(ToolCalled(name, shortened(given)))
            wrong = schema_errors(check, given)
            answer = f"error: {'; '.join(wrong)}" if wrong else await _answer(handler, given)
            self.note(name, given, answer)
            return answer

        tool: Tool[None] = Tool.from_schema(call, name, description, schema, sequential=True)
        # Without this, input that is not an object ends the loop.
        tool.function_schema.validator = _OBJECT
        return tool


def schema_errors(schema: JsonSchema, data: Any) -> list[str]:
    """What doesn't match, with its place; empty if the data is valid."""
    return [mismatch.text for mismatch in schema.mismatches(data)]


def shortened(given: dict[str, Any]) -> dict[str, Any]:
    """The input with long texts shortened, for progress events."""
    return {
        key: value
        if not isinstance(value, str) or len(value) <= SHOWN_CHARACTERS
        else f"{value[:SHOWN_CHARACTERS]}…"
        for key, value in given.items()
    }


async def _answer(handler: Handler, given: dict[str, Any]) -> str:
    try:
        answer = handler(**given)
        return str(await answer if inspect.isawaitable(answer) else answer)
    except ToolError as error:
        return f"error: {error}"
    except Exception as error:
        # The model may continue without it; ending the loop would waste the work so far.
        return f"error: {type(error).__name__}: {error}"
