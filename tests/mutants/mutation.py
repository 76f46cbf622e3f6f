"""One hand-made bug: a short piece of a module's code, what stands there instead, and who should notice."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


class StaleMutation(Exception):
    """The code that a mutation changes isn't there any more, or not only once."""


@dataclass(frozen=True)
class Mutation:
    module: str
    """By its dotted name."""
    bug: str
    old: str
    new: str
    tests: tuple[str, ...] = ()
    """Files or folders, and `file::test`; empty: those that NEAR names for the module."""
    equivalent: str = ""
    """Why no test can notice, if so: then it isn't run and doesn't count."""

    @property
    def package(self) -> str:
        return PACKAGES.get(self.module) or self.module.split(".")[1]

    def path(self, source: Path = SOURCE) -> Path:
        return source.joinpath(*self.module.split(".")).with_suffix(".py")

    def mutated(self, source: Path = SOURCE) -> str:
        """The module's text with the bug in it."""
        path = self.path(source)
        if not path.exists():
            raise StaleMutation(f"{self.module}: there is no such module")
        text = path.read_text()
        if (found := text.count(self.old)) != 1:
            raise StaleMutation(f"{self.module}, {self.bug!r}: its code occurs {found} times, not once")
        return text.replace(self.old, self.new)

    def apply(self, folder: Path) -> Path:
        """A copy of the source with the bug in it; what goes into PYTHONPATH."""
        source = folder / "src"
        shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("__pycache__"))
        self.path(source).write_text(self.mutated())
        return source


PACKAGES = {
    "agentforge.adapters.cli_agents.program": "redaction",
    "agentforge.adapters.processes.marked_tree": "supervisor",
    "agentforge.runtime.supervisor": "supervisor",
    "agentforge.runtime.supervision": "supervisor",
    "agentforge.runtime.exit_record": "supervisor",
    "agentforge.adapters.log.writer": "log",
    "agentforge.adapters.log.reader": "log",
    "agentforge.adapters.log.scan": "log",
    "agentforge.adapters.log.file": "log",
    "agentforge.adapters.log.log": "log",
    "agentforge.adapters.log.lease": "log",
    "agentforge.system.disk": "log",
    "agentforge.model.codec": "log",
    "agentforge.adapters.sandboxes.bwrap": "sandbox",
    "agentforge.adapters.sandboxes.docker": "sandbox",
    "agentforge.adapters.sandboxes.mounts": "sandbox",
    "agentforge.runtime.tasks.call": "sandbox",
    "agentforge.tool_loop.workspace": "sandbox",
    "agentforge.model.secrets": "redaction",
    "agentforge.app.redaction": "redaction",
}
"""Modules that are reported under another name than their package's."""


def environment(source: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
