"""A disk that remembers what is durable, so that a test can cut its power."""

import os
from pathlib import Path
from random import Random

from agentforge.system.disk import Disk

SECTOR = 512


class PowerCut(BaseException):
    """The machine stops: no code of the engine runs after it."""


class VolatileDisk(Disk):
    """Real, but it knows what of each file would survive. `calls_left`: the power is cut in that call.
    `call_seconds`: how long each call seems to take."""

    def __init__(self, calls_left: int | None = None, call_seconds: float = 0.0) -> None:
        self.calls_left = calls_left
        self.call_seconds = call_seconds
        self.clock = 0.0
        self.durable: dict[str, bytes] = {}
        """Content of the last sync, by path."""
        self.names: set[str] = set()
        """Paths whose folder was synced after they were created."""

    def now(self) -> float:
        return self.clock

    def _count(self) -> None:
        self.clock += self.call_seconds
        if self.calls_left is None:
            return
        self.calls_left -= 1
        if self.calls_left < 0:
            raise PowerCut

    def write(self, fd: int, data: bytes) -> int:
        if self.calls_left == 0:
            super().write(fd, data[: len(data) // 2])
        self._count()
        return super().write(fd, data)

    def write_at(self, fd: int, data: bytes, position: int) -> None:
        if self.calls_left == 0:
            super().write_at(fd, data[: len(data) // 2], position)
        self._count()
        super().write_at(fd, data, position)

    def truncate(self, fd: int, length: int) -> None:
        self._count()
        super().truncate(fd, length)

    def sync(self, fd: int) -> None:
        self._count()
        path = os.readlink(f"/proc/self/fd/{fd}")
        self.durable[path] = Path(path).read_bytes()

    def sync_directory(self, path: str) -> None:
        self._count()
        self.names |= {str(found) for found in Path(path).iterdir()}

    def survivors(self, folder: Path, chance: Random) -> dict[str, bytes]:
        """The files of a folder after the power was cut. What wasn't synced may be there, in part, or not."""
        found = {}
        for path in filter(Path.is_file, folder.iterdir()):
            durable, written = self.durable.get(str(path), b""), path.read_bytes()
            if str(path) in self.names or chance.random() < 0.5:
                found[path.name] = _mixed(durable, written, chance)
        return found


def _mixed(durable: bytes, written: bytes, chance: Random) -> bytes:
    """Each sector that was overwritten is old or new. A file that grew has any length in between; it ends in
    zeros if its length is newer than its content."""
    common = min(len(durable), len(written))
    mixed = bytearray()
    for at in range(0, common, SECTOR):
        source = written if chance.random() < 0.5 else durable
        mixed += source[at : min(at + SECTOR, common)]
    size, filled = sorted(chance.randint(common, max(common, len(written))) for _ in range(2))[::-1]
    return bytes(mixed) + written[common:filled] + bytes(size - filled)
