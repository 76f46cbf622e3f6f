"""The file with patterns that the user has for all repositories: `core.excludesFile` of the user's or the
system's configuration, never that of a repository."""

import os
from collections.abc import Mapping

from agentforge.adapters.host.git_call import call_git
from agentforge.ports.tree import NoTree
from agentforge.system import files

_SCOPES = frozenset({"system", "global"})


class GitExcludes:
    def __init__(self, project: str, environ: Mapping[str, str], seconds: float) -> None:
        self._project = project
        self._environ = environ
        self._seconds = seconds
        self._path: str | None = None

    def options(self) -> tuple[str, ...]:
        """Of `git ls-files`. Git refuses a missing file, and waits for a pipe."""
        if self._path is None:
            self._path = self._configured()
        return ("--exclude-from", self._path) if files.is_file(os.path.realpath(self._path)) else ()

    def _configured(self) -> str:
        key = ("--type=path", "--show-scope", "-z", "--get-all", "core.excludesFile")
        found = call_git(self._project, self._environ, "config", *key, seconds=self._seconds)
        words = [] if isinstance(found, NoTree) else os.fsdecode(found.stdout).split("\0")
        paths = [path for scope, path in zip(words[::2], words[1::2], strict=False) if scope in _SCOPES]
        home = self._environ.get("HOME", "")
        settings = self._environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
        path = paths[-1] if paths else os.path.join(settings, "git", "ignore")
        return path if os.path.isabs(path) else os.path.join(self._project, path)
