"""Keeps other processes of the same user from inspecting this one."""

import sys

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
