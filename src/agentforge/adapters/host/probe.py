"""Probes this machine: programs and their versions, the speed of a durable write, model servers on
loopback."""

import json
import os
import re
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
MAX_BYTES = 1_000_000


class ProgramInfo(Struct, frozen=True):
    path: str
    version: str
    """Empty if unknown."""

    @property
    def summary(self) -> str:
        return f"{self.version} ({self.path})" if self.version else self.path


class SyncSpeed(Struct, frozen=True):
    milliseconds: float = 0.0
    error: str = ""


def program(path: str, environ: Mapping[str, str], ask: tuple[str, ...] = ("--version",)) -> ProgramInfo:
    """The program with its version."""
    ended = programs.run(programs.Program((path, *ask), VERSION_SECONDS, env=environ))
    version = _VERSION.search(ended.output + ended.errors) if ended.code is not None else None
    return ProgramInfo(path, version.group() if version else "")


def sync_speed(folder: str) -> SyncSpeed:
    """Measure how long a small durable write takes in the folder; the test file is removed."""
    durations = []
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".agentforge-doctor-") as file:
            for _ in range(SYNCS):
                began = perf_counter()
                os.write(file.fileno(), b"x" * 512)
                files.sync(file.fileno())
                durations.append((perf_counter() - began) * 1000)
    except OSError as error:
        return SyncSpeed(error=f"can't write to {folder}: {error.strerror or error}")
    return SyncSpeed(median(durations))


class Listening(Struct, frozen=True):
    models: tuple[str, ...] | None
    """None if the listener doesn't answer like a model server."""


def model_server(port: int, seconds: float = PROBE_SECONDS) -> Listening | None:
    """Request the list of models; None if nothing listens on the port."""
    connection = HTTPConnection(LOOPBACK, port, timeout=seconds)
    try:
        connection.connect()
    except OSError:
        return None
    try:
        connection.request("GET", "/v1/models")
        answer = connection.getresponse()
        found: Any = json.loads(answer.read(MAX_BYTES))["data"] or [] if answer.status == 200 else None
        return Listening(None if found is None else tuple(str(model["id"]) for model in found))
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        # Something listens there, and isn't a model server.
        return Listening(None)
    finally:
        connection.close()
