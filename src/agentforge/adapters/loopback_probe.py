"""Which model server answers on this machine: a short look at loopback, and nowhere else."""

import json
from http.client import HTTPConnection, HTTPException
from typing import Any

from msgspec import Struct

LOOPBACK = "127.0.0.1"
PROBE_SECONDS = 1.0
MOST_BYTES = 1_000_000


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
