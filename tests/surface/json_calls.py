"""Calls commands with --json, and compares what they print with docs/json-output.md."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.surface.json_page import PAGE, Comparison, read_page
from tests.surface.terminal import Done, Project

Examples = Mapping[tuple[str, str], Sequence[str]]
"""Arguments by the command and the object of the page that it prints."""
OUTPUT_LINE = "output line"


class Calls:
    def __init__(self, project: Project) -> None:
        self._project = project
        self._comparison = Comparison(read_page(PAGE.read_text(encoding="utf-8")))

    def call_all(self, examples: Examples) -> None:
        for (command, object), arguments in examples.items():
            self.call(command, object, arguments)

    def call(self, command: str, object: str, arguments: Sequence[str]) -> Any:
        return self.compare(command, object, self._project.call(*arguments, "--json"))

    def compare(self, command: str, object: str, done: Done) -> Any:
        """What was printed. Some commands print an object on each line."""
        if not done.out:
            raise AssertionError(f"{command}: {done.err}")
        if object in ("event", OUTPUT_LINE):
            lines = [json.loads(line) for line in done.out.splitlines()]
            value = [line for line in lines if (line["type"] == "output") == (object == OUTPUT_LINE)]
            self._comparison.compare_all(value, object, command)
            return value
        value = done.json["error"] if object == "error" else done.json
        self._comparison.compare(value, object, command)
        return value

    def problems(self, shown: Sequence[str]) -> list[str]:
        """What was printed and isn't documented, or the reverse; and the paths of the shown objects that were
        not printed."""
        unseen = {f"{path}: not shown" for object in shown for path in self._comparison.unseen(object)}
        return sorted(self._comparison.problems | unseen)
