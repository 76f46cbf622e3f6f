"""What the model is told about our tools: a description and the schema of the input, by name."""

from typing import Any

_PATH = {"type": "string", "description": "Relative to the workspace."}


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
            lines={"type": "integer", "minimum": 0, "description": "How many; all if it isn't given."},
        ),
    ),
    "write_file": (
        "Write a whole file; missing folders are made, an existing file is replaced.",
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
            path={**_PATH, "description": "A folder or a file to search; the whole workspace if not given."},
            files={"type": "string", "description": "A shell pattern for file names, such as *.py."},
        ),
    ),
    "run_command": (
        "Run one program in the workspace, without a shell. If it isn't allowed, the answer says which are.",
        _input(
            ("command",),
            command={
                "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
                "description": "A line, or a list of the program and its arguments.",
            },
            seconds={"type": "number", "exclusiveMinimum": 0, "description": "When to end it."},
        ),
    ),
}
