"""The sources port on the local file system."""

import glob
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from agentforge.host import files
from agentforge.model.errors import StorageFailed

_BUILTIN = Path(__file__).resolve().parent.parent / "builtin"
_INPUT_SUFFIXES = (".md", ".yaml", ".json", ".txt")


class FileSources:
    """Everything is read when it is asked for; `environment` is what the caller hands over."""

    def __init__(
        self, project: str | Path, environment: Mapping[str, str], *, builtin: str | Path = _BUILTIN
    ) -> None:
        self._project = Path(project).absolute()
        self._environment = environment
        self._builtin = Path(builtin).absolute()

    @property
    def project(self) -> str:
        return str(self._project)

    @property
    def environment(self) -> Mapping[str, str]:
        return self._environment

    @property
    def builtin(self) -> str:
        return str(self._builtin)

    def read(self, path: str) -> str | None:
        """Byte for byte: line ends stay, and bytes that aren't UTF-8 become surrogates."""
        try:
            content = files.read_bytes(path)
        except StorageFailed as error:
            if isinstance(error.__cause__, PermissionError):
                raise
            return None  # A folder, a loop of links.
        except ValueError:
            return None  # A name that can't exist.
        return None if content is None else content.decode("utf-8", "surrogateescape")

    def is_dir(self, path: str) -> bool:
        try:
            return Path(path).is_dir()
        except (OSError, ValueError):
            return False

    def listing(self, path: str) -> Sequence[str]:
        try:
            return sorted(files.listing(path))
        except (StorageFailed, ValueError):
            return ()

    def expand(self, pattern: str) -> Sequence[str]:
        path = os.path.normpath(self._project / pattern)
        try:
            if Path(path).is_file():
                return (path,)
            if Path(path).is_dir():
                return sorted(_texts_below(path))
            # Path.glob refuses absolute patterns, and those are what callers type.
            found = glob.glob(path, recursive=True)
        except (OSError, ValueError):
            return ()
        return sorted({os.path.normpath(name) for name in found if Path(name).is_file()})

    def now(self) -> datetime:
        return datetime.now(UTC)


def _texts_below(folder: str) -> list[str]:
    return [
        str(Path(parent) / name)
        for parent, _, names in os.walk(folder)
        for name in names
        if name.endswith(_INPUT_SUFFIXES)
    ]
