"""A JSONL log in a folder, for the contract and for the tests of the file itself."""

import time
from collections.abc import Callable
from pathlib import Path

from agentforge.adapters.log.jsonl_log import JsonlLog
from agentforge.adapters.log.writer import Buffering
from agentforge.ports.event_log import EventLog


class JsonlHarness:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "run" / "events.jsonl"

    def log(
        self,
        *,
        buffer_events: int = 100,
        flush_seconds: float = 1.0,
        monotonic: Callable[[], float] | None = None,
    ) -> EventLog:
        return JsonlLog(
            self.path,
            Buffering(buffer_events, flush_seconds, monotonic=monotonic or time.monotonic),
            sleep=lambda _: None,
        )

    @property
    def data(self) -> bytes:
        return self.path.read_bytes() if self.path.exists() else b""

    def put(self, data: bytes) -> None:
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_bytes(data)

    def payloads(self) -> dict[str, bytes]:
        folder = self.path.with_name("payloads")
        return {path.stem: path.read_bytes() for path in folder.glob("*.json")}

    def put_payload(self, name: str, data: bytes | None) -> None:
        path = self.path.with_name("payloads") / f"{name}.json"
        path.unlink() if data is None else path.write_bytes(data)
