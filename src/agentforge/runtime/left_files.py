"""Small files that other processes leave in a run's folder: controls and answers.

They are files, so that any process can write them and nothing is lost if no engine is running. An agent may
write there, too: the name of a file is its id, and what isn't a valid file is refused by the engine.
"""

import errno
import os
import stat
from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec import Struct

from agentforge.model.errors import NOT_JSON, StorageFailed
from agentforge.system import files

T = TypeVar("T")

Refuse = Callable[[str, str], None]
"""Given a path and the reason why what is there can't be used."""

MAX_FILE_BYTES = 256 * 1024
"""More than the longest text with every character escaped."""

_CAN_USE_EFFECTIVE_IDS = os.access in os.supports_effective_ids
_NOT_THE_FILES_FAULT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO})


def leave(_path: str, _reason: str) -> None:
    """For a process that doesn't own the run: its engine refuses what is invalid."""


def is_folder(path: str, refuse: Refuse) -> bool:
    """Whether the folder exists. Anything else in its place, also a link, is refused."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    if not stat.S_ISDIR(mode):
        refuse(path, "it is not a folder")
    elif not os.access(path, os.R_OK | os.W_OK | os.X_OK, effective_ids=_CAN_USE_EFFECTIVE_IDS):
        refuse(path, "it is not readable and writable")
    else:
        return True
    return False


def read_left(path: str, type: type[T]) -> T | None:
    """The content of a small regular file, or None if it is invalid: it must not end the run."""
    try:
        about = os.lstat(path)
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_FILE_BYTES:
            return None
        return msgspec.json.decode(files.read_bytes(path, MAX_FILE_BYTES) or b"", type=type)
    except (FileNotFoundError, UnicodeDecodeError, *NOT_JSON):
        return None
    except StorageFailed as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _NOT_THE_FILES_FAULT:
            raise
        return None


def leave_file(folder: str, id: str, value: Struct) -> bool:
    """Write the file, durably; False if there is one with that id."""
    files.make_dir(folder)
    with files.storage(folder):
        # Even if the folder exists: its creator may have died before it synced the name.
        files.sync_directory(os.path.dirname(folder))
    return files.place(os.path.join(folder, f"{id}.json"), files.compact(value))
