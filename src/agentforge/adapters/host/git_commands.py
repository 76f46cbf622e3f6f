"""Calls git for the trees of a project, with limits of time and output."""

import os
from collections.abc import Mapping

from agentforge.adapters.host.tree_scan import TooMuch, TreeFailed
from agentforge.system import files
from agentforge.system.git import git_program
from agentforge.system.programs import NoExit, ProgramResult, run

MAX_LISTING = 128 * 1024 * 1024
_SCOPES = frozenset({"system", "global"})
"""Of the user's own configuration."""


class GitCommands:
    def __init__(self, project: str, environ: Mapping[str, str], seconds: float) -> None:
        self._project = project
        self._environ = environ
        self._seconds = seconds
        self._excludes_file: str | None = None

    def call(
        self, *arguments: str, stdin: bytes = b"", max_output: int = MAX_LISTING, below: str = ""
    ) -> ProgramResult:
        """In the project, or in a folder `below` it. Raises TreeFailed, and TooMuch at the time limit."""
        root, seconds = os.path.join(self._project, below) if below else self._project, self._seconds
        program = git_program(
            root, self._environ, *arguments, timeout=seconds, max_output=max_output, stdin=stdin
        )
        ended = run(program)
        if ended.reason is NoExit.MISSING:
            raise TreeFailed("git is not installed")
        if ended.reason is NoExit.TIMED_OUT:
            raise TooMuch(f"git {arguments[0]} took longer than {seconds:g} s")
        if ended.code != 0 or ended.truncated:
            raise TreeFailed(f"git {arguments[0]}: {ended.last_error or ended.problem or 'too much output'}")
        return ended

    def excludes(self) -> tuple[str, ...]:
        """The options of `git ls-files` for the file with patterns that the user has for all repositories:
        `core.excludesFile` of the user's or the system's configuration, never that of a repository."""
        if self._excludes_file is None:
            self._excludes_file = self._configured_excludes()
        # Git refuses a missing file, and waits for a pipe.
        is_usable = files.is_file(os.path.realpath(self._excludes_file))
        return ("--exclude-from", self._excludes_file) if is_usable else ()

    def _configured_excludes(self) -> str:
        key = ("--type=path", "--show-scope", "-z", "--get-all", "core.excludesFile")
        try:
            words = os.fsdecode(self.call("config", *key).stdout).split("\0")
        except TreeFailed:
            words = []
        paths = [path for scope, path in zip(words[::2], words[1::2], strict=False) if scope in _SCOPES]
        home = self._environ.get("HOME", "")
        settings = self._environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
        path = paths[-1] if paths else os.path.join(settings, "git", "ignore")
        return path if os.path.isabs(path) else os.path.join(self._project, path)
