"""Reads what is mounted: for this process, and (Linux) for all processes."""

import os
import re
import sys

from msgspec import Struct

_MAX_BYTES = 1 << 22
_ESCAPED = re.compile(rb"\\([0-3][0-7]{2})")
_DARWIN_MOUNT = r"^.* on (?P<point>/.*) \((?P<type>[^,)]+)"


class MountPoint(Struct, frozen=True):
    point: str
    type: str


def read_mounts() -> tuple[MountPoint, ...]:
    """The mounts of this machine, as this process sees them; empty if they can't be determined."""
    if sys.platform == "darwin":
        from agentforge.system.programs import Program, run  # Loads subprocess.

        return parse_mount_output(run(Program(("/sbin/mount",), 5.0)).output)
    return parse_mountinfo(_mountinfo("self"))


def mount_points() -> frozenset[str]:
    """Every path that is a mount point for some process, by the process's own name for it."""
    processes = os.listdir("/proc") if os.path.isdir("/proc") else ()
    listings: dict[tuple[str, ...], bytes] = {}
    for process in filter(str.isdigit, processes):
        view = _view(process)
        # One that has ended shows nothing, and others may have the same view.
        if not listings.get(view):
            listings[view] = _mountinfo(process)
    return frozenset(mount.point for listing in listings.values() for mount in parse_mountinfo(listing))


def parse_mountinfo(listing: bytes) -> tuple[MountPoint, ...]:
    """Parse a file like /proc/self/mountinfo; the later of two mounts on one point hides the earlier."""
    mounts = []
    for line in listing.split(b"\n"):
        before, separator, after = line.partition(b" - ")
        fields = before.split(b" ")
        if separator and len(fields) >= 5:
            point = _ESCAPED.sub(lambda code: bytes([int(code[1], 8)]), fields[4])
            mounts.append(MountPoint(os.fsdecode(point), os.fsdecode(after.split(b" ", 1)[0])))
    return tuple(mounts)


def parse_mount_output(text: str) -> tuple[MountPoint, ...]:
    """Parse the output of macOS's `mount`: `server:/x on /Volumes/x (nfs, nodev)`."""
    matches = (re.match(_DARWIN_MOUNT, line) for line in text.split("\n"))
    return tuple(MountPoint(match["point"], match["type"]) for match in matches if match)


def _view(process: str) -> tuple[str, ...]:
    """What tells which mounts the process sees, and by which names: most have this in common, and the system
    takes long to list mounts."""
    try:
        return os.readlink(f"/proc/{process}/ns/mnt"), os.readlink(f"/proc/{process}/root")
    except OSError:
        return (process,)


def _mountinfo(process: str) -> bytes:
    try:
        with open(f"/proc/{process}/mountinfo", "rb") as file:
            return file.read(_MAX_BYTES)
    except OSError:
        return b""  # The process has ended, or the system has no such file.
