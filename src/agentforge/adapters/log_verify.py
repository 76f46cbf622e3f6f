"""Everything that can be said about a log without its lease. Detects accidents, not tampering: whoever
can write the file can also write a chain that fits."""

from pathlib import Path

from msgspec import Struct

from agentforge.adapters.jsonl_file import snapshot_of
from agentforge.adapters.log_reader import Reader
from agentforge.adapters.payload_store import PayloadStore
from agentforge.host.disk import Disk, Patience
from agentforge.model.codec import Payload
from agentforge.model.errors import UnknownRun
from agentforge.ports.event_log import Damage, Head, TornTail


class LogReport(Struct, frozen=True):
    lines: int
    events: int
    payloads: int
    """Payloads that are whole."""
    damage: tuple[Damage, ...]
    torn: TornTail | None
    head: Head

    @property
    def is_intact(self) -> bool:
        """Whether every line is an event and the chain holds; a torn tail is repaired on the next run."""
        return not self.damage


class _CountedPayloads(PayloadStore):
    whole = 0

    def load(self, payload: Payload) -> bytes:
        data = super().load(payload)
        self.whole += 1
        return data


def verify(path: str | Path) -> LogReport:
    if not Path(path).is_file():
        raise UnknownRun(
            f"there is no log at {path}", hint="`agentforge list` shows the runs of this project"
        )
    payloads = _CountedPayloads(str(Path(path).with_name("payloads")), Disk(), Patience())
    reader = Reader(lambda: snapshot_of(str(path), payloads))
    events = sum(1 for _ in reader.events())
    return LogReport(reader.lines, events, payloads.whole, tuple(reader.damage), reader.torn, reader.head)
