"""Where the engine keeps what it must know about runs without trusting their project: the user's state
folder. Nothing in a repository, and no confined agent, can write there."""

import os
from collections.abc import Mapping
from hashlib import sha256

from agentforge.model.errors import StorageFailed
from agentforge.system import files


class StateFolder:
    """The files that are kept about one run folder."""

    def __init__(self, run_dir: str, environ: Mapping[str, str]) -> None:
        home = environ.get("XDG_STATE_HOME") or os.path.join(environ.get("HOME", ""), ".local", "state")
        self.run_dir = os.path.realpath(run_dir)
        self.root = os.path.join(os.path.realpath(home), "agentforge")
        self.problem = self._problem(home)
        """Why nothing can be kept; empty if it can."""

    def path(self, kind: str, run_id: str, run_dir: str = "") -> str:
        """The file of the run in this folder, or in another one."""
        return os.path.join(self.root, kind, f"{_digest(run_id)}-{_digest(run_dir or self.run_dir)}.json")

    def of_other_places(self, kind: str, run_id: str) -> list[str]:
        """The files that are kept about the same run in other folders."""
        folder, mine = os.path.split(self.path(kind, run_id))
        try:
            names = files.listing(folder)
        except StorageFailed:
            return []
        return [f"{folder}/{name}" for name in names if name != mine and name.startswith(_digest(run_id))]

    def make(self, kind: str) -> None:
        files.make_dir(self.root)
        files.make_dir(os.path.join(self.root, kind))

    def _problem(self, home: str) -> str:
        if not os.path.isabs(home):
            return "neither XDG_STATE_HOME nor HOME is an absolute path"
        project = os.path.dirname(os.path.dirname(os.path.dirname(self.run_dir)))
        if os.path.commonpath([os.path.realpath(self.root), project]) == project:
            return f"{self.root} is inside the project, where a repository or an agent can write"
        return ""


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]
