"""System calls of Linux that Python doesn't offer: opening a path without following any link on it, in one
step (openat2, Linux 5.6 and later), keeping other processes from inspecting this one, and keeping the keys of
the user's session from programs.

Without openat2, `folders` walks the path from folder to folder, with the same result. Engines enable it, as
they open files all the time; commands that read a few files are quicker without loading it.
"""

import os
import struct
import sys
from collections.abc import Callable

_NUMBER = 437  # On every architecture that Python 3.11 supports.
_CURRENT_FOLDER = -100
_NO_LINKS = 0x04
_HOW = struct.Struct("QQQ")

_call: Callable[[str, int, int], int] | None = None


def enable_openat2() -> bool:
    """Use the system call from now on if the kernel has it; returns whether it has."""
    global _call  # noqa: PLW0603 - the kernel is the same for the whole process.
    if _call is None and sys.platform == "linux":
        call = _system_call()
        try:
            os.close(call("/", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, 0))
        except OSError:
            return False  # An older kernel, or a container that refuses it.
        _call = call
    return _call is not None


def can_open_without_links(path: str) -> bool:
    """A path of the engine has no `..`, which the system call would follow."""
    return _call is not None and ".." not in path


def open_without_links(path: str, flags: int, mode: int = 0) -> int:
    """Open a path for which `can_open_without_links` holds. Raises OSError, with ELOOP for a link on it."""
    assert _call is not None
    return _call(path, flags, mode if flags & os.O_CREAT else 0)


def _system_call() -> Callable[[str, int, int], int]:
    import ctypes

    system_call, last_error = ctypes.CDLL(None, use_errno=True).syscall, ctypes.get_errno
    system_call.restype = ctypes.c_long
    system_call.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t]

    def call(path: str, flags: int, mode: int) -> int:
        if "\0" in path:
            raise ValueError("embedded null byte")
        how = _HOW.pack(flags, mode, _NO_LINKS)
        descriptor: int = system_call(_NUMBER, _CURRENT_FOLDER, os.fsencode(path), how, len(how))
        if descriptor < 0:
            error = last_error()
            raise OSError(error, os.strerror(error), path)
        return descriptor

    return call


_PR_SET_DUMPABLE = 4


def protect_process() -> bool:
    """Keep the user's other processes, such as agents, from reading the memory and the environment of this
    one (Linux). Returns whether it is protected. It then also leaves no core dump."""
    if sys.platform != "linux":
        return False
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return False
    prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4
    return bool(prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)


# The numbers of the system call, by machine. The supervisor of agents, which imports nothing, has them, too.
_KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219, "loongarch64": 219, "ppc64le": 271, "s390x": 280}
_JOIN_SESSION_KEYRING = 1


def leave_session_keyring() -> None:
    """Give this thread, and the programs that it starts, a new, empty session keyring. Without it, as where a
    container forbids the call, they run all the same."""
    number = _KEYCTL.get(os.uname().machine) if sys.platform == "linux" and sys.maxsize > 2**32 else None
    if number is None:
        return
    try:
        import ctypes

        ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.c_long(_JOIN_SESSION_KEYRING), None)
    except (ImportError, OSError, AttributeError):
        return
