"""Empty folders that a sandbox needs where a path is missing: only an existing path can be protected from an
agent. They are removed when no agent is confined any more, after a crash by the next engine.

A mount ends when its folder is removed, in every sandbox. So engines that confine agents share a lock on the
record of these folders, and folders that are mounted anywhere, for an agent that outlived its engine, stay.
"""

import os
import sys

from agentforge.model.layout import is_inside, runs_dir
from agentforge.system import files
from agentforge.system.mount_points import mount_points

NAME = ".placeholders"
_MAX_BYTES = 1 << 16


class Placeholders:
    def __init__(self, project: str) -> None:
        self._project = project
        self._record = os.path.join(runs_dir(project), NAME)
        self._lock: int | None = None

    def hold(self) -> None:
        """Keep other engines from removing placeholders, until `tidy`."""
        if self._lock is None:
            files.make_dir(os.path.dirname(self._record))
            self._lock = files.lock_shared(self._record)

    def make(self, folder: str) -> None:
        """Create a folder of the project and its missing parents, noting them first."""
        missing = [folder]
        while not os.path.lexists(parent := os.path.dirname(missing[-1])):
            missing.append(parent)
        names = (os.path.relpath(path, self._project) for path in missing)
        files.append(self._record, "".join(f"{name}\n" for name in names).encode())
        files.make_dir(folder)

    def tidy(self) -> None:
        """Remove those that are empty, unless another engine or an agent needs them."""
        if sys.platform != "linux" or (self._lock is None and not files.is_file(self._record)):
            return  # Elsewhere, nothing tells whether a container uses them.
        self.hold()
        assert self._lock is not None
        descriptor, self._lock = self._lock, None
        try:
            if files.lock_alone(descriptor):
                files.overwrite(descriptor, self._remove())
        finally:
            os.close(descriptor)

    def _remove(self) -> bytes:
        """Returns the record of those that are still in use."""
        noted = (files.read_usable(self._record, _MAX_BYTES) or b"").decode("utf-8", "replace")
        names = [name for name in dict.fromkeys(noted.splitlines()) if name and is_inside(name)]
        mounted = mount_points() if names else frozenset()
        used = []
        for name in names:
            path = os.path.join(self._project, name)
            if path in mounted:
                used.append(name)
            else:
                files.remove_empty_dir(path)
        return "".join(f"{name}\n" for name in used).encode()
