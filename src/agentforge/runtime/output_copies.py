"""Which files at output paths the engine wrote itself, from the messages of agents. Only those are replaced:
a report that an agent or a person wrote stays.

Kept by content, outside the project, so that the next run knows it, too; and before the copy is made, so that
a crash in between loses nothing.
"""

import logging
import os
from collections.abc import Mapping
from hashlib import sha256

import msgspec
from msgspec import Struct

from agentforge.model.errors import NOT_JSON, StorageFailed
from agentforge.runtime.state_folder import StateFolder
from agentforge.system import files
from agentforge.system.confined import ConfinedFolder

log = logging.getLogger("agentforge.run")

KIND = "outputs"
MAX_BYTES = 64 * 1024
MAX_COPY = 2 * 1024 * 1024
"""A copy is smaller: an agent's message is cut at 1 MB."""


class KeptCopies(Struct, frozen=True):
    target: str
    made: tuple[str, ...]
    """The hashes of what the engine wrote there last: the copy before a crash, and the one after it."""


class OutputCopies:
    def __init__(self, project: str, run_dir: str, environ: Mapping[str, str]) -> None:
        self._project = os.path.realpath(project)
        self._folder = StateFolder(run_dir, environ)

    def claim(self, project: ConfinedFolder, target: str, content: bytes) -> bool:
        """Whether the engine may write this content to the target: if nothing is there, or its own copy. Then
        the content is noted as its own. Raises OSError if the target can't be read."""
        found = self._found(project, target)
        if found is not None and found not in self._kept(target).made:
            return False
        made = [sha256(content).hexdigest(), *([found] if found else [])]
        self._keep(KeptCopies(target, tuple(dict.fromkeys(made))))
        return True

    def _found(self, project: ConfinedFolder, target: str) -> str | None:
        """The hash of what is there, or None if nothing is."""
        if project.stat(target) is None:
            return None
        content, size = project.read(target, MAX_COPY)
        return sha256(content).hexdigest() if size <= MAX_COPY else "too large"

    def _kept(self, target: str) -> KeptCopies:
        try:
            content = files.read_bytes(self._path(target), MAX_BYTES)
            found = msgspec.json.decode(content or b"", type=KeptCopies)
        except (StorageFailed, *NOT_JSON):
            return KeptCopies(target, ())
        return found

    def _keep(self, kept: KeptCopies) -> None:
        problem = self._folder.problem
        try:
            if not problem:
                self._folder.make(KIND)
                files.replace(self._path(kept.target), files.compact(kept))
        except StorageFailed as error:
            problem = error.message
        if problem:
            log.warning("%s will not be replaced by later messages: %s", kept.target, problem)

    def _path(self, target: str) -> str:
        return self._folder.path(KIND, self._project, os.path.relpath(target, self._project))
