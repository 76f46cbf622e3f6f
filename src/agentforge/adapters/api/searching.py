"""The tool that searches, as a process of its own: there are patterns with which the matcher never ends, and
only a process can be ended then."""

import sys
from collections.abc import Mapping

import msgspec

from agentforge.adapters.api.commands import run_tool
from agentforge.adapters.api.program import program_argv
from agentforge.adapters.api.search import SECONDS
from agentforge.adapters.api.workspace import ToolError, Workspace

OUTPUT_BYTES = 128 * 1024


class SearchTool:
    def __init__(self, workspace: Workspace, environ: Mapping[str, str]) -> None:
        self._root = workspace.root
        self._environ = environ

    async def search_code(self, pattern: str, path: str = ".", files: str = "*") -> str:
        asked = msgspec.json.encode([self._root, pattern, path, files]).decode()
        argv = program_argv(sys.executable, "search", asked)
        ran = await run_tool(argv, self._root, self._environ, SECONDS + 5, OUTPUT_BYTES)
        if ran.code is None:
            raise ToolError("the search took too long: give a simpler pattern or a narrower path")
        if ran.code:
            raise ToolError(ran.output.strip() or "the search failed")
        return ran.output.rstrip("\n")
