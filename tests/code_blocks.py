"""The code blocks of a Markdown page, in order.

A block whose first line is a comment with a path is the content of that file. A shell block that can't run in
an empty folder says so in its first line: `# In a clone:`, or `# Needs …`.
"""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PATH = re.compile(r"(?:# |<!-- )([\w./-]+\.\w+)(?: -->)?\n")
_MARKER = re.compile(r"# (In a clone:|Needs .*\.)\n")


class CodeBlock(NamedTuple):
    page: str
    line: int
    language: str
    text: str

    @property
    def path(self) -> str:
        """The file that it is the content of, or empty."""
        found = _PATH.match(self.text)
        return found[1] if found else ""

    @property
    def marker(self) -> str:
        """Why it can't run in an empty folder, or empty."""
        found = _MARKER.match(self.text)
        return found[1] if found else ""

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def code_blocks(page: str, language: str = "") -> list[CodeBlock]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [
        CodeBlock(page, text.count("\n", 0, match.start()) + 1, match[1], match[2])
        for match in _BLOCK.finditer(text)
    ]
    return [block for block in found if language in ("", block.language)]
