"""Small writes of a run's files. What the disk refuses becomes one clear error."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from agentforge.model.errors import StorageFailed


@contextmanager
def storage(path: str) -> Iterator[None]:
    """Turn what the operating system says about `path` into an error that a person can act on."""
    try:
        yield
    except OSError as error:
        raise StorageFailed(
            f"{path}: {error.strerror or error}",
            hint="check free space and permissions, then resume: nothing that was recorded is lost",
        ) from error


def make_dir(path: str) -> None:
    with storage(path):
        os.makedirs(path, exist_ok=True)


def write(path: str, content: bytes) -> None:
    """Write a new file plainly."""
    with storage(path), open(path, "wb") as file:
        file.write(content)


def write_private(path: str, content: bytes) -> None:
    """Write a new file that only its owner may read: it holds an environment, and so may hold secrets."""
    with storage(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)


def replace(path: str, content: bytes) -> None:
    """Replace a file so that a reader sees the old or the new content, never a part."""
    temporary = f"{path}.{os.getpid()}.tmp"
    with storage(path):
        with open(temporary, "wb") as file:
            file.write(content)
        os.replace(temporary, path)


def read_text(path: str) -> str | None:
    """The text, with invalid bytes replaced; nothing if there is no such file."""
    content = read_bytes(path)
    return None if content is None else content.decode("utf-8", "replace")


def read_bytes(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageFailed(f"{path}: {error.strerror or error}") from error


def pretty(value: Any) -> bytes:
    """JSON as people read it: two spaces, a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def compact(value: Any) -> bytes:
    return msgspec.json.encode(value) + b"\n"
