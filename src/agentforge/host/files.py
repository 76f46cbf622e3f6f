"""Small writes of a run's files. What the disk refuses becomes one clear error."""

import os
from types import TracebackType
from typing import Any

import msgspec

from agentforge.model.errors import StorageFailed

_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


class storage:  # noqa: N801 - read as a verb: `with files.storage(path):`
    """Turn what the operating system says about `path` into an error that a person can act on."""

    __slots__ = ("_path",)

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise StorageFailed(
                f"{self._path}: {error.strerror or error}",
                hint="check free space and permissions, then resume: nothing that was recorded is lost",
            ) from error


def make_dir(path: str) -> bool:
    """Make sure that there is such a folder; whether it is a new one."""
    with storage(path):
        try:
            os.mkdir(path)
        except FileExistsError:
            if not os.path.isdir(path):
                raise
            return False
        except FileNotFoundError:
            os.makedirs(path, exist_ok=True)
        return True


def write(path: str, content: bytes) -> None:
    """Write a new file plainly; its folder is made if somebody removed it."""
    with storage(path):
        try:
            _fill(path, content, 0o666)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _fill(path, content, 0o666)


def write_private(path: str, content: bytes) -> None:
    """Write a new file that only its owner may read: it holds an environment, and so may hold secrets."""
    with storage(path):
        _fill(path, content, 0o600)


def replace(path: str, content: bytes, *, draft: str = "") -> None:
    """Replace a file so that a reader sees the old or the new content, never a part.

    The draft has the same name every time, so that what a crash leaves is overwritten. Where others than
    the lease holder may write to the path, the caller names a draft of its own.
    """
    temporary = draft or f"{path}.tmp"
    with storage(path):
        _fill(temporary, content, 0o666)
        os.replace(temporary, path)


def _fill(path: str, content: bytes, mode: int) -> None:
    # Three system calls; a file object makes six, which an engine with many small files feels.
    descriptor = os.open(path, _NEW, mode)
    try:
        written = os.write(descriptor, content)
        while written < len(content):
            written += os.write(descriptor, content[written:])
    finally:
        os.close(descriptor)


def append(path: str, content: bytes) -> None:
    """Add to the end of a file, in one write."""
    with storage(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        try:
            written = os.write(descriptor, content)
            while written < len(content):
                written += os.write(descriptor, content[written:])
        finally:
            os.close(descriptor)


def remove(path: str) -> None:
    with storage(path):
        try:
            os.unlink(path)
        except FileNotFoundError:
            return


def read_text(path: str) -> str | None:
    """The text, with invalid bytes replaced; nothing if there is no such file."""
    content = read_bytes(path)
    return None if content is None else content.decode("utf-8", "replace")


def read_bytes(path: str) -> bytes | None:
    try:
        return _slurp(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageFailed(f"{path}: {error.strerror or error}") from error


def _slurp(path: str) -> bytes:
    """What the file held when it was opened."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)


def listing(path: str) -> list[str]:
    """The names in a folder; none if there is no such folder."""
    with storage(path):
        try:
            return os.listdir(path)
        except FileNotFoundError:
            return []


def pretty(value: Any) -> bytes:
    """JSON as people read it: two spaces, a newline at the end."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"


def compact(value: Any) -> bytes:
    return msgspec.json.encode(value) + b"\n"
