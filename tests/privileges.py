"""Root without its power over files, so that permissions count in tests that run as root, too."""

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

_VERSION_3 = 0x20080522
_FILE_POWERS = 0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH.


@contextmanager
def permissions_count() -> Iterator[None]:
    if os.geteuid() != 0:
        yield
        return
    if sys.platform != "linux":
        pytest.skip("privileges: root may read and write everything")
    before = _capabilities()
    _set_capabilities([before[0] & ~_FILE_POWERS, *before[1:]])
    try:
        yield
    finally:
        _set_capabilities(before)


def _capabilities() -> list[int]:
    """Effective, permitted, inheritable; twice, since each has 64 bits."""
    data = (ctypes.c_uint32 * 6)()
    _call("capget", data)
    return list(data)


def _set_capabilities(values: list[int]) -> None:
    _call("capset", (ctypes.c_uint32 * 6)(*values))


def _call(name: str, data: ctypes.Array[ctypes.c_uint32]) -> None:
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(header, data) != 0:
        raise OSError(ctypes.get_errno(), name)
