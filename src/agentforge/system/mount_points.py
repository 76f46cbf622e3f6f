"""The mount points of all processes (Linux)."""

import os
import re

_ESCAPED = re.compile(rb"\\([0-7]{3})")
_MAX_BYTES = 1 << 22


def mount_points() -> frozenset[str]:
    """Every path that is a mount point for some process, by the process's own name for it."""
    found: set[bytes] = set()
    seen: set[bytes] = set()
    for process in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if process.isdigit():
            listing = _listing(f"/proc/{process}/mountinfo")
            if listing not in seen:
                seen.add(listing)
                found.update(line.split(b" ", 5)[4] for line in listing.splitlines() if line.count(b" ") > 4)
    return frozenset(os.fsdecode(_ESCAPED.sub(_unescaped, path)) for path in found)


def _listing(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return b""  # The process has ended.


def _unescaped(code: "re.Match[bytes]") -> bytes:
    return bytes([int(code[1], 8)])
