"""The tool that searches, as a process of its own: there are patterns with which the matcher never ends, and
only a process can be ended then."""

import sys
from collections.abc import Mapping

import msgspec

from agentforge.adapters.api.processes import run_program
from agentforge.adapters.api.search import SECONDS
from agentforge.adapters.api.start import program_argv
from agentforge.adapters.api.workspace import ToolError, Workspace

OUTPUT_BYTES = 128 * 1024


class SearchTool:
    def __init__(self, workspace: Workspace, environ: Mapping[str, str]) -> None:
        self._root = workspace.root
        self._environ = environ

    async def search_code(self, pattern: str, path: str = ".", files: str = "*") -> str:
        asked = msgspec.json.encode([self._root, pattern, path, files]).decode()
        ran = await run_program(
            program_argv(sys.executable, "search", asked),
            self._root,
            self._environ,
            seconds=SECONDS + 5,
            output_bytes=OUTPUT_BYTES,
        )
        if ran.timed_out:
            raise ToolError("the search took too long: give a simpler pattern or a narrower path")
        if ran.status:
            raise ToolError(ran.output.strip() or "the search failed")
        return ran.output.rstrip("\n")
