"""Data too large for a line of the log: `payloads/<sha256>.json` beside it, durable before it is named."""

import os
import re
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from agentforge.adapters.disk import Disk, Patience, make_directories, storage_failed, write_file
from agentforge.model.codec import DamagedLine, Payload

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
        try:
            self._patience.insist(lambda: self._write(payload, data))
        except OSError as error:
            raise storage_failed(f"write a payload to {self._directory}", error) from error
        return payload

    def load(self, payload: Payload) -> bytes:
        # The name comes from a file, so it is checked before it becomes a path.
        if not _NAME.fullmatch(payload.sha256):
            raise DamagedLine("its payload has no proper name")
        try:
            data = Path(self._path(payload)).read_bytes()
        except FileNotFoundError:
            return checked(None, payload)
        except OSError as error:
            raise DamagedLine(f"its payload {payload.sha256[:12]} can't be read: {error.strerror}") from error
        return checked(data, payload)

    def _write(self, payload: Payload, data: bytes) -> None:
        # Written anew on each try and under another name first: whatever a crash leaves is never read.
        unfinished = self._path(payload) + ".tmp"
        make_directories(self._disk, self._directory)
        try:
            write_file(self._disk, unfinished, (data,), flags=os.O_TRUNC)
            self._disk.rename(unfinished, self._path(payload))
        except OSError:
            with suppress(OSError):
                Path(unfinished).unlink()
            raise
        self._disk.sync_directory(self._directory)

    def _path(self, payload: Payload) -> str:
        return str(Path(self._directory) / f"{payload.sha256}.json")
