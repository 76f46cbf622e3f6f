"""Data too large for a line of the log: `payloads/<sha256>.json` beside it, durable before it is named."""

import os
import re
from hashlib import sha256

from agentforge.host import files
from agentforge.host.disk import Disk, Patience
from agentforge.model.codec import DamagedLine, Payload
from agentforge.model.errors import StorageFailed

_NAME = re.compile(r"[0-9a-f]{64}")


def payload_of(data: bytes) -> Payload:
    return Payload(sha256(data).hexdigest(), len(data))


def checked(data: bytes | None, payload: Payload) -> bytes:
    """The data if it is what the line named."""
    if data is None:
        raise DamagedLine(f"its payload {payload.sha256[:12]} is missing")
    if payload_of(data) != payload:
        raise DamagedLine(f"its payload {payload.sha256[:12]} isn't what was written: {len(data)} bytes")
    return data


class PayloadStore:
    def __init__(self, directory: str, disk: Disk, patience: Patience) -> None:
        self._directory = directory
        self._disk = disk
        self._patience = patience

    def save(self, data: bytes) -> Payload:
        payload = payload_of(data)
        # Written anew on each try.
        self._patience.insist(
            f"can't write a payload to {self._directory}", lambda: self._write(payload, data)
        )
        return payload

    def load(self, payload: Payload) -> bytes:
        # The name comes from a file, so it is checked before it becomes a path.
        if not _NAME.fullmatch(payload.sha256):
            raise DamagedLine("its payload has no proper name")
        try:
            return checked(files.read_bytes(self._path(payload)), payload)
        except StorageFailed as error:
            raise DamagedLine(f"its payload {payload.sha256[:12]} can't be read: {error.message}") from error

    def _write(self, payload: Payload, data: bytes) -> None:
        self._disk.make_directories(self._directory)
        self._disk.replace(self._path(payload), data)

    def _path(self, payload: Payload) -> str:
        return os.path.join(self._directory, f"{payload.sha256}.json")
