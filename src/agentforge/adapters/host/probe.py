"""What this machine has: programs with their versions, how fast a write becomes durable, which model server
answers on loopback, and which file system a path lies on."""

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from statistics import median
from time import perf_counter
from typing import Any

from msgspec import Struct

from agentforge.system import files, programs

VERSION_SECONDS = 5.0
SYNCS = 5

_VERSION = re.compile(r"\d+\.\d+[\w.+-]*")
LOOPBACK = "127.0.0.1"
PROBE_SECONDS = 1.0
MOST_BYTES = 1_000_000


class ProgramInfo(Struct, frozen=True):
    path: str
    version: str
    """Empty if it doesn't tell."""

    @property
    def words(self) -> str:
        return f"{self.version} ({self.path})" if self.version else self.path


class SyncSpeed(Struct, frozen=True):
    milliseconds: float = 0.0
    error: str = ""


def program(
    name: str, environ: Mapping[str, str], ask: tuple[str, ...] = ("--version",)
) -> ProgramInfo | None:
    """The program with its version, or None if it isn't on the path."""
    path = shutil.which(name, path=environ.get("PATH", os.defpath))
    if path is None:
        return None
    ended = programs.run(programs.Program((path, *ask), VERSION_SECONDS, env=environ))
    said = _VERSION.search(ended.output + ended.errors) if ended.code is not None else None
    return ProgramInfo(path, said.group() if said else "")


def sync_speed(folder: str) -> SyncSpeed:
    """How long a small write takes to be durable there; what it writes is gone afterwards."""
    taken = []
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".agentforge-doctor-") as file:
            for _ in range(SYNCS):
                began = perf_counter()
                os.write(file.fileno(), b"x" * 512)
                files.sync(file.fileno())
                taken.append((perf_counter() - began) * 1000)
    except OSError as error:
        return SyncSpeed(error=f"can't write to {folder}: {error.strerror or error}")
    return SyncSpeed(median(taken))


class Listening(Struct, frozen=True):
    models: tuple[str, ...] | None
    """Nothing if what listens there doesn't answer as a model server does."""


def model_server(port: int, seconds: float = PROBE_SECONDS) -> Listening | None:
    """Asks for the list of models; nothing if nobody listens."""
    connection = HTTPConnection(LOOPBACK, port, timeout=seconds)
    try:
        connection.connect()
    except OSError:
        return None
    try:
        connection.request("GET", "/v1/models")
        answer = connection.getresponse()
        return Listening(_models(answer.read(MOST_BYTES)) if answer.status == 200 else None)
    except (OSError, HTTPException):
        return Listening(None)
    finally:
        connection.close()


def _models(body: bytes) -> tuple[str, ...] | None:
    try:
        found: Any = json.loads(body)["data"] or []
        return tuple(str(model["id"]) for model in found)
    except (ValueError, KeyError, TypeError):
        return None
