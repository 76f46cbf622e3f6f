"""The lease of a run: an exclusive `flock` on its log, which the kernel releases when the owner dies; and the
file systems on which locks and syncs can be trusted."""

import fcntl
import os
import time
from collections.abc import Callable, Sequence
from threading import RLock

from agentforge.system.files import open_file
from agentforge.system.folders import NotRegular
from agentforge.system.mount_points import MountPoint

# `flock` and not `fcntl` locks: those belong to the process and are lost when it closes any descriptor of the
# file, such as the one of a reader in the same engine. A lock with a time limit that is renewed
# doesn't do: an engine that was stopped for a while, as on a laptop that slept, would lose its run to another
# one and still write.

# A probe holds a shared lock only for an instant; a lock held longer belongs to an owner.
_WAIT_SECONDS = 1.0
_STEP_SECONDS = 0.02

_no_fork = RLock()
_open: set["LogLease"] = set()


class LogLease:
    """The open log, whose descriptor carries the lease until it is closed.

    A fork would share the lock and keep it after the owner's death, so that no engine could recover the run:
    a child process closes its copies.
    """

    def __init__(self, open_log: Callable[[], int]) -> None:
        with _no_fork:
            self.fd = open_log()
            _open.add(self)

    def take(self, sleep: Callable[[float], None] = time.sleep) -> bool:
        """Try for up to a second; returns whether the lease was taken."""
        for _ in range(int(_WAIT_SECONDS / _STEP_SECONDS)):
            if self.take_now():
                return True
            sleep(_STEP_SECONDS)
        return self.take_now()

    def take_now(self) -> bool:
        return _try_lock(self.fd, fcntl.LOCK_EX)

    def close(self) -> None:
        with _no_fork:
            if self.fd >= 0:
                fd, self.fd = self.fd, -1
                _open.discard(self)
                os.close(fd)


def _close_in_child() -> None:
    for lease in list(_open):
        lease.close()
    _no_fork.release()


os.register_at_fork(before=_no_fork.acquire, after_in_parent=_no_fork.release, after_in_child=_close_in_child)


def is_held(path: str) -> bool:
    """Whether this or another process holds the lease now. Only a regular file can have one."""
    try:
        fd = open_file(path)
    except (FileNotFoundError, NotRegular):
        return False
    try:
        return not _try_lock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


# Taken with LOCK_NB only: waiting in the kernel could not be ended.
def _try_lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


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


def why_not_local(path: str, mounts: Sequence[MountPoint]) -> str:
    """Why a real path can't hold a log, or "" if it can or its file system is unknown."""
    # The deepest mount counts, and of those at the same point the last: it hides the others.
    above = (mount for mount in reversed(mounts) if f"{path}/".startswith(mount.point.rstrip("/") + "/"))
    mount = max(above, key=lambda mount: len(mount.point), default=None)
    if mount is None or not _is_remote(mount):
        return ""
    return f"{path} is on {mount.point}, a file system of type {mount.type}, which isn't local"


def _is_remote(mount: MountPoint) -> bool:
    if mount.type == "9p":
        # Shared folders of virtual machines use it, but so does the root of some sandboxes.
        return mount.point != "/"
    kind, _, program = mount.type.partition(".")
    return mount.type in _NETWORK or (kind in ("fuse", "fuseblk", "macfuse") and program in _NETWORK_FUSE)
