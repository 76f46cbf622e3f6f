"""The lines that agent-pipelines' own engine wrote into a log before ours: counted, hashed, and read."""

from hashlib import sha256

from agentforge.model.event import Event
from agentforge.model.original import Upcaster

_HASH_CHARS = 32


class OriginalPrefix:
    def __init__(self) -> None:
        self._sha = sha256()
        self._upcaster = Upcaster()
        self.lines = 0

    def take(self, line: bytes) -> None:
        self.lines += 1
        self._sha.update(line)
        self._sha.update(b"\n")

    def events(self, line: bytes) -> list[Event]:
        """What the line that was taken last says; raises DamagedLine. Asked for every line, or for none."""
        return self._upcaster.take(line, self.lines)

    @property
    def sha256(self) -> str:
        return self._sha.hexdigest()

    @property
    def hash(self) -> str:
        """What the first line of ours is chained to."""
        return self.sha256[:_HASH_CHARS]
