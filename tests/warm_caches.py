"""What commands import, and what they make when they first need it: for the processes from which commands are
forked (`tests/fork_server.py`)."""

from contextlib import suppress
from importlib import import_module
from pkgutil import walk_packages

import agentforge

LEFT_OUT = ("agentforge.tool_loop.", "agentforge.testing.", "agentforge.builtin.", "agentforge.__main__")


def import_all() -> None:
    for module in walk_packages(agentforge.__path__, "agentforge."):
        if not module.name.startswith(LEFT_OUT):
            import_module(module.name)


def fill_caches() -> None:
    import ctypes  # noqa: F401
    import difflib  # noqa: F401
    import zoneinfo  # noqa: F401

    from agentforge.model.codec import DamagedLine, decode

    with suppress(DamagedLine):
        decode(b"{}", lambda _: b"")
