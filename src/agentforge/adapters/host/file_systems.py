"""Determines the file system of a path. Leases and fsync are only trusted on local file systems."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from agentforge.system.programs import Program, run

# fmt: off
_NETWORK = frozenset({
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "afpfs", "afs", "coda", "ncpfs", "ncp", "ceph",
    "glusterfs", "lustre", "beegfs", "gpfs", "orangefs", "pvfs2", "ocfs2", "gfs2", "webdav",
    "davfs", "ftp", "vboxsf", "vmhgfs", "prl_fs", "drvfs",
})
# Programs behind FUSE that reach over the network or to the host of a virtual machine.
_NETWORK_FUSE = frozenset({
    "sshfs", "s3fs", "rclone", "gcsfuse", "goofys", "curlftpfs", "davfs2", "glusterfs", "ceph",
    "cephfs", "smbnetfs", "juicefs", "seaweedfs", "moosefs", "mfs", "lizardfs", "grpcfuse",
    "osxfs", "vmhgfs-fuse", "blobfuse", "blobfuse2", "mountpoint-s3",
})
# fmt: on

_OCTAL = re.compile(r"\\([0-7]{3})")
_DARWIN_MOUNT = re.compile(r"^.* on (?P<point>/.*) \((?P<type>[^,)]+)")


class MountPoint(Struct, frozen=True):
    point: str
    type: str


def parse_mountinfo(text: str) -> tuple[MountPoint, ...]:
    """Parse Linux's /proc/self/mountinfo; the later of two mounts on one point hides the earlier."""
    mounts = []
    for line in text.split("\n"):
        before, separator, after = line.partition(" - ")
        fields = before.split(" ")
        if separator and len(fields) >= 5:
            point = _OCTAL.sub(lambda match: chr(int(match[1], 8)), fields[4])
            mounts.append(MountPoint(point, after.split(" ")[0]))
    return tuple(mounts)


def parse_mount_output(text: str) -> tuple[MountPoint, ...]:
    """Parse the output of macOS's `mount`: `server:/x on /Volumes/x (nfs, nodev)`."""
    matches = (_DARWIN_MOUNT.match(line) for line in text.split("\n"))
    return tuple(MountPoint(match["point"], match["type"]) for match in matches if match)


def read_mounts() -> Sequence[MountPoint]:
    """The mounts of this machine; empty if they can't be determined."""
    if sys.platform == "darwin":
        return parse_mount_output(run(Program(("/sbin/mount",), 5.0)).output)
    try:
        return parse_mountinfo(Path("/proc/self/mountinfo").read_text(errors="surrogateescape"))
    except OSError:
        return ()


def why_not_local(path: str, mounts: Sequence[MountPoint]) -> str:
    """Why a real path can't hold a log, or "" if it can or its file system is unknown."""
    mount = _mount_of(path, mounts)
    if mount is None or not _is_remote(mount):
        return ""
    return f"{path} is on {mount.point}, a file system of type {mount.type}, which isn't local"


def _mount_of(path: str, mounts: Sequence[MountPoint]) -> MountPoint | None:
    found: MountPoint | None = None
    for mount in mounts:
        inside = f"{path}/".startswith(mount.point.rstrip("/") + "/")
        if inside and (found is None or len(mount.point) >= len(found.point)):
            found = mount
    return found


def _is_remote(mount: MountPoint) -> bool:
    if mount.type == "9p":
        # Shared folders of virtual machines use it, but so does the root of some sandboxes.
        return mount.point != "/"
    kind, _, program = mount.type.partition(".")
    return mount.type in _NETWORK or (kind in ("fuse", "fuseblk", "macfuse") and program in _NETWORK_FUSE)
