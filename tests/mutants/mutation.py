"""One mutation: a short piece of a module's code, its replacement, and the tests that should catch it."""

import os
import shutil
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"


def path_of(module: str, source: Path = SOURCE) -> Path:
    return source.joinpath(*module.split(".")).with_suffix(".py")


class StaleMutation(Exception):
    """The code that a mutation changes doesn't exist exactly once."""


@dataclass(frozen=True)
class Mutation:
    module: str
    """The dotted name."""
    bug: str
    old: str
    new: str
    tests: tuple[str, ...] = ()
    """Files, folders or `file::test`; empty: those listed in NEAR for the module."""
    equivalent: str = ""
    """Why no test can catch it; such a mutation isn't run and doesn't count."""

    @property
    def package(self) -> str:
        return PACKAGES.get(self.module) or self.module.split(".")[1]

    def path(self, source: Path = SOURCE) -> Path:
        return path_of(self.module, source)

    def mutated(self, source: Path = SOURCE) -> str:
        """The module's text with the bug."""
        path = self.path(source)
        if not path.exists():
            raise StaleMutation(f"{self.module}: no such module")
        text = path.read_text()
        if (found := text.count(self.old)) != 1:
            raise StaleMutation(f"{self.module}, {self.bug!r}: its code occurs {found} times, not once")
        return text.replace(self.old, self.new)

    def apply(self, folder: Path) -> Path:
        """Copy the source with the bug; returns the folder for PYTHONPATH."""
        source = folder / "src"
        # With the bytecode of all the other modules; files with another end are being written.
        shutil.copytree(SOURCE, source, ignore=shutil.ignore_patterns("*.pyc.*"))
        path = self.path(source)
        path.write_text(self.mutated())
        Path(cache_from_source(str(path))).unlink(missing_ok=True)
        return source


PACKAGES = {
    "agentforge.adapters.cli_agents.program": "redaction",
    "agentforge.adapters.processes.marked_tree": "supervisor",
    "agentforge.runtime.supervisor": "supervisor",
    "agentforge.runtime.supervision": "supervisor",
    "agentforge.runtime.attempt_folder": "supervisor",
    "agentforge.adapters.log.writer": "log",
    "agentforge.adapters.log.reader": "log",
    "agentforge.adapters.log.scan": "log",
    "agentforge.adapters.log.jsonl_file": "log",
    "agentforge.adapters.log.jsonl_log": "log",
    "agentforge.adapters.log.lease": "log",
    "agentforge.adapters.log.write_ahead": "log",
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
"""Modules that are reported under another name than that of their package."""


def environment(source: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
